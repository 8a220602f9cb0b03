package runner

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/exit"
)

func TestOutputFiles(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "made")
	if err := saveOutputs(dir, Result{URI: "file:///d@1", RowsOut: 7, Shards: []string{"1/2", "2/2"}}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"dataset": "file:///d@1", "rows": "7", "shards.json": `["1/2","2/2"]`} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || string(got) != want {
			t.Errorf("%s = %q, %v, want %q", name, got, err, want)
		}
	}
	file := filepath.Join(dir, "rows")
	if err := saveOutputs(file, Result{}); exit.Code(err) != exit.Config || !strings.Contains(err.Error(), "--output-dir") {
		t.Errorf("a file in the place of the folder: %v", err)
	}
	if err := saveOutputs("", Result{}); err != nil {
		t.Error(err)
	}
}

// The name of an input, or of rows of another kind, is no place for a result: what means the
// newest version by that name would get something else.
func TestNamesThatTakeNoResult(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := newWorld(dir, 2)
	first := w.must(t)
	w.calls()

	again := newWorld(dir, 3)
	again.stage.Inputs, again.cfg.In = nil, []string{dir + "/rollouts"}
	for _, in := range []string{dir + "/rollouts", first.URI} {
		again.cfg.In = []string{in}
		again.fails(t, exit.Config, "--out: file://"+dir+"/rollouts is an input too; give the result another name")
	}
	again.cfg.Out = dir + "/others"
	if r := again.must(t); r.RowsOut != 3 {
		t.Errorf("%+v", r)
	}

	where, err := datasets.Parse(dir + "/rollouts")
	if err != nil {
		t.Fatal(err)
	}
	deps := w.deps
	if err := Takes[record.Rollout](t.Context(), deps, where); err != nil {
		t.Error(err)
	}
	if err := Takes[record.Task](t.Context(), deps, where); exit.Code(err) != exit.Config || !strings.Contains(err.Error(), "/rollouts holds rollout rows, and these are task rows") {
		t.Error(err)
	}
	if err := Takes[record.Task](t.Context(), deps, where.Beside("new")); err != nil {
		t.Error(err)
	}
	cfg := w.cfg
	cfg.In, cfg.Out = []string{dir + "/others"}, dir+"/rollouts"
	_, err = Batch(t.Context(), cfg, deps, Stage{Name: "tasks", Version: 1}, func(context.Context, *Pass[record.Task]) error {
		t.Error("the work was begun")
		return nil
	})
	if exit.Code(err) != exit.Config || !strings.Contains(err.Error(), "--out: ") {
		t.Error(err)
	}
}
