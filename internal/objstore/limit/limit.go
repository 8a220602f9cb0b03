// Package limit is a store that asks the one below at most so many things at once.
//
// It is for callers that write or open thousands of objects in parallel: a server under
// such a load answers that it is to be slower, and connections run out. A call counts
// until it returns. A reader that Open returned does not count while it is read, nor does
// a listing: whoever holds one and needs another object to go on would wait for itself.
// Put it below package retry, so that a pause keeps nobody out.
package limit

import (
	"context"
	"io"

	"orchard/internal/objstore"
)

// Store wraps another store. Safe for concurrent use.
type Store struct {
	objstore.Store
	slots chan struct{}
}

var _ objstore.Store = (*Store)(nil)

// New wraps s, for at most n calls at once and at least one.
func New(s objstore.Store, n int) *Store { return &Store{s, make(chan struct{}, max(n, 1))} }

// during does one call in a slot.
func during[T any](ctx context.Context, s *Store, call func() (T, error)) (T, error) {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
		return call()
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// Create waits for its turn.
func (s *Store) Create(ctx context.Context, key string, body objstore.Body) (objstore.Info, error) {
	return during(ctx, s, func() (objstore.Info, error) { return s.Store.Create(ctx, key, body) })
}

// Swap waits for its turn.
func (s *Store) Swap(ctx context.Context, key string, body objstore.Body, etag string) (objstore.Info, error) {
	return during(ctx, s, func() (objstore.Info, error) { return s.Store.Swap(ctx, key, body, etag) })
}

// Open waits for its turn, which ends before the first byte is read.
func (s *Store) Open(ctx context.Context, key string, off, n int64) (r io.ReadCloser, info objstore.Info, err error) {
	r, err = during(ctx, s, func() (io.ReadCloser, error) {
		r, info, err = s.Store.Open(ctx, key, off, n)
		return r, err
	})
	return r, info, err
}

// Stat waits for its turn.
func (s *Store) Stat(ctx context.Context, key string) (objstore.Info, error) {
	return during(ctx, s, func() (objstore.Info, error) { return s.Store.Stat(ctx, key) })
}

// Delete waits for its turn.
func (s *Store) Delete(ctx context.Context, key string) error {
	_, err := during(ctx, s, func() (struct{}, error) { return struct{}{}, s.Store.Delete(ctx, key) })
	return err
}
