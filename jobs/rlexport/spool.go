package rlexport

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/objstore/dir"
)

// spool sorts rows by id on disk, so that groups and their rollouts can be joined in
// bounded memory: it is a dataset in a temporary folder. Close it in every case.
type spool[R record.Row] struct {
	path string
	w    *datasets.Writer[R]
	n    int64
	v    *datasets.Version // once it is read
}

func newSpool[R record.Row]() (*spool[R], error) {
	path, err := os.MkdirTemp("", "orchard-rl-")
	if err != nil {
		return nil, fmt.Errorf("temporary folder: %w", err)
	}
	s := &spool[R]{path: path}
	store, err := dir.Open(path)
	if err == nil {
		s.w, err = datasets.NewWriter[R](store, "spool", datasets.WriterOptions{Sort: true})
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(path))
	}
	return s, nil
}

func (s *spool[R]) add(ctx context.Context, row R) error {
	s.n++
	return s.w.Write(ctx, row)
}

// rows yields all rows by id; none is added afterwards.
func (s *spool[R]) rows(ctx context.Context) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		var zero R
		if s.v == nil {
			if _, _, err := s.w.Commit(ctx, datasets.Meta{RowsIn: s.n, Stage: datasets.Stage{Name: name, Version: Version}}); err != nil {
				yield(zero, err)
				return
			}
			store, err := dir.Open(s.path)
			if err == nil {
				s.v, err = datasets.OpenIn(ctx, store, "spool", "")
			}
			if err != nil {
				yield(zero, err)
				return
			}
		}
		datasets.Rows[R](ctx, s.v, datasets.InFlight(16<<20))(yield)
	}
}

func (s *spool[R]) close() error { return errors.Join(s.w.Close(), os.RemoveAll(s.path)) }

// closing adds what closing says to an error.
func closing(err *error, closer func() error) { *err = errors.Join(*err, closer()) }
