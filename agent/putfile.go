package agent

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"orchard/agent/wire"
)

// putFile writes the body to a file, whole or not at all.
func (s *Server) putFile(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	path, err := s.pathOf(query)
	if err != nil {
		return err
	}
	var mode *uint32
	if text := query.Get("mode"); text != "" {
		n, err := strconv.ParseUint(text, 8, 32)
		if err != nil || n > 0o7777 {
			return badRequest("mode: %q is not octal, like 0644", text)
		}
		asked := uint32(n)
		mode = &asked
	}
	info, err := put(path, r.Body, mode)
	if err != nil {
		return fileProblem(path, err)
	}
	return writeJSON(w, http.StatusOK, wire.File{
		Name: filepath.Base(path), Type: "file", Size: info.Size(),
		Mode: unixMode(info.Mode()), ModifiedUS: info.ModTime().UnixMicro(),
	})
}

// put writes from beside path and renames. A link at path stays, its target is
// written. mode nil keeps that of the file there was, or is 0644.
func put(path string, from io.Reader, mode *uint32) (os.FileInfo, error) {
	path, old, err := target(path)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	temp, err := beside(path)
	if err != nil {
		return nil, err
	}
	defer os.Remove(temp.Name()) // there only when not renamed
	defer temp.Close()
	if _, err := io.Copy(temp, from); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, badRequest("%s: the body ended early, nothing was written", path)
		}
		return nil, err
	}
	if err := settle(temp, old, mode); err != nil {
		return nil, err
	}
	err = os.Rename(temp.Name(), path)
	if errors.Is(err, syscall.EBUSY) { // a mount, as /etc/hosts is in many containers
		err = overwrite(path, temp)
	}
	if err != nil {
		return nil, err
	}
	return os.Stat(path)
}

// target follows links from path to the file to write. old is nil when there is none.
func target(path string) (real string, old os.FileInfo, err error) {
	for range 40 { // as many as the kernel follows
		info, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return path, nil, nil
		}
		if err != nil {
			return "", nil, err
		}
		if info.Mode().Type() != os.ModeSymlink {
			return path, info, regular(path, info)
		}
		link, err := os.Readlink(path)
		if err != nil {
			return "", nil, err
		}
		if !filepath.IsAbs(link) {
			link = filepath.Dir(path) + "/" + link // not Join: ".." may lead through a link
		}
		path = link
	}
	return "", nil, syscall.ELOOP
}

// beside makes a file of a name that nobody can have planted, in path's folder.
func beside(path string) (*os.File, error) {
	name := filepath.Dir(path) + "/.orchard-put-" + rand.Text()
	return os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
}

// settle gives temp the mode asked for, or mode and owner of the file it replaces.
func settle(temp *os.File, old os.FileInfo, mode *uint32) error {
	bits := uint32(0o644)
	if old != nil {
		bits = unixMode(old.Mode())
		if owner, ok := old.Sys().(*syscall.Stat_t); ok {
			_ = temp.Chown(int(owner.Uid), int(owner.Gid)) // only root can, and else it is ours already
		}
	}
	if mode != nil {
		bits = *mode
	}
	return unix.Fchmod(int(temp.Fd()), bits)
}

// overwrite copies temp into the file at path, which cannot be replaced.
func overwrite(path string, temp *os.File) error {
	if _, err := temp.Seek(0, io.SeekStart); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	if _, err := io.Copy(f, temp); err != nil {
		f.Close()
		return fmt.Errorf("overwrite in place: %w", err)
	}
	return f.Close()
}
