package draw

import (
	"context"
	"fmt"
	"slices"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/rollout/play"
	"orchard/internal/runner"
)

// GatherVersion goes up whenever the rows of Gather for the same decisions change.
const GatherVersion = 1

// Gather makes the rollouts that a stage decided by a dataset beside its own: those of the
// decisions in r, all draws that have a row. decided gives the task and the draws of each
// row. It does nothing unless r is committed. The stage's tasks are read again from its inputs,
// where other kinds of rows may be as well, and the URI of the dataset goes into the output folder as "rollouts".
func Gather[T record.Row](ctx context.Context, c runner.Config, d runner.Deps, r runner.Result, scope Scope, decided func(T) (task string, draws []record.Draw)) error {
	if r.URI == "" || c.DryRun || c.Shard != (runner.Shard{}) || c.Mode == runner.ModePlan || c.Mode == runner.ModeCheck {
		return nil
	}
	out, err := datasets.Parse(c.Out)
	if err != nil {
		return err
	}
	own := c.After(out.Beside(scope.dataset).String(), r)
	stage := runner.Stage{Name: r.Stage + "-rollouts", Version: GatherVersion, Settings: struct{}{}, Model: true}
	all, err := runner.Batch(ctx, own, d, stage, func(ctx context.Context, p *runner.Pass[record.Rollout]) error {
		return gather(ctx, p, scope, decided)
	})
	if err != nil {
		return fmt.Errorf("gather the rollouts of %s: %w", r.URI, err)
	}
	return runner.SaveOutput(c.OutputDir, "rollouts", []byte(all.URI))
}

func gather[T record.Row](ctx context.Context, p *runner.Pass[record.Rollout], scope Scope, decided func(T) (string, []record.Draw)) error {
	where := map[string]runner.Scope{}
	tasks := slices.DeleteFunc(slices.Clone(p.Inputs[1:]), func(v *datasets.Version) bool { return v.Manifest().Schema.Name != "task" })
	if err := play.Tasks(ctx, tasks, func(task *record.Task) error {
		where[task.TaskID] = scope.of(task)
		return nil
	}); err != nil {
		return err
	}
	for row, err := range datasets.Rows[T](ctx, p.Inputs[0]) {
		if err != nil {
			return err
		}
		task, draws := decided(row)
		own, ok := where[task]
		if !ok {
			return exit.With(exit.Bug, fmt.Errorf("task %s has draws and is in no input", task))
		}
		for _, one := range draws {
			if one.Outcome == record.InfraError {
				continue // it has no row
			}
			p.Read(1)
			rollout, err := runner.LoadPart[record.Rollout](ctx, p, own, one.RolloutID)
			if err != nil {
				return fmt.Errorf("rollout %s of task %s: %w", one.RolloutID, task, err)
			}
			if err := p.Emit(ctx, rollout); err != nil {
				return err
			}
		}
	}
	return nil
}
