// Package retry is a store that tries again when the one below could not be asked.
//
// Only errors that are objstore.ErrUnavailable are retried, with growing and jittered
// pauses; every other answer is final. A write whose first try failed may have
// happened all the same: when a later try finds the object there with the very same
// content, that is taken as its own success.
package retry

import (
	"cmp"
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"github.com/cenkalti/backoff/v5"

	"orchard/internal/objstore"
	"orchard/internal/seal"
)

// Policy bounds the trying; a zero field takes the default.
type Policy struct {
	Tries   uint          // 8
	Initial time.Duration // first pause, 200 ms
	Max     time.Duration // longest pause, 10 s
}

// Store wraps another store. Safe for concurrent use.
type Store struct {
	objstore.Store
	policy Policy
}

var _ objstore.Store = (*Store)(nil)

// New wraps s.
func New(s objstore.Store, p Policy) *Store { return &Store{s, p.filled()} }

func (p Policy) filled() Policy {
	p.Tries = cmp.Or(p.Tries, 8)
	p.Initial = cmp.Or(p.Initial, 200*time.Millisecond)
	p.Max = cmp.Or(p.Max, 10*time.Second)
	return p
}

// Do calls try, which is told how many tries failed before it, for as long as the policy
// says and the error is objstore.ErrUnavailable.
func Do[T any](ctx context.Context, p Policy, try func(failed int) (T, error)) (T, error) {
	p = p.filled()
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = p.Initial, p.Max
	failed := 0
	out, err := backoff.Retry(ctx, func() (T, error) {
		out, err := try(failed)
		if err != nil && (!errors.Is(err, objstore.ErrUnavailable) || ctx.Err() != nil) {
			return out, backoff.Permanent(err)
		}
		failed++
		return out, err
	}, backoff.WithBackOff(pause), backoff.WithMaxTries(p.Tries), backoff.WithMaxElapsedTime(0))
	var final *backoff.PermanentError
	if errors.As(err, &final) {
		err = final.Err
	}
	return out, err
}

// Create tries again; see the package comment for lost answers.
func (s *Store) Create(ctx context.Context, key string, body objstore.Body) (objstore.Info, error) {
	return Do(ctx, s.policy, func(failed int) (objstore.Info, error) {
		info, err := s.Store.Create(ctx, key, body)
		return s.settle(ctx, key, body, info, err, failed)
	})
}

// Swap tries again; see the package comment for lost answers.
func (s *Store) Swap(ctx context.Context, key string, body objstore.Body, etag string) (objstore.Info, error) {
	return Do(ctx, s.policy, func(failed int) (objstore.Info, error) {
		info, err := s.Store.Swap(ctx, key, body, etag)
		return s.settle(ctx, key, body, info, err, failed)
	})
}

// settle looks whether an object that is in the way is what an earlier try wrote.
func (s *Store) settle(ctx context.Context, key string, body objstore.Body, info objstore.Info, err error, failed int) (objstore.Info, error) {
	if failed == 0 || !errors.Is(err, objstore.ErrExists) {
		return info, err
	}
	there, found, rerr := s.Store.Open(ctx, key, 0, -1)
	if errors.Is(rerr, objstore.ErrNotFound) {
		return info, err
	}
	if rerr != nil {
		return info, rerr
	}
	defer there.Close()
	if found.Size != body.Size() {
		return info, err
	}
	theirs, rerr := seal.Reader(there)
	if rerr != nil {
		return info, rerr
	}
	mine, rerr := body.Open()
	if rerr != nil {
		return info, rerr
	}
	defer mine.Close()
	ours, rerr := seal.Reader(mine)
	if rerr != nil {
		return info, rerr
	}
	if theirs != ours {
		return info, err
	}
	return found, nil
}

// Open tries again, also when the answer breaks off in the middle: it goes on from
// there, as long as the object is still the same.
func (s *Store) Open(ctx context.Context, key string, off, n int64) (io.ReadCloser, objstore.Info, error) {
	type opened struct {
		r    io.ReadCloser
		info objstore.Info
	}
	o, err := Do(ctx, s.policy, func(int) (opened, error) {
		r, info, err := s.Store.Open(ctx, key, off, n)
		return opened{r, info}, err
	})
	if err != nil {
		return nil, objstore.Info{}, err
	}
	return &reader{ctx: ctx, store: s, info: o.info, off: off, n: n, r: o.r}, o.info, nil
}

// reader reads on after a break.
type reader struct {
	ctx    context.Context // of Open, which covers the reading of what it opened
	store  *Store
	info   objstore.Info
	off, n int64 // what is still to read
	r      io.ReadCloser
	breaks uint // since the last byte
}

func (r *reader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	r.off += int64(n)
	if r.n >= 0 {
		r.n -= int64(n)
	}
	if n > 0 {
		r.breaks = 0
	}
	if !errors.Is(err, objstore.ErrUnavailable) {
		return n, err
	}
	if r.breaks++; r.breaks >= r.store.policy.Tries {
		return n, err
	}
	next, info, oerr := r.store.Open(r.ctx, r.info.Key, r.off, r.n)
	if oerr != nil {
		return n, errors.Join(err, oerr)
	}
	if info.ETag != r.info.ETag {
		next.Close()
		return n, err
	}
	r.r.Close()
	r.r = next.(*reader).r
	return n, nil
}

func (r *reader) Close() error { return r.r.Close() }

// Stat tries again.
func (s *Store) Stat(ctx context.Context, key string) (objstore.Info, error) {
	return Do(ctx, s.policy, func(int) (objstore.Info, error) { return s.Store.Stat(ctx, key) })
}

// Delete tries again.
func (s *Store) Delete(ctx context.Context, key string) error {
	_, err := Do(ctx, s.policy, func(int) (struct{}, error) { return struct{}{}, s.Store.Delete(ctx, key) })
	return err
}

// List starts over after a break and leaves out what it has yielded.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[objstore.Info, error] {
	return func(yield func(objstore.Info, error) bool) {
		last, stopped := "", false
		_, err := Do(ctx, s.policy, func(int) (struct{}, error) {
			for info, err := range s.Store.List(ctx, prefix) {
				if err != nil {
					return struct{}{}, err
				}
				if info.Key <= last {
					continue
				}
				last = info.Key
				if stopped = !yield(info, nil); stopped {
					break
				}
			}
			return struct{}{}, nil
		})
		if err != nil && !stopped {
			yield(objstore.Info{}, err)
		}
	}
}
