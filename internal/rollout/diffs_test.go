package rollout_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"orchard/datasets/record"
	"orchard/internal/seal"
)

// Each distinct diff on the way is kept once, under the sha256 that its steps name; a
// rollout that keeps none is as it was.
func TestPlayKeepsTheDiffsOfSteps(t *testing.T) {
	t.Parallel()
	k := load(t)
	p := k.player(t, nil)
	plain, err := p.Play(t.Context(), k.task, 3, k.store())
	if err != nil || plain.Trajectory.StepDiffs != nil {
		t.Fatalf("%v, %v", plain.Trajectory.StepDiffs, err)
	}
	p.KeepDiffs = true
	var mu sync.Mutex
	blobs := map[string][]byte{}
	store := k.store()
	store.Put = func(_ context.Context, b []byte) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		if blobs[seal.Bytes(b)] != nil {
			t.Errorf("a diff of %d bytes is kept twice", len(b))
		}
		blobs[seal.Bytes(b)] = b
		return seal.Bytes(b), nil
	}
	row, err := p.Play(t.Context(), k.task, 3, store)
	if err != nil || row.Trajectory.StepDiffs == nil {
		t.Fatalf("%v", err)
	}
	var want []record.StepDiff
	for i, s := range row.Trajectory.Steps {
		if s.DiffSHA256 != plain.Trajectory.Steps[i].DiffSHA256 {
			t.Errorf("step %d: diff %s, without keeping %s", i, s.DiffSHA256, plain.Trajectory.Steps[i].DiffSHA256)
		}
		d := record.StepDiff{SHA256: s.DiffSHA256, Bytes: int64(len(blobs[s.DiffSHA256]))}
		if s.DiffSHA256 != seal.Bytes(nil) && !slices.Contains(want, d) {
			want = append(want, d)
		}
	}
	if got := row.Trajectory.StepDiffs.Kept; !slices.Equal(got, want) || len(got) == 0 || got[len(got)-1].Bytes == 0 {
		t.Errorf("kept %v, want %v", got, want)
	}
}
