package agent

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"orchard/agent/wire"
)

// getTar packs a folder's content, or one file, as it reads it. What cannot be packed is
// told in its place; an answer that is cut has no end, as every reader of tar notices.
func (s *Server) getTar(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	at, err := s.pathOf(query)
	if err != nil {
		return err
	}
	dir, name := filepath.Split(strings.TrimRight(at, "/"))
	info, err := os.Stat(at)
	if err != nil {
		return fileProblem(at, err)
	}
	if info.IsDir() {
		dir, name = at, "."
	} else if !info.Mode().IsRegular() {
		return fileProblem(at, regular(at, info))
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fileProblem(at, err)
	}
	defer root.Close()
	w.Header().Set("Content-Type", "application/x-tar")
	w.Header().Set("Trailer", wire.TrailerEntries+", "+wire.TrailerSkipped)
	p := &packing{root: root}
	if err := p.send(w, name, query.Get("gzip") == "1"); err != nil {
		return fmt.Errorf("pack %s: %w", at, err)
	}
	w.Header().Set(wire.TrailerEntries, strconv.FormatInt(p.entries, 10))
	w.Header().Set(wire.TrailerSkipped, strconv.FormatInt(p.skipped, 10))
	return nil
}

// packing writes a folder as tar. It reads through a handle on the folder, so that a
// folder which is swapped for a link meanwhile leads nowhere else.
type packing struct {
	root             *os.Root
	out              *tar.Writer
	entries, skipped int64
}

// send writes the whole archive. An error means that to is of no use any more.
func (p *packing) send(to io.Writer, name string, zip bool) error {
	end := func() error { return nil }
	if zip {
		zipped := gzip.NewWriter(to)
		to, end = zipped, zipped.Close
	}
	p.out = tar.NewWriter(to)
	if err := p.pack(name); err != nil {
		return err
	}
	return errors.Join(p.out.Close(), end())
}

// pack adds an entry and what lies below it.
func (p *packing) pack(name string) error {
	info, err := p.root.Lstat(name)
	if err != nil {
		return p.skip(name, describe(err))
	}
	switch info.Mode().Type() {
	case 0:
		return p.file(name)
	case fs.ModeDir:
		return p.folder(name, info)
	case fs.ModeSymlink:
		target, err := p.root.Readlink(name)
		if err != nil {
			return p.skip(name, describe(err))
		}
		return p.header(name, info, target)
	}
	return p.skip(name, "is not a file, folder or link but "+info.Mode().Type().String())
}

func (p *packing) folder(name string, info fs.FileInfo) error {
	dir, err := p.root.OpenFile(name, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return p.skip(name, describe(err))
	}
	names, err := dir.Readdirnames(-1)
	dir.Close()
	if err := p.header(name+"/", info, ""); err != nil {
		return err
	}
	if err != nil {
		if err := p.skip(name+"/", "not all of it could be listed: "+describe(err)); err != nil {
			return err
		}
	}
	slices.Sort(names)
	for _, below := range names {
		if err := p.pack(path.Join(name, below)); err != nil {
			return err
		}
	}
	return nil
}

func (p *packing) file(name string) error {
	f, err := p.root.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return p.skip(name, describe(err))
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return p.skip(name, "was replaced while it was read")
	}
	if err := p.header(name, info, ""); err != nil {
		return err
	}
	whole := &sure{from: f}
	if _, err := copyBlocks(p.out, io.LimitReader(whole, info.Size())); err != nil || whole.err == nil {
		return err
	}
	return p.skip(name, fmt.Sprintf("%d of its %d bytes were read, the rest is zeros: %s", whole.n, info.Size(), describe(whole.err)))
}

// sure is a reader of a file whose size is said already: where that ends or fails too early
// it goes on with zeros, and remembers why.
type sure struct {
	from io.Reader
	n    int64
	err  error
}

func (s *sure) Read(b []byte) (int, error) {
	if s.err == nil {
		n, err := s.from.Read(b)
		s.n, s.err = s.n+int64(n), err
		if n > 0 {
			return n, nil
		}
	}
	clear(b)
	return len(b), nil
}

func (p *packing) header(name string, info fs.FileInfo, target string) error {
	h, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return p.skip(name, err.Error())
	}
	if name == "./" {
		h.Name = name
	} else {
		h.Name = strings.TrimPrefix(name, "./")
	}
	// Times to the nanosecond: builds compare them. Owners are the sandbox's own.
	h.Format, h.Uname, h.Gname = tar.FormatPAX, "", ""
	h.AccessTime, h.ChangeTime = time.Time{}, time.Time{}
	if err := p.out.WriteHeader(h); err != nil {
		return fmt.Errorf("entry %q: %w", name, err)
	}
	p.entries++
	return nil
}

// skip tells in the archive that an entry is not in it, or not as it should be.
func (p *packing) skip(name, reason string) error {
	p.skipped++
	text, err := json.Marshal(wire.Skipped{Path: name, Reason: reason})
	if err != nil {
		return err
	}
	return p.out.WriteHeader(&tar.Header{
		Typeflag: tar.TypeXGlobalHeader, Name: "orchard-skipped",
		PAXRecords: map[string]string{"comment": wire.SkippedComment + string(text)},
	})
}
