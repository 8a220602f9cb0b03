package runner

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/objstore"
	"orchard/internal/seal"
)

// inParts makes each unit of three pieces; the last fails until ok.
func (w *world) inParts(scope string, made *atomic.Int32, ok *atomic.Bool) {
	w.src.Do = func(ctx context.Context, u Unit, tools Tools) (record.Rollout, error) {
		for _, name := range []string{"a", "b", "c"} {
			piece := Unit{ID: u.ID + name, Task: u.Task, Work: u.Work}
			row, _, err := Part(ctx, tools, Scope{"pieces", scope}, piece, func(context.Context) (record.Rollout, error) {
				made.Add(1)
				if name == "c" && !ok.Load() {
					return record.Rollout{}, errors.New("away")
				}
				return rollout(piece), nil
			})
			if err != nil {
				return record.Rollout{}, err
			}
			if row.RolloutID != piece.ID {
				return row, errors.New("the row of another piece")
			}
		}
		return rollout(u), nil
	}
}

func TestPartIsDoneOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var made atomic.Int32
	var ok atomic.Bool
	w := newWorld(dir, 2)
	w.cfg.MaxRetries = 1
	w.inParts("x", &made, &ok)
	if _, err := w.run(t.Context()); err == nil {
		t.Fatal("no error although a piece failed")
	}
	if n := made.Load(); n != 2*(3+1) {
		t.Errorf("%d pieces tried, want a, b, c and c again of each unit", n)
	}
	made.Store(0)
	ok.Store(true)
	w.must(t)
	if n := made.Load(); n != 2 {
		t.Errorf("%d pieces made after the trouble, want c of each unit", n)
	}

	// Other work with the same scope makes none; another scope makes all.
	for scope, want := range map[string]int32{"x": 0, "y": 6} {
		made.Store(0)
		w := newWorld(dir, 2)
		w.cfg.RunID = "other-" + scope
		w.inParts(scope, &made, &ok)
		w.must(t)
		if made.Load() != want {
			t.Errorf("scope %s: %d pieces made, want %d", scope, made.Load(), want)
		}
	}
}

func TestPartsAreGathered(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var made atomic.Int32
	var ok atomic.Bool
	ok.Store(true)
	w := newWorld(dir, 3)
	w.inParts("x", &made, &ok)
	w.must(t)
	cfg := w.cfg
	cfg.Out = dir + "/all"
	r, err := Batch(t.Context(), cfg, w.deps, Stage{Name: "gather", Version: 1, Inputs: w.stage.Inputs}, func(ctx context.Context, p *Pass[record.Rollout]) error {
		if _, err := LoadPart[record.Rollout](ctx, p, Scope{"pieces", "x"}, "nobody"); !errors.Is(err, objstore.ErrNotFound) {
			t.Errorf("a piece that is not there: %v", err)
		}
		for _, id := range []string{"u000a", "u002c"} {
			row, err := LoadPart[record.Rollout](ctx, p, Scope{"pieces", "x"}, id)
			if err != nil {
				return err
			}
			p.Read(1)
			if err := p.Emit(ctx, row); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || r.RowsOut != 2 {
		t.Errorf("%+v: %v", r, err)
	}
}

// A blob that is not there is the store's trouble: the unit stays unfinished and is not
// finished for good as one whose task is at fault.
func TestBlobThatIsNotThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t.TempDir(), 1)
	w.cfg.MaxRetries = 0
	w.src.Do = func(ctx context.Context, u Unit, tools Tools) (record.Rollout, error) {
		_, err := tools.Blob(ctx, seal.Bytes([]byte("gone")))
		return rollout(u), err
	}
	if r := w.fails(t, exit.Retry, "blob"); r.Units.Infra != 1 || len(r.Dropped) != 0 {
		t.Errorf("%+v, dropped %v", r.Units, r.Dropped)
	}
}
