package runner

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"orchard/internal/exit"
	"orchard/internal/objstore"
)

// checked is a world in check mode, in which no unit may ever be asked for.
func checked(t *testing.T) *world {
	t.Helper()
	w := newWorld(t.TempDir(), 3)
	w.cfg.Mode, w.deps.Patience = ModeCheck, 300*time.Millisecond
	return w
}

func TestCheckOpensNoInput(t *testing.T) {
	t.Parallel()
	w := checked(t)
	w.stage.Inputs, w.cfg.In = nil, []string{filepath.Join(t.TempDir(), "not", "made", "yet")}
	asked := 0
	w.src.Ready = func(context.Context) error { asked++; return nil }
	if r := w.must(t); r.Status != StatusChecked || asked != 1 {
		t.Errorf("%d times asked, %+v", asked, r)
	}
	if len(w.calls()) != 0 {
		t.Error("a check did units")
	}
	if left, err := os.ReadDir(filepath.Dir(w.cfg.Out)); err != nil || len(left) != 0 {
		t.Errorf("a check wrote %v (%v)", left, err)
	}
}

func TestCheckWaitsForWhatComesBack(t *testing.T) {
	t.Parallel()
	w := checked(t)
	w.deps.Patience = time.Minute
	asked := 0
	w.src.Ready = func(context.Context) error {
		if asked++; asked < 4 {
			return exit.Retryf("starting")
		}
		return nil
	}
	if w.must(t); asked != 4 {
		t.Errorf("asked %d times", asked)
	}
}

// A check is to end early: what stays away is gone for its purposes, so that nobody
// repeats it for half an hour.
func TestCheckEnds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		err  error
		code int
		says string
	}{
		{"away", exit.Retryf("model server is away"), exit.Gone, "still so after 300ms: model server is away"},
		{"store away", objstore.ErrUnavailable, exit.Gone, "still so after"},
		{"wrong", exit.Configf("wrong key"), exit.Config, "wrong key"},
		{"a fault", errors.New("oh"), exit.Bug, "oh"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := checked(t)
			w.src.Ready = func(context.Context) error { return c.err }
			w.fails(t, c.code, c.says)
		})
	}
	t.Run("stopped", func(t *testing.T) {
		t.Parallel()
		w := checked(t)
		w.deps.Patience = time.Hour
		ctx, cancel := context.WithCancel(t.Context())
		w.src.Ready = func(context.Context) error { cancel(); return exit.Retryf("away") }
		if r, err := w.run(ctx); exit.Code(err) != exit.Retry || r.Status != StatusStopped {
			t.Errorf("%v, %+v", err, r)
		}
	})
}

// A Pod that has just started may not reach what it needs for a moment: its first work waits.
func TestFirstWorkWaitsForItsNetwork(t *testing.T) {
	t.Parallel()
	w := newWorld(t.TempDir(), 3)
	w.deps.Patience = time.Minute
	asked := 0
	w.src.Ready = func(context.Context) error {
		if asked++; asked < 3 {
			return exit.Retryf("connection refused")
		}
		return nil
	}
	if r := w.must(t); asked != 3 || r.Units.Done != 3 {
		t.Errorf("asked %d times, %+v", asked, r.Units)
	}
	w = newWorld(t.TempDir(), 3)
	w.deps.Patience = 10 * time.Millisecond
	w.src.Ready = func(context.Context) error { return exit.Retryf("connection refused") }
	w.fails(t, exit.Retry, "connection refused")
}

func TestShardOfAnIndexedJob(t *testing.T) {
	if s, err := ParseShard("index/4"); err == nil {
		t.Errorf("outside of a Job: %v", s)
	}
	for index, want := range map[string]Shard{"0": {1, 4}, "3": {4, 4}} {
		t.Setenv(completionIndex, index)
		if s, err := ParseShard("index/4"); err != nil || s != want {
			t.Errorf("index %s: %v, %v", index, s, err)
		}
	}
	for _, index := range []string{"4", "-1", "x", ""} {
		t.Setenv(completionIndex, index)
		if s, err := ParseShard("index/4"); err == nil {
			t.Errorf("index %q of 4: %v", index, s)
		}
	}
}
