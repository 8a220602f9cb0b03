package agent

import (
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// pathOf is the query's path, made absolute.
func (s *Server) pathOf(query url.Values) (string, error) {
	path := query.Get("path")
	if path == "" {
		return "", badRequest("path: missing")
	}
	if strings.ContainsRune(path, 0) {
		return "", badRequest("path: %q has a NUL byte", path)
	}
	return s.resolve(path), nil
}

// getFile sends a regular file's bytes.
func (s *Server) getFile(w http.ResponseWriter, r *http.Request) error {
	path, err := s.pathOf(r.URL.Query())
	if err != nil {
		return err
	}
	f, info, err := openRegular(path)
	if err != nil {
		return fileProblem(path, err)
	}
	defer f.Close()
	header := w.Header()
	header.Set("Content-Type", "application/octet-stream")
	header.Set("X-File-Mode", "0"+strconv.FormatUint(uint64(unixMode(info.Mode())), 8))
	header.Set("X-File-Mtime", strconv.FormatInt(info.ModTime().UnixMicro(), 10))
	if info.Size() == 0 { // perhaps a file of /proc, which has bytes all the same
		_, err := io.Copy(w, f)
		return err
	}
	http.ServeContent(w, r, "", time.Time{}, f)
	return nil
}

// openRegular opens path for reading if it is a regular file. It never opens anything
// else: that could block, or wake whoever holds the other end.
func openRegular(path string) (*os.File, os.FileInfo, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	if err := regular(path, info); err != nil {
		return nil, nil, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err = f.Stat() // it may be another one by now
	if err == nil {
		err = regular(path, info)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

func regular(path string, info os.FileInfo) error {
	switch {
	case info.Mode().IsRegular():
		return nil
	case info.IsDir():
		return notFile(path, "is a directory (EISDIR)")
	}
	return notFile(path, "is not a regular file but "+info.Mode().Type().String())
}

// unixMode is a Go mode as chmod has it.
func unixMode(m os.FileMode) uint32 {
	mode := uint32(m.Perm())
	for flag, bit := range map[os.FileMode]uint32{os.ModeSetuid: unix.S_ISUID, os.ModeSetgid: unix.S_ISGID, os.ModeSticky: unix.S_ISVTX} {
		if m&flag != 0 {
			mode |= bit
		}
	}
	return mode
}
