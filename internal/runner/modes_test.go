package runner

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/objstore"
)

func TestShardsAndCommit(t *testing.T) {
	t.Parallel()
	whole := newWorld(t.TempDir(), 20).must(t)

	w := newWorld(t.TempDir(), 20)
	var out strings.Builder
	w.deps.Stdout = &out
	w.cfg.Mode, w.cfg.Shards = ModePlan, 3
	if r := w.must(t); out.String() != `["1/3","2/3","3/3"]`+"\n" || !slices.Equal(r.Shards, []string{"1/3", "2/3", "3/3"}) {
		t.Errorf("plan: %q %+v", out.String(), r)
	}
	out.Reset()
	w.cfg.Shards = 7 // the first plan stays
	if w.must(t); out.String() != `["1/3","2/3","3/3"]`+"\n" {
		t.Errorf("second plan: %q", out.String())
	}
	w.cfg.Shards = 1
	for i := 1; i <= 3; i++ {
		w.cfg.Mode, w.cfg.Shard = ModeCommit, Shard{}
		w.fails(t, exit.Retry, "units are not finished yet")
		w.cfg.Mode, w.cfg.Shard = ModeRun, Shard{i, 3}
		if r := w.must(t); r.Status != StatusShard || r.URI != "" || r.RowsIn < 6 {
			t.Errorf("shard %d: %+v", i, r)
		}
	}
	if len(w.calls()) != 20 {
		t.Error("not every unit was done once")
	}
	w.cfg.Mode, w.cfg.Shard = ModeCommit, Shard{}
	if r := w.must(t); r.Digest != whole.Digest || r.Status != StatusDone || r.Units.Reused != 20 {
		t.Errorf("commit: %+v, want digest %s", r, whole.Digest)
	}
	if len(w.calls()) != 0 {
		t.Error("commit did units")
	}
}

// TestUnitsThatChange: other units for the same inputs are a fault of the stage, not
// something to go on with.
func TestUnitsThatChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t.TempDir(), 4)
	w.cfg.Mode = ModePlan
	w.must(t)
	w.cfg.Mode = ModeRun
	units := w.src.Units
	w.src.Units = func(ctx context.Context, in []*datasets.Version) ([]Unit, error) {
		u, err := units(ctx, in)
		return u[1:], err
	}
	w.fails(t, exit.Bug, "when they were planned")
	w.src.Units = func(context.Context, []*datasets.Version) ([]Unit, error) { return []Unit{{ID: "a"}, {ID: "a"}}, nil }
	w.fails(t, exit.Bug, "is there twice")
	w.src.Units = func(context.Context, []*datasets.Version) ([]Unit, error) { return []Unit{{ID: "a/b"}}, nil }
	w.fails(t, exit.Bug, `unit id "a/b"`)
}

func TestTwoAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var results [2]Result
	var wait sync.WaitGroup
	for i := range results {
		wait.Go(func() {
			w := newWorld(dir, 30)
			var err error
			if results[i], err = w.run(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if a, b := results[0], results[1]; a.Digest == "" || a.Digest != b.Digest || a.RowsOut != 30 || b.RowsOut != 30 {
		t.Errorf("%+v\n%+v", a, b)
	}
}

// TestAdopt: of two runs whose rows differ, the second takes over the first's version.
func TestAdopt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	slow, fast := newWorld(dir, 1), newWorld(dir, 1)
	slow.src.Do = func(ctx context.Context, u Unit, _ Tools) (record.Rollout, error) {
		if _, err := fast.run(ctx); err != nil {
			t.Error(err)
		}
		r := rollout(u)
		r.Verdict.Outcome = record.Unresolved
		return r, nil
	}
	r := slow.must(t)
	if r.Outcomes["resolved"] != 1 || r.Units.Reused != 1 || r.Units.Done != 0 {
		t.Errorf("the unit that was finished first does not count: %+v %+v", r, r.Units)
	}
}

func TestLongRow(t *testing.T) {
	t.Parallel()
	w := newWorld(t.TempDir(), 2)
	long := strings.Repeat("lorem ipsum ", 300_000)
	w.src.Do = func(_ context.Context, u Unit, _ Tools) (record.Rollout, error) {
		r := rollout(u)
		r.Trajectory.Messages = []record.Message{{Role: "user", Content: long}}
		return r, nil
	}
	r := w.must(t)
	v, err := datasets.Open(t.Context(), datasets.Stores, r.URI)
	if err != nil {
		t.Fatal(err)
	}
	for row, err := range datasets.Rows[record.Rollout](t.Context(), v) {
		if err != nil || row.Trajectory.Messages[0].Content != long {
			t.Errorf("%s: %d bytes, %v", row.RolloutID, len(row.Trajectory.Messages[0].Content), err)
		}
	}
}

func TestWrongID(t *testing.T) {
	t.Parallel()
	w := newWorld(t.TempDir(), 1)
	w.src.Do = func(_ context.Context, u Unit, _ Tools) (record.Rollout, error) {
		r := rollout(u)
		r.RolloutID = "other"
		return r, nil
	}
	w.fails(t, exit.Bug, `made a row with another id, "other"`)
}

func TestDamagedUnit(t *testing.T) {
	t.Parallel()
	w := newWorld(t.TempDir(), 1)
	w.cfg.Shard = Shard{1, 1}
	r := w.must(t)
	store, err := datasets.Stores(t.Context(), "file://"+strings.TrimSuffix(w.cfg.Out, "/rollouts"))
	if err != nil {
		t.Fatal(err)
	}
	key := "rollouts/units/" + r.Key + "/u000.json"
	if err := store.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Create(t.Context(), key, objstore.Bytes("{")); err != nil {
		t.Fatal(err)
	}
	w.fails(t, exit.Input, "u000.json is damaged")
}

func TestReady(t *testing.T) {
	t.Parallel()
	w := newWorld(t.TempDir(), 3)
	w.src.Ready = func(context.Context) error { return exit.Configf("--llm-url: nobody there") }
	w.fails(t, exit.Config, "--llm-url")
	if len(w.calls()) != 0 {
		t.Error("units were done")
	}
	n := 0
	w.src.Ready = func(context.Context) error { n++; return nil }
	w.must(t)
	w.must(t)
	if n != 1 {
		t.Errorf("Ready was called %d times", n)
	}
}

func TestDryRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t.TempDir(), 3)
	w.cfg.DryRun = true
	if r := w.must(t); r.Status != StatusDryRun || r.Units.Left != 3 || len(w.calls()) != 0 {
		t.Errorf("%+v %+v", r, r.Units)
	}
	w.cfg.DryRun, w.cfg.Shard = false, Shard{1, 1}
	w.must(t)
	w.cfg.DryRun, w.cfg.Shard = true, Shard{}
	if r := w.must(t); r.Units.Reused != 3 || r.Units.Left != 0 || r.Digest != "" {
		t.Errorf("%+v %+v", r, r.Units)
	}
}
