package rlexport

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"orchard/internal/objstore"
	"orchard/internal/runner"
)

// files grow in a temporary folder while rows are made, so that memory does not depend on
// their number, and are put beside the dataset at the end.
type files struct {
	dir   string
	begun map[string]*file
}

type file struct {
	*bufio.Writer
	f *os.File
}

func (f *files) open() (err error) {
	f.begun = map[string]*file{}
	if f.dir, err = os.MkdirTemp("", "orchard-rl-"); err != nil {
		return fmt.Errorf("temporary folder: %w", err)
	}
	return nil
}

// create begins a file, or goes on with it.
func (f *files) create(name string) (*file, error) {
	if one, ok := f.begun[name]; ok {
		return one, nil
	}
	to, err := os.Create(filepath.Join(f.dir, name))
	if err != nil {
		return nil, err
	}
	one := &file{bufio.NewWriterSize(to, 1<<20), to}
	f.begun[name] = one
	return one, nil
}

// lines appends to a file, which is there afterwards even if b is empty.
func (f *files) lines(name string, b []byte) error {
	to, err := f.create(name)
	if err == nil {
		_, err = to.Write(b)
	}
	return err
}

func (f *files) document(name string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return f.lines(name, append(b, '\n'))
}

// put puts those of the named files that were begun beside the dataset.
func (f *files) put(ctx context.Context, put func(context.Context, string, objstore.Body) (runner.File, error), names ...string) error {
	for _, name := range names {
		one, ok := f.begun[name]
		if !ok {
			continue
		}
		if err := one.Flush(); err != nil {
			return err
		}
		info, err := one.f.Stat()
		if err != nil {
			return err
		}
		if _, err := put(ctx, name, objstore.File{Path: one.f.Name(), Bytes: info.Size()}); err != nil {
			return err
		}
	}
	return nil
}

func (f *files) close() error {
	var errs []error
	for _, one := range f.begun {
		errs = append(errs, one.f.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(f.dir))...)
}
