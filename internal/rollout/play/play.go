// Package play is what stages that roll out share on their way to a rollout.Player: the
// settings of a rollout with their flags, the player that they wire, the units of a task
// dataset, and the doing of one. What a stage rolls out, how often, and what it makes of
// the rows is the stage's own.
package play

import (
	"context"
	"fmt"
	"time"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/harness"
	"orchard/internal/llm"
	"orchard/internal/rollout"
	"orchard/internal/runner"
)

// Check says whether what a stage needs answers. It is for Source.Ready.
type Check = func(context.Context) error

// Player wires what plays a unit, and the check that model and sandboxes answer. It
// contacts nobody, and where run asks nobody (Asks) it wires no more than names rollouts;
// the check is nil then.
func (o Options) Player(run runner.Config, now func() time.Time) (*rollout.Player, Check, error) {
	loop, err := harness.New(o.Harness, harness.Options{PromptFile: o.PromptFile})
	if err != nil {
		return nil, nil, exit.With(exit.Config, err)
	}
	p := &rollout.Player{
		Harness: loop, Policy: o.policy(), Seed: run.Seed, Now: now,
		Sampling: harness.Sampling{Temperature: sent(o.Temperature), TopP: sent(o.TopP), MaxTokens: o.MaxTokens, TokenIDs: o.TokenIDs},
		Limits:   harness.Limits{Steps: o.Steps, CommandTimeout: o.CommandTimeout, Wall: o.Wall, Tokens: o.Tokens, Stuck: o.Stuck},
		Spec:     o.spec(run.RunID, o.Wall), KeepDiffs: o.KeepDiffs,
	}
	if !Asks(run) {
		return p, nil, nil
	}
	client, err := llm.New(o.LLM)
	if err != nil {
		return nil, nil, exit.With(exit.Config, err)
	}
	boxes, err := o.client()
	if err != nil {
		return nil, nil, err
	}
	p.Model, p.Sandboxes, p.Grader = o.LLM.Wrap(client), boxes, o.grader(boxes, p.Spec, now)
	return p, func(ctx context.Context) error {
		if err := llm.Exit(client.Check(ctx)); err != nil {
			return err
		}
		return boxes.Check(ctx)
	}, nil
}

// Tasks calls each with every task of the inputs, in their order, and refuses inputs that
// are no task datasets and a task id that is there twice. A task comes without its raw
// row: a rollout needs no more than the columns.
func Tasks(ctx context.Context, in []*datasets.Version, each func(*record.Task) error) error {
	from := map[string]*datasets.Version{} // by task
	for _, v := range in {
		if err := runner.Want(v, "in", "task", "import"); err != nil {
			return err
		}
		for task, err := range datasets.Rows[record.Task](ctx, v) {
			if err != nil {
				return err
			}
			if other, ok := from[task.TaskID]; ok {
				return exit.Inputf("--in %s: task %s: is in %s already; ids must be unique over all inputs", v.Location(), task.TaskID, other.Location())
			}
			from[task.TaskID] = v
			task.Raw = ""
			if err := each(&task); err != nil {
				return err
			}
		}
	}
	return nil
}

// Unit is one rollout to play: the Work of a runner.Unit.
type Unit struct {
	Player *rollout.Player
	Task   *record.Task
	Index  int64
}

// Of is the unit as the runner takes it.
func Of(u Unit) runner.Unit {
	return runner.Unit{ID: u.Player.ID(u.Task.TaskID, u.Index), Task: fmt.Sprintf("%s #%d", u.Task.TaskID, u.Index), Work: u}
}

// Units are n rollouts of every task by every player, those of one task beside each other.
func Units(ctx context.Context, in []*datasets.Version, n int, players ...*rollout.Player) ([]runner.Unit, error) {
	var list []runner.Unit
	err := Tasks(ctx, in, func(task *record.Task) error {
		for _, p := range players {
			for i := range int64(n) {
				list = append(list, Of(Unit{p, task, i}))
			}
		}
		return nil
	})
	return list, err
}

// Doer does units. With Canary a task's gold patch is graded once before its first
// rollout, and a task whose own answer is not resolved costs no model call. Safe for
// concurrent use.
type Doer struct {
	Canary   bool
	canaries rollout.Canaries
}

// Do is Source.Do for units of this package.
func (d *Doer) Do(ctx context.Context, u runner.Unit, t runner.Tools) (record.Rollout, error) {
	return d.Play(ctx, u.Work.(Unit), rollout.Store{Keep: t.Keep, Blob: t.Blob, Put: t.PutBlob})
}

// Play does one unit; what it keeps is in store.
func (d *Doer) Play(ctx context.Context, u Unit, store rollout.Store) (record.Rollout, error) {
	if d.Canary {
		bad, err := d.canaries.Check(ctx, u.Task.TaskID, func(ctx context.Context) (record.Verdict, error) {
			return u.Player.Grader(store).Canary(ctx, *u.Task)
		})
		if err != nil {
			return record.Rollout{}, err
		}
		if bad != nil {
			return u.Player.Unplayed(*u.Task, u.Index, *bad), nil
		}
	}
	return u.Player.Play(ctx, *u.Task, u.Index, store)
}
