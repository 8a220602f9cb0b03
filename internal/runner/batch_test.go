package runner

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/objstore"
)

func (w *world) batch(ctx context.Context, fn func(context.Context, *Pass[record.Rollout]) error) (Result, error) {
	return Batch(ctx, w.cfg, w.deps, w.stage, fn)
}

func TestBatchAndAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t.TempDir(), 0)
	w.cfg.Result = t.TempDir() + "/result.json"
	r, err := w.batch(t.Context(), batchOf(5))
	if err != nil || r.RowsIn != 6 || r.RowsOut != 5 || r.Dropped["odd"] != 1 || r.Status != StatusDone || len(r.Files) != 1 {
		t.Fatalf("%+v %v", r, err)
	}
	b, err := os.ReadFile(strings.TrimPrefix(r.Files[0].URI, "file://"))
	if string(b) != "{}\n" || err != nil {
		t.Errorf("file beside the version: %q %v", b, err)
	}
	again, err := w.batch(t.Context(), func(context.Context, *Pass[record.Rollout]) error { return errors.New("was done again") })
	if err != nil || again.Status != StatusAlready || again.URI != r.URI || len(again.Files) != 1 || again.Files[0] != r.Files[0] {
		t.Errorf("%+v %v", again, err)
	}
	if b, err := os.ReadFile(w.cfg.Result); err != nil || !strings.Contains(string(b), `"status": "already_done"`) {
		t.Errorf("result file: %s %v", b, err)
	}
}

func TestBatchThatLosesRows(t *testing.T) {
	t.Parallel()
	w := newWorld(t.TempDir(), 0)
	r, err := w.batch(t.Context(), func(ctx context.Context, p *Pass[record.Rollout]) error {
		p.Read(3)
		p.Drop("odd")
		return p.Emit(ctx, rollout(Unit{ID: "a", Work: 0}))
	})
	if exit.Code(err) != exit.Bug || !strings.Contains(err.Error(), "rows do not add up: 3 in, but 2") || r.URI != "" {
		t.Errorf("%+v %v", r, err)
	}
}

// TestBatchAdopts: another run of the same key commits while this one works. Its
// version is the result, and so are its numbers.
func TestBatchAdopts(t *testing.T) {
	t.Parallel()
	w := newWorld(t.TempDir(), 0)
	var first Result
	r, err := w.batch(t.Context(), func(ctx context.Context, p *Pass[record.Rollout]) error {
		var err error
		if first, err = w.batch(ctx, batchOf(3)); err != nil {
			return err
		}
		p.Read(1)
		return p.Emit(ctx, rollout(Unit{ID: "a", Work: 0}))
	})
	if err != nil || first.URI == "" || r.URI != first.URI || r.RowsOut != 3 || r.Status != StatusDone {
		t.Errorf("%+v\n%+v\n%v", first, r, err)
	}
}

func TestBatchStops(t *testing.T) {
	t.Parallel()
	w := newWorld(t.TempDir(), 0)
	ctx, cancel := context.WithCancel(t.Context())
	r, err := w.batch(ctx, func(ctx context.Context, p *Pass[record.Rollout]) error {
		cancel()
		p.Read(1)
		return p.Emit(ctx, rollout(Unit{ID: "a", Work: 0}))
	})
	if exit.Code(err) != exit.Retry || r.Status != StatusStopped {
		t.Errorf("%+v %v", r, err)
	}
}

// TestBatchFileDiffers: a file that is there with other bytes means that the stage is
// not deterministic.
func TestBatchFileDiffers(t *testing.T) {
	t.Parallel()
	w := newWorld(t.TempDir(), 0)
	content := "a"
	write := func(ctx context.Context, p *Pass[record.Rollout]) error {
		if _, err := p.PutFile(ctx, "f", objstore.Bytes(content)); err != nil {
			return err
		}
		return exit.Retryf("killed here")
	}
	if _, err := w.batch(t.Context(), write); exit.Code(err) != exit.Retry {
		t.Fatal(err)
	}
	if _, err := w.batch(t.Context(), write); exit.Code(err) != exit.Retry {
		t.Fatalf("the same bytes again: %v", err)
	}
	content = "b"
	if _, err := w.batch(t.Context(), write); exit.Code(err) != exit.Bug {
		t.Fatalf("other bytes: %v", err)
	}
}

// TestBlobsTravel: rows that pass through take their blobs to another root along.
func TestBlobsTravel(t *testing.T) {
	t.Parallel()
	a := newWorld(t.TempDir(), 0)
	made, err := a.batch(t.Context(), batchOf(2))
	if err != nil {
		t.Fatal(err)
	}
	b := newWorld(t.TempDir(), 0)
	b.cfg.In, b.stage.Inputs = []string{made.URI}, nil
	r, err := b.batch(t.Context(), func(ctx context.Context, p *Pass[record.Rollout]) error {
		for row, err := range datasets.Rows[record.Rollout](ctx, p.Inputs[0]) {
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
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Inputs) != 1 || r.Inputs[0] != made.URI {
		t.Errorf("inputs %v", r.Inputs)
	}
	v, err := datasets.Open(t.Context(), datasets.Stores, r.URI)
	if err != nil {
		t.Fatal(err)
	}
	for row, err := range datasets.Rows[record.Rollout](t.Context(), v) {
		if err != nil {
			t.Fatal(err)
		}
		text, err := datasets.TextBytes(t.Context(), v.Store(), row.Verdict.Log)
		if err != nil || string(text) != strings.Repeat(row.RolloutID, 40_000) {
			t.Errorf("%s: %d bytes, %v", row.RolloutID, len(text), err)
		}
	}
	b.cfg.In = []string{b.cfg.Out + "@" + strings.Repeat("0", 64)}
	if _, err := b.batch(t.Context(), nil); exit.Code(err) != exit.Input || !strings.Contains(err.Error(), "--in") {
		t.Errorf("an input that is not there: %v", err)
	}
}
