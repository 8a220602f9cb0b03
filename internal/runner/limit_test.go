package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/exit"
)

func (w *world) ids(t testing.TB, r Result) (ids []string) {
	t.Helper()
	v, err := datasets.Open(t.Context(), datasets.Stores, r.URI)
	if err != nil {
		t.Fatal(err)
	}
	for row, err := range datasets.Rows[record.Rollout](t.Context(), v) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, row.RolloutID)
	}
	return ids
}

// resolvedOnly makes a unit count when its number is in yes.
func (w *world) resolvedOnly(limit int, yes func(int) bool) {
	w.src.Limit = limit
	w.src.Counts = func(r record.Rollout) bool { return r.Verdict.Outcome == record.Resolved }
	w.src.Do = func(_ context.Context, u Unit, _ Tools) (record.Rollout, error) {
		r := rollout(u)
		if !yes(u.Work.(int)) {
			r.Verdict.Outcome = record.Unresolved
		}
		return r, nil
	}
}

// Whichever units are quick and however many workers there are, the rows are those of the
// shortest front of the units that has enough.
func TestLimitTakesTheShortestFront(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(rt, "units")
		yes := rapid.SliceOfN(rapid.Bool(), n, n).Draw(rt, "counts")
		limit := rapid.IntRange(1, 5).Draw(rt, "limit")
		dir, err := os.MkdirTemp("", "limit")
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(dir)
		w := newWorld(dir, n)
		w.cfg.Workers = rapid.IntRange(1, 6).Draw(rt, "workers")
		w.resolvedOnly(limit, func(i int) bool { return yes[i] })
		r, err := w.run(t.Context())
		if err != nil {
			rt.Fatal(err)
		}
		var want []string
		for i, got := n-1, 0; i >= 0 && got < limit; i-- { // the order of work is from the last on
			want = append(want, fmt.Sprintf("u%03d", i))
			if yes[i] {
				got++
			}
		}
		slices.Sort(want)
		if ids := w.ids(t, r); !slices.Equal(ids, want) {
			rt.Fatalf("rows %v, want %v", ids, want)
		}
		if left := int64(n - len(want)); r.Dropped[ReasonNotNeeded] != left || r.RowsIn != int64(n) {
			rt.Fatalf("dropped %v of %d, want %d not needed", r.Dropped, r.RowsIn, left)
		}
	})
}

// A unit that is slow and at the front is waited for; what runs behind it is cancelled
// when it is enough.
func TestLimitCancelsWhatIsNotNeeded(t *testing.T) {
	t.Parallel()
	w := newWorld(t.TempDir(), 6)
	w.cfg.Workers = 3
	w.resolvedOnly(1, nil)
	var running, cancelled atomic.Int32
	w.src.Do = func(ctx context.Context, u Unit, _ Tools) (record.Rollout, error) {
		if u.Work.(int) != 5 {
			running.Add(1)
			<-ctx.Done()
			cancelled.Add(1)
			return record.Rollout{}, ctx.Err()
		}
		for running.Load() < 2 {
			select {
			case <-time.After(time.Millisecond):
			case <-ctx.Done():
				return record.Rollout{}, ctx.Err()
			}
		}
		return rollout(u), nil
	}
	r := w.must(t)
	if ids := w.ids(t, r); !slices.Equal(ids, []string{"u005"}) || cancelled.Load() != running.Load() {
		t.Errorf("rows %v, %d of %d cancelled", ids, cancelled.Load(), running.Load())
	}
	if again := w.must(t); again.URI != r.URI || again.Dropped[ReasonNotNeeded] != 5 {
		t.Errorf("again: %+v", again)
	}
}

// A unit that nobody could find out about is passed over, counted, and held against
// --max-infra among those that were needed.
func TestLimitPassesOverTrouble(t *testing.T) {
	t.Parallel()
	w := newWorld(t.TempDir(), 8)
	w.cfg.MaxRetries, w.cfg.Workers, w.cfg.MaxInfra = 0, 1, 0.2
	w.resolvedOnly(2, nil)
	w.src.Do = func(_ context.Context, u Unit, _ Tools) (record.Rollout, error) {
		if u.Work.(int) == 7 {
			return record.Rollout{}, errors.New("away")
		}
		return rollout(u), nil
	}
	w.fails(t, exit.Retry, "1 of 3 units")
	w.cfg.MaxInfra = 0.5
	r := w.must(t)
	if ids := w.ids(t, r); !slices.Equal(ids, []string{"u005", "u006"}) || r.Dropped[ReasonInfra] != 1 || r.Dropped[ReasonNotNeeded] != 5 {
		t.Errorf("rows %v, dropped %v", ids, r.Dropped)
	}
}

func TestLimitInShards(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	whole, parts := newWorld(dir+"/a", 9), newWorld(dir+"/b", 9)
	for _, w := range []*world{whole, parts} {
		w.resolvedOnly(3, func(i int) bool { return i%2 == 0 })
	}
	want := whole.ids(t, whole.must(t))
	for i := range 2 {
		parts.cfg.Shard = Shard{2 - i, 2}
		parts.must(t)
	}
	parts.cfg.Shard, parts.cfg.Mode = Shard{}, ModeCommit
	if got := parts.ids(t, parts.must(t)); !slices.Equal(got, want) {
		t.Errorf("rows by shards %v, whole %v", got, want)
	}
}
