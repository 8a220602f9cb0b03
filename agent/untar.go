package agent

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"strings"
	"syscall"

	"orchard/agent/wire"
)

// putTar unpacks the body beneath a folder, as it comes. Unlike a file it is not whole or
// not at all: an archive that ends early has written what came, and the answer says so.
func (s *Server) putTar(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	dir, err := s.pathOf(query)
	if err != nil {
		return err
	}
	if links := query.Get("links"); links != "" && links != "any" {
		return badRequest("links: %q is not any", links)
	}
	_, missing := os.Stat(dir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fileProblem(dir, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fileProblem(dir, err)
	}
	defer root.Close()
	u := &unpacking{root: root, made: missing != nil, anyLinks: query.Get("links") == "any", report: wire.TarReport{Path: dir}}
	err = u.run(r.Body)
	if err == nil {
		return writeJSON(w, http.StatusOK, u.report)
	}
	_, _ = io.Copy(io.Discard, r.Body) // who still sends would not hear the answer
	p := fileProblem(dir, err)
	p.detail += "; " + u.report.String()
	return p
}

// unpacking writes an archive beneath a folder. Nothing is ever written through a link
// that leads out of it (os.Root), whoever made that link.
type unpacking struct {
	root     *os.Root
	made     bool // by this request: else its own mode is nobody's business
	anyLinks bool
	report   wire.TarReport
	open     []folder // those that the newest entry lies in, outermost first
}

// folder is one whose mode and times are set once what it holds is there.
type folder struct {
	name   string
	header *tar.Header
}

// run unpacks all of body. Errors are *problem or the system's.
func (u *unpacking) run(body io.Reader) error {
	plain, err := unzipped(body)
	if err != nil {
		return err
	}
	counted := &counter{from: plain}
	archive := tar.NewReader(counted)
	for {
		before := counted.n
		header, err := archive.Next()
		if err == io.EOF {
			// Only a block of zeros says that the archive is whole.
			if counted.n-before < 512 || counted.zeros < 512 {
				return badRequest("the archive ends early")
			}
			break
		}
		if err != nil {
			return archiveProblem(err)
		}
		if err := u.entry(header, archive); err != nil {
			return err
		}
	}
	if err := u.leave(""); err != nil {
		return err
	}
	// What follows may be padding; a body that was cut, or a checksum, shows here.
	if _, err := io.Copy(io.Discard, plain); err != nil {
		return archiveProblem(err)
	}
	return nil
}

func archiveProblem(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return badRequest("the archive ends early")
	}
	return badRequest("the archive cannot be read: %v", err)
}

// unzipped is body, through gzip when it begins like that.
func unzipped(body io.Reader) (io.Reader, error) {
	ahead := bufio.NewReaderSize(body, blockSize)
	magic, err := ahead.Peek(2)
	if err != nil && err != io.EOF {
		return nil, archiveProblem(err)
	}
	if !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return ahead, nil
	}
	plain, err := gzip.NewReader(ahead)
	if err != nil {
		return nil, archiveProblem(err)
	}
	return plain, nil
}

// counter counts what was read, and how many zeros that ended with.
type counter struct {
	from     io.Reader
	n, zeros int64
}

func (c *counter) Read(b []byte) (int, error) {
	n, err := c.from.Read(b)
	c.n += int64(n)
	end := bytes.TrimRight(b[:n], "\x00")
	if len(end) > 0 {
		c.zeros = 0
	}
	c.zeros += int64(n - len(end))
	return n, err
}

// entryName is a header's name beneath the folder; "." is the folder itself.
func entryName(name string) (string, error) {
	if name == "" || strings.ContainsRune(name, 0) || path.IsAbs(name) {
		return "", badRequest("entry %q: the name is empty or absolute", name)
	}
	for _, part := range strings.Split(name, "/") {
		if part == ".." {
			return "", badRequest("entry %q: the name leads out of the folder", name)
		}
	}
	return path.Clean(name), nil
}

func (u *unpacking) entry(h *tar.Header, content io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	name, err := entryName(h.Name)
	if err != nil {
		return err
	}
	if err := u.leave(name); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeGNUSparse:
		err = u.file(name, h, content)
	case tar.TypeDir:
		err = u.folder(name, h)
	case tar.TypeSymlink:
		err = u.symlink(name, h)
	case tar.TypeLink:
		err = u.link(name, h)
	default:
		return badRequest("entry %q: type %q is no file, folder or link", h.Name, h.Typeflag)
	}
	if err != nil {
		var known *problem
		if errors.As(err, &known) {
			return known
		}
		return fileProblem(fmt.Sprintf("entry %q", h.Name), err)
	}
	return nil
}

func (u *unpacking) file(name string, h *tar.Header, content io.Reader) error {
	f, err := u.fresh(name, func() (*os.File, error) {
		return u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	})
	if err != nil {
		return err
	}
	n, err := copyBlocks(f, content)
	u.report.Bytes += n
	if err != nil {
		f.Close()
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return badRequest("the archive ends early, within entry %q", h.Name)
		}
		return err
	}
	err = errors.Join(f.Chmod(h.FileInfo().Mode()), f.Close(), u.root.Chtimes(name, h.ModTime, h.ModTime))
	if err == nil {
		u.report.Files++
	}
	return err
}

func (u *unpacking) folder(name string, h *tar.Header) error {
	if name == "." && !u.made {
		return nil
	}
	if err := u.root.MkdirAll(name, 0o755); err != nil {
		return err
	}
	// Writable until all is in it.
	if err := u.root.Chmod(name, h.FileInfo().Mode()|0o700); err != nil {
		return err
	}
	u.open = append(u.open, folder{name, h})
	u.report.Directories++
	return nil
}

// fresh makes an entry that is not a folder, in place of what was there, its parents too.
func (u *unpacking) fresh(name string, create func() (*os.File, error)) (*os.File, error) {
	f, err := create()
	if errors.Is(err, fs.ErrNotExist) {
		if err := u.root.MkdirAll(path.Dir(name), 0o755); err != nil {
			return nil, err
		}
		f, err = create()
	}
	if errors.Is(err, fs.ErrExist) {
		info, statErr := u.root.Lstat(name)
		if statErr == nil && info.IsDir() {
			return nil, syscall.EISDIR
		}
		if err := u.root.Remove(name); err != nil {
			return nil, err
		}
		f, err = create()
	}
	return f, err
}

// leave settles the folders that name does not lie in; "" leaves all.
func (u *unpacking) leave(name string) error {
	for len(u.open) > 0 {
		last := u.open[len(u.open)-1]
		if name != "" && (last.name == "." || strings.HasPrefix(name, last.name+"/")) {
			return nil
		}
		u.open = u.open[:len(u.open)-1]
		if err := u.root.Chmod(last.name, last.header.FileInfo().Mode()); err != nil {
			return fileProblem(fmt.Sprintf("entry %q", last.header.Name), err)
		}
		if err := u.root.Chtimes(last.name, last.header.ModTime, last.header.ModTime); err != nil {
			return fileProblem(fmt.Sprintf("entry %q", last.header.Name), err)
		}
	}
	return nil
}
