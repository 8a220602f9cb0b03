package envctl

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"orchard/envctl/client"
	"orchard/internal/whole"
)

// downFile copies one file, beside its place and renamed, so that a download that breaks
// off leaves nothing half.
func (k *copying) downFile(ctx context.Context, src, at string) error {
	archive, err := k.box.Download(ctx, src) // as tar, which knows mode and time
	if err != nil {
		return err
	}
	defer archive.Close()
	t := tar.NewReader(archive)
	for {
		h, err := t.Next()
		switch {
		case err == io.EOF:
			return nil // it was skipped, and said
		case err != nil:
			return fmt.Errorf("copy %s: %w", src, err)
		}
		if what, why, ok := client.SkippedEntry(h); ok {
			k.skip(what, why)
		} else if h.Typeflag == tar.TypeReg {
			if err := k.save(t, h, at); err != nil {
				return err
			}
		}
	}
}

func (k *copying) save(r io.Reader, h *tar.Header, at string) error {
	var n int64
	err := whole.Write(at, h.FileInfo().Mode().Perm(), func(f *os.File) (err error) {
		if n, err = io.Copy(f, r); err == nil && n < h.Size {
			err = io.ErrUnexpectedEOF
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("copy to %s: %w", at, err)
	}
	k.files, k.bytes = k.files+1, k.bytes+n
	return nil
}

// downFolder copies what is in the sandbox's folder src into the folder at. The archive
// comes from code that nobody trusts: nothing is written outside of at (os.Root), and links
// that lead out of it are left out.
func (k *copying) downFolder(ctx context.Context, src, at string) error {
	archive, err := k.box.Download(ctx, src)
	if err != nil {
		return err
	}
	defer archive.Close()
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(at)
	if err != nil {
		return err
	}
	defer root.Close()
	var folders []*tar.Header
	t := tar.NewReader(archive)
	for {
		h, err := t.Next()
		if err == io.EOF {
			break
		} else if err != nil {
			return fmt.Errorf("copy %s: %w", src, err)
		}
		if what, why, ok := client.SkippedEntry(h); ok {
			k.skip(path.Join(src, what), why)
			continue
		}
		h.Name = path.Clean(h.Name)
		if !filepath.IsLocal(h.Name) {
			k.skip(path.Join(src, h.Name), "leads out of the folder")
			continue
		}
		if err := k.unpack(root, t, h); errors.Is(err, errArchive) {
			return fmt.Errorf("copy %s: %w", src, err)
		} else if err != nil {
			k.skip(path.Join(src, h.Name), reason(err))
		} else if h.Typeflag == tar.TypeDir {
			folders = append(folders, h)
		}
	}
	// A folder's own mode may forbid what was to be written into it.
	for i := len(folders) - 1; i >= 0; i-- {
		h := folders[i]
		if err := errors.Join(root.Chmod(h.Name, h.FileInfo().Mode().Perm()), root.Chtimes(h.Name, h.ModTime, h.ModTime)); err != nil {
			k.skip(h.Name, reason(err))
		}
	}
	return nil
}

// errArchive is a fault of the archive, after which the rest of it cannot be read.
var errArchive = errors.New("the archive broke off")

func (k *copying) unpack(root *os.Root, t io.Reader, h *tar.Header) error {
	if err := belowLink(root, h.Name); err != nil {
		return err
	}
	if h.Typeflag != tar.TypeDir {
		if err := root.MkdirAll(path.Dir(h.Name), 0o755); err != nil {
			return err
		}
	}
	switch h.Typeflag {
	case tar.TypeDir:
		k.folders++
		return root.MkdirAll(h.Name, 0o700|h.FileInfo().Mode().Perm())
	case tar.TypeSymlink:
		if !k.links && leadsOut(h.Name, h.Linkname) {
			return errors.New("is a link that leads out of the folder, to " + h.Linkname)
		}
		if err := root.Remove(h.Name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		k.files++
		return root.Symlink(h.Linkname, h.Name)
	case tar.TypeReg:
	default:
		return fmt.Errorf("is an entry of type %q", h.Typeflag)
	}
	// What is there is replaced, not written through: it may be a link.
	if err := root.Remove(h.Name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := root.OpenFile(h.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, h.FileInfo().Mode().Perm())
	if err != nil {
		return err
	}
	n, err := io.Copy(f, t)
	if err != nil || n < h.Size {
		return errors.Join(errArchive, err, f.Close())
	}
	k.files, k.bytes = k.files+1, k.bytes+n
	return errors.Join(f.Chmod(h.FileInfo().Mode().Perm()), f.Close(), root.Chtimes(h.Name, h.ModTime, h.ModTime))
}

// leadsOut reports whether a link at name leads out of the folder that name is in.
func leadsOut(name, link string) bool {
	if path.IsAbs(link) {
		return true
	}
	to := path.Join(path.Dir(name), link)
	return to == ".." || strings.HasPrefix(to, "../")
}

// belowLink is an error when name lies below a link: then it is somewhere else than its
// name says, and so is what a link there leads to.
func belowLink(root *os.Root, name string) error {
	for at := path.Dir(name); at != "."; at = path.Dir(at) {
		if info, err := root.Lstat(at); err == nil && info.Mode().Type() == fs.ModeSymlink {
			return errors.New("lies below the link " + at)
		}
	}
	return nil
}
