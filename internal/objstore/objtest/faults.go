package objtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"
	"syscall"

	"orchard/internal/objstore"
)

// ErrFault is what a store answers after the fault that Faults made.
var ErrFault = errors.New("injected fault")

// Faults is a store that breaks at a chosen write: before it or after it took effect.
// From then on every call fails, as nothing more comes of a killed process. Create,
// Swap and Delete are writes; a Create that finds its object there counts as well.
//
// Set the fields before use. Safe for concurrent use.
type Faults struct {
	objstore.Store
	At    int  // the write that breaks, counted from 1; 0 only counts
	After bool // the write takes effect, but its caller gets the error
	// Once makes a passing fault of it: only that write fails, with an error that is
	// also objstore.ErrUnavailable.
	Once bool
	// Kill ends this process by SIGKILL instead of answering.
	Kill bool

	mu     sync.Mutex
	writes []string
	dead   bool
}

var _ objstore.Store = (*Faults)(nil)

// Writes is each write so far, such as "create tasks/data/….arrow".
func (f *Faults) Writes() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.writes...)
}

// Create is a write.
func (f *Faults) Create(ctx context.Context, key string, body objstore.Body) (info objstore.Info, err error) {
	err = f.write("create "+key, func() error {
		info, err = f.Store.Create(ctx, key, body)
		return err
	})
	return info, err
}

// Swap is a write.
func (f *Faults) Swap(ctx context.Context, key string, body objstore.Body, etag string) (info objstore.Info, err error) {
	err = f.write("swap "+key, func() error {
		info, err = f.Store.Swap(ctx, key, body, etag)
		return err
	})
	return info, err
}

// Delete is a write.
func (f *Faults) Delete(ctx context.Context, key string) error {
	return f.write("delete "+key, func() error { return f.Store.Delete(ctx, key) })
}

// Open fails once the store is dead.
func (f *Faults) Open(ctx context.Context, key string, off, n int64) (io.ReadCloser, objstore.Info, error) {
	if err := f.alive(); err != nil {
		return nil, objstore.Info{}, err
	}
	return f.Store.Open(ctx, key, off, n)
}

// List fails once the store is dead.
func (f *Faults) List(ctx context.Context, prefix string) iter.Seq2[objstore.Info, error] {
	if err := f.alive(); err != nil {
		return func(yield func(objstore.Info, error) bool) { yield(objstore.Info{}, err) }
	}
	return f.Store.List(ctx, prefix)
}

// Stat fails once the store is dead.
func (f *Faults) Stat(ctx context.Context, key string) (objstore.Info, error) {
	if err := f.alive(); err != nil {
		return objstore.Info{}, err
	}
	return f.Store.Stat(ctx, key)
}

func (f *Faults) alive() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dead {
		return fmt.Errorf("%s: %w", f.Store, ErrFault)
	}
	return nil
}

func (f *Faults) write(what string, do func() error) error {
	f.mu.Lock()
	if f.dead {
		f.mu.Unlock()
		return fmt.Errorf("%s: %w", what, ErrFault)
	}
	f.writes = append(f.writes, what)
	hit := len(f.writes) == f.At
	if hit && !f.Once {
		f.dead = true
	}
	f.mu.Unlock()
	if !hit {
		return do()
	}
	if f.After {
		if err := do(); err != nil {
			return err
		}
	}
	if f.Kill {
		syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
		select {} // the signal is on its way
	}
	if f.Once {
		return fmt.Errorf("%s: %w: %w", what, objstore.ErrUnavailable, ErrFault)
	}
	return fmt.Errorf("%s: %w", what, ErrFault)
}
