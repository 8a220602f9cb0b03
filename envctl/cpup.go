package envctl

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// upFolder copies what is in src into the sandbox's folder at, as a tar that is packed
// while it is sent.
func (k *copying) upFolder(ctx context.Context, src, at string) error {
	r, w := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		err := k.pack(src, w)
		w.CloseWithError(err)
		packed <- err
	}()
	report, err := k.box.Upload(ctx, at, r, true)
	r.CloseWithError(io.ErrClosedPipe) // ends the packing, should the service have ended first
	if packErr := <-packed; packErr != nil && !errors.Is(packErr, io.ErrClosedPipe) {
		return packErr
	}
	if err != nil {
		return err
	}
	k.files, k.folders, k.bytes = int(report.Files+report.Links), int(report.Directories), report.Bytes
	return nil
}

// pack writes src and everything below it. What cannot be packed is skipped.
func (k *copying) pack(src string, to io.Writer) error {
	out := tar.NewWriter(to)
	err := filepath.WalkDir(src, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			k.skip(at, reason(err))
			return nil
		}
		name, err := filepath.Rel(src, at)
		if err != nil {
			return err
		}
		return k.packOne(out, at, filepath.ToSlash(name))
	})
	if err != nil {
		return err
	}
	return out.Close()
}

func (k *copying) packOne(out *tar.Writer, at, name string) error {
	info, err := os.Lstat(at)
	if name == "." { // it may be a link to the folder
		info, err = os.Stat(at)
	}
	if err != nil {
		k.skip(at, reason(err))
		return nil
	}
	var link string
	var content *os.File
	switch info.Mode().Type() {
	case fs.ModeDir:
	case fs.ModeSymlink:
		if link, err = os.Readlink(at); err != nil {
			k.skip(at, reason(err))
			return nil
		}
	case 0:
		if content, err = os.Open(at); err != nil {
			k.skip(at, reason(err))
			return nil
		}
		defer content.Close()
		if info, err = content.Stat(); err != nil {
			k.skip(at, reason(err))
			return nil
		}
	default:
		k.skip(at, "is not a file, folder or link but "+info.Mode().Type().String())
		return nil
	}
	h, err := tar.FileInfoHeader(info, link)
	if err != nil {
		k.skip(at, reason(err))
		return nil
	}
	h.Name = name
	if info.IsDir() {
		h.Name += "/"
	}
	h.Uid, h.Gid, h.Uname, h.Gname = 0, 0, "", ""
	h.Format, h.AccessTime, h.ChangeTime = tar.FormatPAX, time.Time{}, time.Time{}
	if err := out.WriteHeader(h); err != nil {
		return fmt.Errorf("pack %s: %w", at, err)
	}
	if content == nil {
		return nil
	}
	// A file that shrinks meanwhile would leave the archive short of what it announced.
	n, err := io.CopyN(out, content, h.Size)
	if err == io.EOF {
		k.skip(at, fmt.Sprintf("shrank to %d of %d bytes while it was read; the rest is zeros", n, h.Size))
		_, err = io.CopyN(out, zeros{}, h.Size-n)
	}
	if err != nil {
		return fmt.Errorf("pack %s: %w", at, err)
	}
	return nil
}

// zeros reads as many zeros as one likes.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// reason is an error without the path, which is said before it.
func reason(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}
