package datasets

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orchard/datasets/gentest"
	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/objstore/mem"
)

// Whatever order the rows come in and however little memory there is to sort them, the
// version is the same to the byte.
func TestSortedBytesDoNotDependOnMemory(t *testing.T) {
	t.Parallel()
	rows := many(9000)
	random := rand.New(rand.NewPCG(1, 1))
	for i := range rows {
		rows[i].Text.Value = strings.Repeat(fmt.Sprint(random.IntN(1000)), random.IntN(50))
	}
	want := mustCommit(t, &mem.Store{}, "notes", rows, meta(len(rows), 0), WriterOptions{ShardBytes: 1})
	for _, budget := range []int64{15_000, 200_000, 1 << 30} { // more runs than are merged at once, some, none
		random.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		got := mustCommit(t, &mem.Store{}, "notes", rows, meta(len(rows), 0), WriterOptions{Sort: true, SortBytes: budget, ShardBytes: 1})
		if d := cmp.Diff(want.Manifest().Content, got.Manifest().Content); d != "" {
			t.Errorf("budget %d (-sorted +sorting):\n%s", budget, d)
		}
	}
}

// Two rows of one id are found wherever they are kept, and named.
func TestSortFindsDuplicates(t *testing.T) {
	t.Parallel()
	for _, at := range []int{1, 40, 299} {
		rows := many(300)
		rows[at].ID = rows[0].ID
		_, _, err := commit(t, &mem.Store{}, "notes", rows, meta(300, 0), WriterOptions{Sort: true, SortBytes: 2000})
		if exit.Code(err) != exit.Input || !strings.Contains(err.Error(), `two rows have the id "000000"`) {
			t.Errorf("row %d: %v", at, err)
		}
	}
	_, _, err := commit(t, &mem.Store{}, "notes", []note{{ID: "a"}, {ID: "b", Text: record.Text{Value: "\xff"}}}, meta(2, 0), WriterOptions{Sort: true, SortBytes: 1})
	if exit.Code(err) != exit.Input || !strings.Contains(err.Error(), `row "b": column text.value: not valid UTF-8`) {
		t.Errorf("bad text: %v", err)
	}
}

// The bytes do not depend on the number of cores. Not parallel: it changes that number.
func TestBytesDoNotDependOnCores(t *testing.T) {
	g, rows := gentest.New(1), []record.Rollout{}
	for i := range 300 {
		rows = append(rows, g.Rollout(i))
	}
	digests := map[string]bool{}
	for _, cores := range []int{1, 2, 5} {
		before := runtime.GOMAXPROCS(cores)
		w, err := NewWriter[record.Rollout](&mem.Store{}, "rollouts", WriterOptions{ShardBytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			if err := w.Write(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
		digest, _, err := w.Commit(t.Context(), meta(len(rows), 0))
		runtime.GOMAXPROCS(before)
		if err != nil {
			t.Fatal(err)
		}
		digests[digest] = true
	}
	if len(digests) != 1 {
		t.Errorf("%d digests", len(digests))
	}
}

// A writer that is given up leaves no goroutine and no file. Not parallel: it counts
// those of the whole process.
func TestWriterLeavesNothing(t *testing.T) {
	open := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	files, goroutines := open(), runtime.NumGoroutine()
	for n := range 6 {
		w, err := NewWriter[note](&mem.Store{}, "notes", WriterOptions{Sort: n%2 == 0, SortBytes: 1 << 20, ShardBytes: 1})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range many(n * 2000) {
			if err := w.Write(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for range 1000 {
		runtime.Gosched()
	}
	if n, g := open(), runtime.NumGoroutine(); n > files || g > goroutines {
		t.Errorf("%d files open, %d before; %d goroutines, %d before", n, files, g, goroutines)
	}
}
