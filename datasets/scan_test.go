package datasets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/objstore"
	"orchard/internal/objstore/mem"
)

// remote hides what a store's readers can do beyond reading on, as a bucket's do.
type remote struct{ objstore.Store }

func (r remote) Open(ctx context.Context, key string, off, n int64) (io.ReadCloser, objstore.Info, error) {
	b, info, err := r.Store.Open(ctx, key, off, n)
	if err != nil {
		return nil, info, err
	}
	return struct {
		io.Reader
		io.Closer
	}{b, b}, info, nil
}

// many is rows of several batches in several shards: n grows, so that statistics can
// rule shards out.
func many(count int) []note {
	rows := make([]note, count)
	for i := range rows {
		n := int64(i / 100)
		rows[i] = note{ID: fmt.Sprintf("%06d", i), Text: record.Text{Value: fmt.Sprintf("text %d", i%7), Bytes: int64(i % 13)}, Next: []string{}}
		if i%3 > 0 {
			rows[i].N = &n
		}
	}
	return rows
}

// However a version is read, it gives what filtering all rows by hand gives.
func TestScanIsExact(t *testing.T) {
	t.Parallel()
	rows := many(10_000)
	local := folder(t, t.TempDir())
	digest := mustCommit(t, local, "notes", rows, meta(len(rows), 0), WriterOptions{ShardBytes: 1}).Digest()
	stores := []objstore.Store{local, remote{local}}
	rapid.Check(t, func(rt *rapid.T) {
		v, err := OpenIn(t.Context(), stores[rapid.IntRange(0, 1).Draw(rt, "store")], "notes", digest)
		if err != nil {
			rt.Fatal(err)
		}
		n, b := int64(rapid.IntRange(-1, 101).Draw(rt, "n")), int64(rapid.IntRange(0, 14).Draw(rt, "bytes"))
		opts := []Option{Workers(rapid.IntRange(0, 4).Draw(rt, "workers")), InFlight(rapid.Int64Range(0, 1<<20).Draw(rt, "in flight"))}
		var conditions []func(note) bool
		if rapid.Bool().Draw(rt, "where n") {
			opts = append(opts, Where("n", ">=", n))
			conditions = append(conditions, func(r note) bool { return r.N != nil && *r.N >= n })
		}
		if rapid.Bool().Draw(rt, "where bytes") {
			opts = append(opts, Where("text.bytes", "==", b))
			conditions = append(conditions, func(r note) bool { return r.Text.Bytes == b })
		}
		narrow, unordered := rapid.Bool().Draw(rt, "columns"), rapid.Bool().Draw(rt, "unordered")
		if narrow {
			opts = append(opts, WithColumns("id", "text.value"))
		}
		if unordered {
			opts = append(opts, Unordered())
		}
		want := []note{}
		for _, r := range rows {
			if slices.ContainsFunc(conditions, func(holds func(note) bool) bool { return !holds(r) }) {
				continue
			}
			if narrow {
				r = note{ID: r.ID, Text: record.Text{Value: r.Text.Value}}
			}
			want = append(want, r)
		}
		got := []note{}
		for r, err := range Rows[note](t.Context(), v, opts...) {
			if err != nil {
				rt.Fatal(err)
			}
			got = append(got, r)
		}
		if unordered {
			slices.SortFunc(got, func(a, b note) int { return strings.Compare(a.ID, b.ID) })
		}
		if d := cmp.Diff(want, got); d != "" {
			rt.Fatalf("-want +got:\n%s", d)
		}
	})
}

// counted counts the opened objects and those that are still open.
type counted struct {
	objstore.Store
	opened, open chan struct{}
}

func (c counted) Open(ctx context.Context, key string, off, n int64) (io.ReadCloser, objstore.Info, error) {
	r, info, err := c.Store.Open(ctx, key, off, n)
	if err == nil {
		c.opened <- struct{}{}
		c.open <- struct{}{}
		if at, ok := r.(io.ReaderAt); ok {
			r = struct {
				*countedReader
				io.ReaderAt
			}{&countedReader{r, c.open}, at}
		} else {
			r = &countedReader{r, c.open}
		}
	}
	return r, info, err
}

type countedReader struct {
	io.ReadCloser
	open chan struct{}
}

func (c *countedReader) Close() error {
	<-c.open
	return c.ReadCloser.Close()
}

func TestStatisticsSpareShards(t *testing.T) {
	t.Parallel()
	s := counted{&mem.Store{}, make(chan struct{}, 1000), make(chan struct{}, 1000)}
	rows := many(20_000)
	v := mustCommit(t, s, "notes", rows, meta(len(rows), 0), WriterOptions{ShardBytes: 1})
	if n := len(v.Manifest().Shards); n != 5 {
		t.Fatalf("%d shards", n)
	}
	for _, c := range []struct {
		where []Option
		rows  int
		reads int
	}{
		{nil, 20_000, 5},
		{[]Option{Where("id", "==", "000007")}, 1, 1},
		{[]Option{Where("id", "==", "000000")}, 1, 1},
		{[]Option{Where("id", ">=", "019999")}, 1, 1},
		{[]Option{Where("n", ">", 150)}, 3267, 2},
		{[]Option{Where("n", ">", 150), Where("text.bytes", "<", 0)}, 0, 0},
		{[]Option{Where("n", "==", nil)}, 6667, 5},
		{[]Option{Where("text.value", "==", "text")}, 0, 0},
	} {
		before := len(s.opened)
		n := 0
		for _, err := range Objects(t.Context(), v, c.where...) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if reads := len(s.opened) - before; n != c.rows || reads != c.reads {
			t.Errorf("%d rows and %d shards read, want %d and %d", n, reads, c.rows, c.reads)
		}
	}
	if len(s.open) > 0 {
		t.Errorf("%d objects are still open", len(s.open))
	}
	for _, c := range []struct {
		opt  Option
		want string
	}{{Where("m", "==", 1), `no column "m"`}, {Where("n", "==", "x"), "is no int64"}, {Where("next", "==", "x"), "single values"}, {WithColumns("x"), `no column "x"`}} {
		for _, err := range Rows[note](t.Context(), v, c.opt) {
			if exit.Code(err) != exit.Config || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		}
	}
}

// Whoever stops early, or is stopped, leaves no goroutine and no open file behind.
// Not parallel: it counts those of the whole process.
func TestScanLeavesNothing(t *testing.T) {
	local := folder(t, t.TempDir())
	opened, still := make(chan struct{}, 10_000), make(chan struct{}, 1000)
	rows := many(20_000)
	random := rand.NewChaCha8([32]byte{})
	for i := range rows {
		b := make([]byte, 300) // so that shards are too large for memory
		random.Read(b)
		rows[i].Text.Value = fmt.Sprintf("%x", b)
	}
	digest := mustCommit(t, local, "notes", rows, meta(len(rows), 0), WriterOptions{ShardBytes: 1}).Digest()
	files := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	goroutines, open := runtime.NumGoroutine(), files()
	for stop := 0; stop < 20_000; stop = stop*4 + 1 {
		for kind := range 4 {
			unordered := kind%2 == 1
			s := counted{local, opened, still} // whose readers are kept to the end
			if kind < 2 {
				s.Store = remote{local} // whose shards go to temporary files
			}
			v, err := OpenIn(t.Context(), s, "notes", digest)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			opts := []Option{Workers(3)}
			if unordered {
				opts = append(opts, Unordered())
			}
			n := 0
			for _, err := range Rows[note](ctx, v, opts...) {
				if n++; n > stop && unordered {
					break
				}
				if n > stop {
					cancel()
				}
				if err != nil && !(errors.Is(err, context.Canceled) && n > stop) {
					t.Fatal(err)
				}
			}
			cancel()
			if n < stop {
				t.Errorf("%d rows", n)
			}
		}
	}
	deadline := time.Now().Add(30 * time.Second)
	for runtime.NumGoroutine() > goroutines && time.Now().Before(deadline) {
		runtime.Gosched()
	}
	if n := runtime.NumGoroutine(); n > goroutines {
		t.Errorf("%d goroutines, %d before", n, goroutines)
	}
	if n := files(); n > open || len(still) > 0 {
		t.Errorf("%d files open, %d before; %d objects", n, open, len(still))
	}
}

// One wrong byte anywhere in a shard is found before a row of it is handed out, also by
// a reader that wants few columns.
func TestDamageIsFoundBeforeDecoding(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	local := folder(t, root)
	digest := mustCommit(t, local, "notes", many(5000), meta(5000, 0), WriterOptions{}).Digest()
	v, err := OpenIn(t.Context(), local, "notes", digest)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, ShardKey("notes", v.Manifest().Shards[0].SHA256))
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	try := func(what string, b []byte) {
		t.Helper()
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		for _, s := range []objstore.Store{local, remote{local}} {
			v, err := OpenIn(t.Context(), s, "notes", digest)
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for _, err = range Rows[note](t.Context(), v, WithColumns("id"), Where("text.bytes", "==", 3)) {
				n++
			}
			if n != 1 || exit.Code(err) != exit.Input || !strings.Contains(err.Error(), v.Manifest().Shards[0].SHA256+".arrow: is damaged") {
				t.Errorf("%s: %d rows, %v", what, n, err)
			}
		}
	}
	for i := 0; i < len(content); i += len(content)/40 + 1 {
		b := slices.Clone(content)
		b[i] ^= 4
		try(fmt.Sprintf("byte %d of %d flipped", i, len(content)), b)
	}
	try("cut", content[:len(content)-9])
	try("longer", append(slices.Clone(content), 0))
}
