package agent

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"orchard/agent/wire"
)

// listFiles sends a folder's entries, one by one: a folder may have very many.
func (s *Server) listFiles(w http.ResponseWriter, r *http.Request) error {
	path, err := s.pathOf(r.URL.Query())
	if err != nil {
		return err
	}
	names, err := namesIn(path)
	if err != nil {
		return fileProblem(path, err)
	}
	shown, err := json.Marshal(path)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	return buffered(w, func(out *bufio.Writer) error {
		fmt.Fprintf(out, `{"path":%s,"files":[`, shown)
		for i, name := range names {
			entry, err := json.Marshal(entryOf(path, name))
			if err != nil {
				return err
			}
			if i > 0 {
				_ = out.WriteByte(',')
			}
			if _, err := out.Write(entry); err != nil {
				return err
			}
		}
		_, err := out.WriteString("]}\n")
		return err
	})
}

// namesIn reads a folder's names, sorted by byte.
func namesIn(path string) ([]string, error) {
	dir, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ENOTDIR) {
		return nil, badRequest("%s: is not a directory (ENOTDIR)", path)
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	return names, nil
}

// entryOf describes what the entry leads to, or itself when that cannot be reached.
// It opens nothing.
func entryOf(folder, name string) wire.File {
	path := folder + "/" + name
	f := wire.File{Name: name, Type: "other"}
	info, err := os.Stat(path)
	if err != nil {
		f.Error = describe(err)
		if info, err = os.Lstat(path); err != nil {
			return f
		}
	}
	switch mode := info.Mode(); {
	case mode.IsRegular():
		f.Type = "file"
	case mode.IsDir():
		f.Type = "directory"
	case mode.Type() == os.ModeSymlink:
		f.Type = "symlink"
	}
	f.Size, f.Mode, f.ModifiedUS = info.Size(), unixMode(info.Mode()), info.ModTime().UnixMicro()
	return f
}
