package workspace

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// packTar writes the files below dir to a tar file, without any .git folder: names
// relative to dir, owners root, modes as they are.
func packTar(dir, file string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	w := tar.NewWriter(f)
	err = filepath.WalkDir(dir, func(full string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.Name() == ".git" {
			return fs.SkipDir
		}
		name, err := filepath.Rel(dir, full)
		if err != nil || name == "." {
			return err
		}
		return packEntry(w, full, name, d)
	})
	return errors.Join(err, w.Close(), f.Close())
}

func packEntry(w *tar.Writer, full, name string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	var target string
	if info.Mode()&fs.ModeSymlink != 0 {
		if target, err = os.Readlink(full); err != nil {
			return err
		}
	}
	h, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	h.Name, h.Uid, h.Gid, h.Uname, h.Gname = name, 0, 0, "", ""
	if err := w.WriteHeader(h); err != nil || !info.Mode().IsRegular() {
		return err
	}
	f, err := os.Open(full)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}

// unpackTar writes below dir the regular files and symlinks of a tar file that a sandbox
// made. Whatever the file says, nothing outside of dir is touched: every path is
// resolved within it. Devices, sockets and .git folders are left out, as git would.
func unpackTar(r io.Reader, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for t := tar.NewReader(r); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := path.Clean(strings.TrimPrefix(h.Name, "./"))
		if !local(name) {
			continue
		}
		if err := unpackEntry(root, t, h, name); err != nil {
			return err
		}
	}
}

func unpackEntry(root *os.Root, t *tar.Reader, h *tar.Header, name string) error {
	if h.Typeflag == tar.TypeDir {
		return nil // git knows no empty folder
	}
	if d := path.Dir(name); d != "." {
		if err := root.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	switch h.Typeflag {
	case tar.TypeSymlink:
		return root.Symlink(h.Linkname, name)
	case tar.TypeLink:
		return unpackLink(root, path.Clean(strings.TrimPrefix(h.Linkname, "./")), name)
	case tar.TypeReg, tar.TypeGNUSparse:
		return writeFile(root, name, t, fs.FileMode(h.Mode)&0o777|0o600)
	}
	return nil
}

// unpackLink copies what a hard link in a tar file names, which came before it.
func unpackLink(root *os.Root, target, name string) error {
	f, err := root.Open(target)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return writeFile(root, name, f, info.Mode().Perm())
}

func writeFile(root *os.Root, name string, r io.Reader, mode fs.FileMode) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}
