package retry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"testing"
	"time"

	"orchard/internal/objstore"
	"orchard/internal/objstore/mem"
	"orchard/internal/objstore/objtest"
)

var quick = Policy{Tries: 4, Initial: time.Microsecond, Max: time.Microsecond}

func TestStore(t *testing.T) {
	t.Parallel()
	objtest.Run(t, func(*testing.T) objstore.Store { return New(&mem.Store{}, quick) })
}

// A passing fault at any write, before or after it took effect, is not seen.
func TestWritesSurviveFaults(t *testing.T) {
	t.Parallel()
	for at := 1; at <= 4; at++ {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("write %d after=%v", at, after), func(t *testing.T) {
				t.Parallel()
				faults := &objtest.Faults{Store: &mem.Store{}, At: at, After: after, Once: true}
				s := New(faults, quick)
				info, err := s.Create(t.Context(), "k", objstore.Bytes("one"))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := s.Swap(t.Context(), "k", objstore.Bytes("two"), info.ETag); err != nil {
					t.Fatal(err)
				}
				if b, _, err := objstore.ReadAll(t.Context(), s, "k", 9); string(b) != "two" {
					t.Errorf("content %q, %v", b, err)
				}
				if err := s.Delete(t.Context(), "k"); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

// What another wrote meanwhile is not taken for our own.
func TestLostRaceStaysLost(t *testing.T) {
	t.Parallel()
	below := &mem.Store{}
	faults := &objtest.Faults{Store: below, At: 1, Once: true}
	if _, err := below.Create(t.Context(), "k", objstore.Bytes("two")); err != nil {
		t.Fatal(err)
	}
	_, err := New(faults, quick).Create(t.Context(), "k", objstore.Bytes("one"))
	if !errors.Is(err, objstore.ErrExists) {
		t.Errorf("create: %v", err)
	}
}

// flaky answers ErrUnavailable to everything but the last of some tries.
type flaky struct {
	objstore.Store
	left int
}

func (f *flaky) trouble() error {
	if f.left--; f.left >= 0 {
		return fmt.Errorf("503: %w", objstore.ErrUnavailable)
	}
	return nil
}

func (f *flaky) Stat(ctx context.Context, key string) (objstore.Info, error) {
	if err := f.trouble(); err != nil {
		return objstore.Info{}, err
	}
	return f.Store.Stat(ctx, key)
}

// Open gives one byte and then breaks off.
func (f *flaky) Open(ctx context.Context, key string, off, n int64) (io.ReadCloser, objstore.Info, error) {
	r, info, err := f.Store.Open(ctx, key, off, n)
	if terr := f.trouble(); err == nil && terr != nil {
		r = io.NopCloser(io.MultiReader(io.LimitReader(r, 1), broken{terr}))
	}
	return r, info, err
}

type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }

// List breaks off after the second object.
func (f *flaky) List(ctx context.Context, prefix string) iter.Seq2[objstore.Info, error] {
	return func(yield func(objstore.Info, error) bool) {
		n := 0
		for info, err := range f.Store.List(ctx, prefix) {
			if n++; n > 2 {
				if terr := f.trouble(); terr != nil {
					yield(objstore.Info{}, terr)
					return
				}
			}
			if !yield(info, err) {
				return
			}
		}
	}
}

func TestReadsGoOn(t *testing.T) {
	t.Parallel()
	below := &mem.Store{}
	for i := range 5 {
		if _, err := below.Create(t.Context(), fmt.Sprint("k", i), objstore.Bytes("0123456789")); err != nil {
			t.Fatal(err)
		}
	}
	s := New(&flaky{Store: below, left: 3}, quick)
	r, _, err := s.Open(t.Context(), "k0", 2, 6)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if b, err := io.ReadAll(r); string(b) != "234567" || err != nil {
		t.Errorf("read %q, %v", b, err)
	}
	s = New(&flaky{Store: below, left: 3}, quick)
	var keys []string
	for info, err := range s.List(t.Context(), "k") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, info.Key)
	}
	if got := strings.Join(keys, " "); got != "k0 k1 k2 k3 k4" {
		t.Errorf("listed %s", got)
	}
}

func TestGivesUp(t *testing.T) {
	t.Parallel()
	f := &flaky{Store: &mem.Store{}, left: 100}
	_, err := New(f, quick).Stat(t.Context(), "k")
	if !errors.Is(err, objstore.ErrUnavailable) || f.left != 100-int(quick.Tries) {
		t.Errorf("error %v after %d tries", err, 100-f.left)
	}
	f.left = 100
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	New(f, Policy{Initial: time.Hour}).Stat(ctx, "k") // returns at once
	f.left = 0
	if _, err := New(f, quick).Stat(t.Context(), "k"); !errors.Is(err, objstore.ErrNotFound) {
		t.Errorf("a final answer: %v", err)
	}
}
