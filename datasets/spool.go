package datasets

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"orchard/internal/exit"
	"orchard/internal/objstore"
)

// spool is a temporary file without a name, so that no way to end leaves it behind.
// It is filled first and then is the body of an object.
type spool struct {
	f    *os.File
	path string // it had, for messages
	n    int64
}

var _ objstore.Body = (*spool)(nil)

func newSpool() (*spool, error) {
	f, err := os.CreateTemp("", "orchard-*")
	if err != nil {
		return nil, fmt.Errorf("temporary file: %w", noSpace(err))
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, fmt.Errorf("temporary file: %w", err)
	}
	return &spool{f: f, path: f.Name()}, nil
}

func (s *spool) Write(p []byte) (int, error) {
	n, err := s.f.Write(p)
	s.n += int64(n)
	if err != nil {
		err = fmt.Errorf("temporary file: %w (TMPDIR chooses another folder)", noSpace(err))
	}
	return n, err
}

// noSpace marks a full disk as the store would.
func noSpace(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return exit.Gonef("%w: %w", objstore.ErrNoSpace, err)
	}
	return err
}

// Open reads the content from its start.
func (s *spool) Open() (io.ReadCloser, error) {
	return io.NopCloser(io.NewSectionReader(s.f, 0, s.n)), nil
}

// Size is what was written so far.
func (s *spool) Size() int64 { return s.n }

// Close frees the disk space.
func (s *spool) Close() error { return s.f.Close() }
