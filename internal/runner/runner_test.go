package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/objstore"
)

// world is a folder with a stage of n units in it, and what was done there.
type world struct {
	cfg   Config
	deps  Deps
	stage Stage
	src   Source[record.Rollout]

	mu   sync.Mutex
	done []string // calls of Do, by unit
}

func newWorld(dir string, n int) *world {
	w := &world{cfg: Default(), stage: Stage{Name: "test", Version: 1, Settings: map[string]int{"units": n}, Model: true, Inputs: []datasets.Input{}}}
	w.cfg.In, w.cfg.Out = []string{"x"}, dir+"/rollouts"
	w.deps = Deps{Stdout: io.Discard, Stderr: io.Discard, Backoff: time.Millisecond, Getenv: func(string) string { return "" }}
	w.src = Source[record.Rollout]{
		Units: func(context.Context, []*datasets.Version) ([]Unit, error) {
			units := make([]Unit, n)
			for i := range units {
				units[i] = Unit{ID: fmt.Sprintf("u%03d", i), Task: fmt.Sprintf("t%d", i/2), Work: i}
			}
			slices.Reverse(units) // the order of work is not the order of ids
			return units, nil
		},
		Do:      func(_ context.Context, u Unit, _ Tools) (record.Rollout, error) { return rollout(u), nil },
		Outcome: func(r record.Rollout) string { return string(r.Verdict.Outcome) },
		Usage:   func(r record.Rollout) record.Usage { return r.Usage },
	}
	return w
}

func rollout(u Unit) record.Rollout {
	r := record.Rollout{RolloutID: u.ID, TaskID: u.Task, Index: int64(u.Work.(int)), Usage: record.Usage{ModelCalls: 1}}
	r.Verdict.Outcome = record.Resolved
	r.Verdict.Reward = r.Verdict.Outcome.Reward()
	return r
}

func (w *world) run(ctx context.Context) (Result, error) {
	src := w.src
	src.Do = func(ctx context.Context, u Unit, t Tools) (record.Rollout, error) {
		w.mu.Lock()
		w.done = append(w.done, u.ID)
		w.mu.Unlock()
		return w.src.Do(ctx, u, t)
	}
	return Rollouts(ctx, w.cfg, w.deps, w.stage, src)
}

// calls is the units that Do was called for since the last time, sorted.
func (w *world) calls() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := slices.Sorted(slices.Values(w.done))
	w.done = nil
	return out
}

func (w *world) must(t *testing.T) Result {
	t.Helper()
	r, err := w.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// fails runs and demands an exit code and words.
func (w *world) fails(t *testing.T, code int, words string) Result {
	t.Helper()
	r, err := w.run(t.Context())
	if exit.Code(err) != code || err == nil || !strings.Contains(err.Error(), words) || r.ExitCode != code {
		t.Fatalf("got %v (exit %d, result says %d), want exit %d and %q", err, exit.Code(err), r.ExitCode, code, words)
	}
	return r
}

func TestRolloutsAndAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t.TempDir(), 20)
	r := w.must(t)
	if r.Status != StatusDone || r.RowsIn != 20 || r.RowsOut != 20 || r.Units.Done != 20 || r.Usage.ModelCalls != 20 || r.Outcomes["resolved"] != 20 {
		t.Errorf("%+v", r)
	}
	if len(w.calls()) != 20 {
		t.Error("not every unit was done once")
	}
	v, err := datasets.Open(t.Context(), datasets.Stores, r.URI)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for row, err := range datasets.Rows[record.Rollout](t.Context(), v) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, row.RolloutID)
	}
	if len(ids) != 20 || !slices.IsSorted(ids) {
		t.Errorf("ids %v", ids)
	}

	again := w.must(t)
	if again.Status != StatusAlready || again.URI != r.URI || len(w.calls()) != 0 {
		t.Errorf("the second run: %+v", again)
	}
	if d := cmp.Diff(r.Outcomes, again.Outcomes); d != "" || again.RowsIn != r.RowsIn || again.RowsOut != r.RowsOut || again.Usage != r.Usage {
		t.Errorf("the second run has other numbers: %+v %s", again, d)
	}
	w.cfg.RunID = "other"
	if r := w.must(t); r.Status != StatusDone || len(w.calls()) != 20 {
		t.Errorf("another run id is other work: %+v", r)
	}
}

func TestRetryAndEvidence(t *testing.T) {
	t.Parallel()
	w := newWorld(t.TempDir(), 5)
	w.src.Do = func(_ context.Context, u Unit, tools Tools) (record.Rollout, error) {
		if u.ID == "u003" && tools.Attempt < 3 {
			half := rollout(u)
			half.Trajectory.ExitDetail = "half way"
			return half, errors.New("sandbox is gone")
		}
		return rollout(u), nil
	}
	r := w.must(t)
	if r.Units.Retried != 2 || r.Units.Done != 5 || r.RowsOut != 5 {
		t.Errorf("%+v", r.Units)
	}
	store, err := datasets.Stores(t.Context(), "file://"+strings.TrimSuffix(w.cfg.Out, "/rollouts"))
	if err != nil {
		t.Fatal(err)
	}
	b, _, err := objstore.ReadAll(t.Context(), store, "rollouts/units/"+r.Key+"/attempts/u003-2.json", 1<<20)
	if err != nil || !strings.Contains(string(b), "sandbox is gone") || !strings.Contains(string(b), "half way") {
		t.Errorf("evidence: %s, %v", b, err)
	}
}

func TestInfraGate(t *testing.T) {
	t.Parallel()
	w := newWorld(t.TempDir(), 100)
	broken := 3
	w.src.Do = func(_ context.Context, u Unit, _ Tools) (record.Rollout, error) {
		if u.Work.(int)*7%100 < broken { // spread out: trouble in a row is another matter
			return record.Rollout{}, errors.New("model is away")
		}
		return rollout(u), nil
	}
	r := w.fails(t, exit.Retry, "3 of 100 units (3%, --max-infra allows 2%)")
	if r.Status != StatusFailed || r.Units.Infra != 3 || r.Units.Done != 97 || r.URI != "" {
		t.Errorf("%+v %+v", r, r.Units)
	}
	w.calls()

	broken = 1
	r = w.must(t)
	if calls := slices.Compact(w.calls()); len(calls) != 3 {
		t.Errorf("the rerun did %v; want just the three", calls)
	}
	if r.RowsIn != 100 || r.RowsOut != 99 || r.Dropped[ReasonInfra] != 1 || r.Units.Reused != 97 {
		t.Errorf("%+v %+v", r, r.Units)
	}
}

// TestAllInTrouble: with the model server away, a stage does not try every unit.
func TestAllInTrouble(t *testing.T) {
	t.Parallel()
	w := newWorld(t.TempDir(), 500)
	w.cfg.MaxRetries = 0
	w.src.Do = func(context.Context, Unit, Tools) (record.Rollout, error) {
		return record.Rollout{}, errors.New("connection refused")
	}
	w.fails(t, exit.Retry, "units in a row met trouble")
	if n := len(w.calls()); n > 50 {
		t.Errorf("%d units were tried", n)
	}
}

func TestErrorsOfDo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		err  error
		code int
		want map[string]int64 // dropped
	}{
		{"input", exit.Inputf("no such test"), exit.OK, map[string]int64{ReasonTaskInvalid: 1}},
		{"drop", Drop("too_hard", errors.New("x")), exit.OK, map[string]int64{"too_hard": 1}},
		{"wrapped drop", fmt.Errorf("unit: %w", Drop("too_hard", errors.New("x"))), exit.OK, map[string]int64{"too_hard": 1}},
		{"config", exit.Configf("bad key"), exit.Config, nil},
		{"gone", exit.Gonef("no such model"), exit.Gone, nil},
		{"full store", fmt.Errorf("keep: %w", objstore.ErrNoSpace), exit.Gone, nil},
		{"plain", errors.New("x"), exit.Retry, nil},
		{"its own deadline", context.DeadlineExceeded, exit.Retry, nil},
		{"retry", exit.Retryf("x"), exit.Retry, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t.TempDir(), 4)
			broken := true
			w.src.Do = func(_ context.Context, u Unit, _ Tools) (record.Rollout, error) {
				if u.ID == "u002" && broken {
					return rollout(u), c.err
				}
				return rollout(u), nil
			}
			r, err := w.run(t.Context())
			if exit.Code(err) != c.code {
				t.Fatalf("exit %d: %v", exit.Code(err), err)
			}
			if err == nil {
				if d := cmp.Diff(c.want, r.Dropped); d != "" || r.RowsOut != 3 {
					t.Errorf("%+v %s", r, d)
				}
				return
			}
			broken = false
			if r := w.must(t); r.RowsOut != 4 {
				t.Errorf("after the trouble was over: %+v", r)
			}
		})
	}
}
