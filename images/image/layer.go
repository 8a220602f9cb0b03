// Package image makes container images out of files, without a daemon: the same files and
// settings give the same bytes, wherever and whenever they are put together. It knows
// nothing of what the files are, and runs nothing.
package image

import (
	"archive/tar"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// File is one entry of a layer. It belongs to root, and what is in it comes from Source, a
// path of this machine, or else from Data. Of that path nothing but its bytes counts.
type File struct {
	Path   string      // absolute
	Mode   fs.FileMode // a file, a folder or a symbolic link; 0 is a file of 0644
	Source string
	Data   []byte
	Link   string    // where a symbolic link points
	Time   time.Time // none is the first second of 1970
}

// Dir and Symlink are the entries that are no files.
func Dir(path string, perm fs.FileMode) File { return File{Path: path, Mode: fs.ModeDir | perm} }

// Symlink is an entry at path that points at target.
func Symlink(path, target string) File {
	return File{Path: path, Mode: fs.ModeSymlink | 0o777, Link: target}
}

// layer is a tar file that is put together each time somebody reads it.
type layer struct {
	files  []File
	diffID func() (v1.Hash, error)
}

func newLayer(files []File) (v1.Layer, error) {
	files, err := arrange(files)
	if err != nil {
		return nil, err
	}
	l := &layer{files: files}
	l.diffID = sync.OnceValues(func() (v1.Hash, error) {
		r, err := l.Uncompressed()
		if err != nil {
			return v1.Hash{}, err
		}
		defer r.Close()
		h, _, err := v1.SHA256(r)
		return h, err
	})
	return partial.UncompressedToLayer(l)
}

func (l *layer) DiffID() (v1.Hash, error)            { return l.diffID() }
func (l *layer) MediaType() (types.MediaType, error) { return types.DockerLayer, nil }
func (l *layer) Uncompressed() (io.ReadCloser, error) {
	r, w := io.Pipe()
	go func() { w.CloseWithError(writeTar(w, l.files)) }() // ends when r is closed
	return r, nil
}

// arrange sorts files by path, adds the folders above them, and refuses what no layer can hold.
func arrange(files []File) ([]File, error) {
	all := map[string]File{}
	for _, f := range files {
		if !path.IsAbs(f.Path) || path.Clean(f.Path) != f.Path || f.Path == "/" {
			return nil, fmt.Errorf("file %q: want a clean absolute path in the image", f.Path)
		}
		if f.Mode == 0 {
			f.Mode = 0o644
		}
		if t := f.Mode.Type(); t != 0 && t != fs.ModeDir && t != fs.ModeSymlink {
			return nil, fmt.Errorf("file %s is a %s; an image holds files, folders and symbolic links", f.Path, t)
		}
		if _, twice := all[f.Path]; twice {
			return nil, fmt.Errorf("file %s is there twice", f.Path)
		}
		all[f.Path] = f
	}
	for _, f := range files {
		for dir := path.Dir(f.Path); dir != "/"; dir = path.Dir(dir) {
			above, there := all[dir]
			if there && !above.Mode.IsDir() {
				return nil, fmt.Errorf("file %s lies below %s, which is no folder", f.Path, dir)
			}
			if !there {
				all[dir] = Dir(dir, 0o755)
			}
		}
	}
	sorted := make([]File, 0, len(all))
	for _, f := range all {
		sorted = append(sorted, f)
	}
	slices.SortFunc(sorted, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	return sorted, nil
}

func writeTar(w io.Writer, files []File) error {
	t := tar.NewWriter(w)
	for _, f := range files {
		if err := writeFile(t, f); err != nil {
			return fmt.Errorf("put %s into a layer: %w", f.Path, err)
		}
	}
	return t.Close()
}

func writeFile(t *tar.Writer, f File) (err error) {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(f.Path, "/"), Mode: int64(f.Mode.Perm()), ModTime: time.Unix(0, 0), Size: int64(len(f.Data))}
	if !f.Time.IsZero() {
		h.ModTime = f.Time.Truncate(time.Second)
	}
	if f.Mode&fs.ModeSticky != 0 {
		h.Mode |= 0o1000
	}
	content := io.Reader(bytes.NewReader(f.Data))
	switch {
	case f.Mode.IsDir():
		h.Typeflag, h.Name = tar.TypeDir, h.Name+"/"
	case f.Mode.Type() == fs.ModeSymlink:
		h.Typeflag, h.Linkname = tar.TypeSymlink, f.Link
	case f.Source != "":
		opened, err := os.Open(f.Source)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, opened.Close()) }()
		info, err := opened.Stat()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s is no file", f.Source)
		}
		h.Size, content = info.Size(), opened
	}
	if err := t.WriteHeader(h); err != nil {
		return err
	}
	if h.Typeflag != tar.TypeReg {
		return nil
	}
	_, err = io.Copy(t, content)
	return err
}
