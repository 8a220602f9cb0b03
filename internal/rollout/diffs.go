package rollout

import (
	"context"
	"errors"
	"fmt"

	"orchard/datasets/record"
	"orchard/internal/sandbox"
	"orchard/internal/seal"
	"orchard/internal/workspace"
)

// tree is what the steps of one rollout know of the working tree: the sha256 of its diff,
// and, with KeepDiffs, the diff itself, once, as a blob of that name.
type tree struct {
	sb   sandbox.Sandbox
	task record.Task
	put  func(ctx context.Context, b []byte) (sha256 string, err error) // nil: nothing is kept

	kept []record.StepDiff
	seen map[string]bool
	err  error // of keeping: the rollout is not what it was asked to be
}

func (p *Player) tree(sb sandbox.Sandbox, task record.Task, store Store) *tree {
	t := &tree{sb: sb, task: task, kept: []record.StepDiff{}, seen: map[string]bool{"": true, seal.Bytes(nil): true}}
	if p.KeepDiffs {
		t.put = store.Put
	}
	return t
}

// sha256 is Episode.TreeSHA256.
func (t *tree) sha256(ctx context.Context) string {
	sum, err := workspace.TreeSHA256(ctx, t.sb, t.task)
	if err != nil {
		return ""
	}
	if t.put == nil || t.seen[sum] {
		return sum
	}
	// What was hashed is read by a second look, between which nothing of the policy runs;
	// a process that it left behind may still write.
	diff, err := workspace.Diff(ctx, t.sb, t.task)
	var large *workspace.TooLargeError
	if errors.As(err, &large) {
		return sum
	}
	if err != nil {
		return ""
	}
	sum = seal.Bytes(diff)
	if t.seen[sum] {
		return sum
	}
	if _, err := t.put(ctx, diff); err != nil {
		t.err = errors.Join(t.err, fmt.Errorf("keep the diff of a step: %w", err))
		return sum
	}
	t.seen[sum] = true
	t.kept = append(t.kept, record.StepDiff{SHA256: sum, Bytes: int64(len(diff))})
	return sum
}

// diffs is what was kept, nil when nothing was to be.
func (t *tree) diffs() *record.StepDiffs {
	if t.put == nil {
		return nil
	}
	return &record.StepDiffs{Kept: t.kept}
}
