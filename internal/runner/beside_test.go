package runner

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orchard/datasets"
	"orchard/datasets/record"
)

// Files are made of the committed version: now, or by the next run when this one does not
// come to it; and then not again.
func TestFilesBesideAVersion(t *testing.T) {
	t.Parallel()
	w := newWorld(t.TempDir(), 5)
	made, broken := 0, true
	w.src.Files = func(ctx context.Context, v *datasets.Version, put func(string, []byte) error) error {
		made++
		n := 0
		for _, err := range datasets.Rows[record.Rollout](ctx, v) {
			if err != nil {
				return err
			}
			n++
		}
		if err := put("a.txt", fmt.Appendf(nil, "%d rows", n)); err != nil || broken {
			return errors.Join(err, errors.New("the store is away"))
		}
		return put("b.txt", []byte("b"))
	}
	if _, err := w.run(t.Context()); err == nil {
		t.Fatal("the files are not made, and the run is well")
	}
	broken = false
	w.cfg.DryRun = true
	if r := w.must(t); len(r.Files) != 0 || made != 1 {
		t.Errorf("a dry run made %v", r.Files)
	}
	w.cfg.DryRun = false
	for range 2 {
		r := w.must(t)
		var names []string
		for _, f := range r.Files {
			names = append(names, f.Name)
		}
		if d := cmp.Diff([]string{"a.txt", "b.txt"}, names); d != "" || r.Status != StatusAlready || r.Files[0].Bytes != 6 {
			t.Errorf("%s %+v", d, r)
		}
	}
	if made != 2 || len(w.calls()) != 5 {
		t.Errorf("the files were made %d times, want 2", made)
	}
}
