package limit

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"

	"orchard/internal/objstore"
	"orchard/internal/objstore/mem"
	"orchard/internal/objstore/objtest"
)

func TestStore(t *testing.T) {
	t.Parallel()
	objtest.Run(t, func(*testing.T) objstore.Store { return New(&mem.Store{}, 2) })
}

// busy lets each Stat wait until it is told to go on.
type busy struct {
	objstore.Store
	now, most atomic.Int64
	entered   chan struct{}
	goOn      chan struct{}
}

func (b *busy) Stat(ctx context.Context, key string) (objstore.Info, error) {
	n := b.now.Add(1)
	defer b.now.Add(-1)
	for most := b.most.Load(); n > most && !b.most.CompareAndSwap(most, n); most = b.most.Load() {
	}
	b.entered <- struct{}{}
	<-b.goOn
	return b.Store.Stat(ctx, key)
}

func TestAtMostSoMany(t *testing.T) {
	t.Parallel()
	below := &busy{Store: &mem.Store{}, entered: make(chan struct{}, 20), goOn: make(chan struct{})}
	s := New(below, 3)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { s.Stat(t.Context(), "k") })
	}
	for range 3 {
		<-below.entered
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Stat(ctx, "k"); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting without a context: %v", err)
	}
	close(below.goOn)
	wg.Wait()
	if n := below.most.Load(); n != 3 {
		t.Errorf("%d at once", n)
	}
}

// Readers that are open keep nobody out.
func TestOpenReadersDoNotCount(t *testing.T) {
	t.Parallel()
	s := New(&mem.Store{}, 1)
	if _, err := s.Create(t.Context(), "k", objstore.Bytes("x")); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		r, _, err := s.Open(t.Context(), "k", 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if _, err := io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range s.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Stat(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
	}
}
