// Package replay puts a stored rollout's workspace into a sandbox: the task's repository
// and what the rollout had done to it by some step.
//
// A rollout holds its final diff, but of the steps before only the commands and the sha256
// of the diff after each. So the end is the diff, exactly; a step before is the commands
// up to it, run again, with the sha256 after each step compared to the recorded one. A
// workspace that came out otherwise is said to have, and where.
package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/harness"
	"orchard/internal/sandbox"
	"orchard/internal/seal"
	"orchard/internal/workspace"
)

// Rollout is a stored rollout with its task.
type Rollout struct {
	Row  record.Rollout
	Task record.Task

	rollouts, tasks *datasets.Version
}

// Open finds the rollout whose id is or begins with id in a dataset of rollouts, and its
// task in the one that this was made from.
func Open(ctx context.Context, data, id string) (*Rollout, error) {
	v, err := datasets.Open(ctx, datasets.Stores, data)
	if err != nil {
		return nil, err
	}
	r := &Rollout{rollouts: v}
	var found []string
	for row, err := range datasets.Rows[record.Rollout](ctx, v) {
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(row.RolloutID, id) {
			found, r.Row = append(found, row.RolloutID), row
		}
	}
	if len(found) != 1 {
		return nil, exit.Inputf("%s: %d rollouts begin with %q; `orchard dataset head` shows ids", data, len(found), id)
	}
	return r, r.findTask(ctx)
}

func (r *Rollout) findTask(ctx context.Context) error {
	var trouble []error
	for _, a := range datasets.Lineage(ctx, datasets.Stores, r.rollouts) {
		if a.Version == nil || a.Version.Manifest().Schema.Name != "task" {
			trouble = append(trouble, a.Err)
			continue
		}
		for task, err := range datasets.Rows[record.Task](ctx, a.Version) {
			if err != nil {
				return err
			}
			if task.TaskID == r.Row.TaskID {
				r.Task, r.tasks = task, a.Version
				return nil
			}
		}
	}
	return errors.Join(append(trouble, exit.Inputf("task %s of rollout %s is in none of the datasets that it was made from", r.Row.TaskID, r.Row.RolloutID))...)
}

// Steps is how many there are.
func (r *Rollout) Steps() int { return len(r.Row.Trajectory.Steps) }

// Rebuild makes the workspace as it was after so many steps (-1: at the end) in a sandbox
// whose working folder is the task's. note says how, and whether it is exact.
func (r *Rollout) Rebuild(ctx context.Context, sb sandbox.Sandbox, steps int) (note string, err error) {
	if steps > r.Steps() {
		return "", exit.Configf("rollout %s has %d steps, not %d", r.Row.RolloutID, r.Steps(), steps)
	}
	if err := workspace.Prepare(ctx, sb, r.Task, r.bundle()); err != nil {
		return "", err
	}
	want := r.recorded(steps)
	switch {
	case steps == 0:
		return "the workspace before the first step", nil
	case want != "" && want == r.Row.Trajectory.DiffSHA256:
		return r.final(ctx, sb, steps)
	}
	return r.again(ctx, sb, steps)
}

// recorded is the sha256 of the diff after so many steps, "" when it was not taken.
func (r *Rollout) recorded(steps int) string {
	if steps < 0 {
		return r.Row.Trajectory.DiffSHA256
	}
	if steps == 0 {
		return seal.Bytes(nil)
	}
	return r.Row.Trajectory.Steps[steps-1].DiffSHA256
}

func (r *Rollout) bundle() workspace.Source {
	if r.Task.RepoBlob == "" {
		return nil
	}
	return func(ctx context.Context) (io.ReadCloser, int64, error) {
		b, err := datasets.ReadBlob(ctx, r.tasks.Store(), r.Task.RepoBlob, maxBundle)
		if err != nil {
			return nil, 0, err
		}
		return io.NopCloser(bytes.NewReader(b)), int64(len(b)), nil
	}
}

// maxBundle is more than any task's history has.
const maxBundle = 8 << 30

// final applies the stored diff.
func (r *Rollout) final(ctx context.Context, sb sandbox.Sandbox, steps int) (string, error) {
	when := "at the end"
	if steps >= 0 {
		when = fmt.Sprintf("after step %d", steps)
	}
	diff, err := datasets.TextBytes(ctx, r.rollouts.Store(), r.Row.Trajectory.Diff)
	if err != nil {
		return "", err
	}
	if len(diff) == 0 {
		return "the workspace " + when + ": the rollout had changed nothing", nil
	}
	if _, err := workspace.Apply(ctx, sb, r.Task, diff); err != nil {
		return "", err
	}
	sum, err := workspace.TreeSHA256(ctx, sb, r.Task)
	if err != nil {
		return "", err
	}
	if sum != r.Row.Trajectory.DiffSHA256 {
		return fmt.Sprintf("the workspace %s from the stored diff; its sha256 is now %s, not the recorded %s", when, sum, r.Row.Trajectory.DiffSHA256), nil
	}
	return "the workspace " + when + ", exactly, from the stored diff; files that git ignores are not in it", nil
}

// again runs the recorded commands up to a step.
func (r *Rollout) again(ctx context.Context, sb sandbox.Sandbox, steps int) (string, error) {
	shell, env, ok := harness.CommandLine(r.Row.Harness)
	if !ok {
		return "", exit.Inputf("rollout %s was played by harness %q, whose shell is not known", r.Row.RolloutID, r.Row.Harness)
	}
	off := 0 // the first step that came out otherwise
	for i, step := range r.Row.Trajectory.Steps[:steps] {
		for _, a := range step.Actions {
			if a.ExitCode == nil {
				continue // it was not run
			}
			_, err := sb.Exec(ctx, sandbox.Command{
				Argv: append(slices.Clone(shell), a.Command), Cwd: r.Task.Workdir, Env: env, Timeout: limit(a), Merge: true,
			})
			if err != nil {
				return "", fmt.Errorf("run step %d again: %w", i+1, err)
			}
		}
		if off > 0 || step.DiffSHA256 == "" {
			continue
		}
		sum, err := workspace.TreeSHA256(ctx, sb, r.Task)
		if err != nil {
			return "", err
		}
		if sum != step.DiffSHA256 {
			off = i + 1
		}
	}
	note := fmt.Sprintf("the workspace after step %d, by running the recorded commands again", steps)
	if off > 0 {
		return note + fmt.Sprintf("; it differs from the recorded one since step %d", off), nil
	}
	return note + "; every recorded sha256 was met", nil
}

// limit is how long a command may take this time.
func limit(a record.Action) time.Duration {
	took := time.Duration(a.DurationMS) * time.Millisecond
	if a.TimedOut {
		return max(took, time.Second)
	}
	return max(5*took, 5*time.Minute)
}
