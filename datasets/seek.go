package datasets

import (
	"context"
	"iter"

	"orchard/datasets/record"
)

// Seeker finds rows by their ids in one pass over a version, since ids are asked for in the
// order in which its rows are: that of another dataset's. Close it in every case.
type Seeker[R record.Row] struct {
	next func() (R, error, bool)
	stop func()
	at   R
	more bool
}

// Seek begins a pass over v.
func Seek[R record.Row](ctx context.Context, v *Version, options ...Option) *Seeker[R] {
	s := &Seeker[R]{more: true}
	s.next, s.stop = iter.Pull2(Rows[R](ctx, v, options...))
	return s
}

// Row is the row of an id that is not before the one that was asked for last; ok is false
// when there is none.
func (s *Seeker[R]) Row(id string) (row R, ok bool, err error) {
	for s.more && s.at.Key() < id {
		if s.at, err, s.more = s.next(); err != nil {
			return row, false, err
		}
	}
	if !s.more || s.at.Key() != id {
		return row, false, nil
	}
	return s.at, true, nil
}

// Close ends the pass.
func (s *Seeker[R]) Close() { s.stop() }
