// Package draw plays rollouts of one task until somebody who looks at the finished ones
// has enough: what estimating a pass rate and choosing a group have in common.
//
// Each rollout is a piece of its unit (runner.Part): whatever is killed, no finished
// rollout is played again, and other work with the same policy and settings is given
// it. A rollout that only met trouble of ours is no rollout: the unit is tried again,
// and at the last try the draw counts as aborted, with no reward, never as a failure.
package draw

import (
	"context"
	"fmt"
	"slices"

	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/rollout/play"
	"orchard/internal/runner"
)

// Next says, by the draws that have ended, which indexes must be drawn before it can say
// more; none when it has enough. It is asked again after every draw.
type Next func(ended []record.Draw) (need []int64, err error)

// Drawer draws. Its fields do not change once it is used. Safe for concurrent use.
type Drawer struct {
	// Do plays one rollout, such as play.Doer's.
	Do    func(context.Context, runner.Unit, runner.Tools) (record.Rollout, error)
	Scope Scope
	// AtOnce is how many rollouts of a task run side by side at most.
	AtOnce int
}

// played is a rollout that ended.
type played struct {
	draw  record.Draw
	usage record.Usage // nothing for one that was there
	err   error
}

// Draw draws u's task, for Player and Task of u, until next has enough; what runs then
// is cancelled, and its sandboxes are freed before Draw returns. The draws that ended
// are given by index, with what those cost that were not there before. An error is
// trouble of ours, and the unit is to be tried again: rollouts beside the one that met it
// are played to their end first, since the next try is given them.
func (d *Drawer) Draw(ctx context.Context, u play.Unit, t runner.Tools, next Next) (draws []record.Draw, used record.Usage, err error) {
	running, cancel := context.WithCancel(ctx)
	results := make(chan played)
	inFlight := map[int64]bool{}
	var ended []record.Draw
	defer func() {
		cancel()
		for range inFlight {
			<-results
		}
	}()
	for {
		need, err := next(ended)
		if err != nil {
			return ended, used, err
		}
		if len(need) == 0 {
			return ended, used, nil
		}
		for _, index := range need {
			if _, there := place(ended, index); !there && len(inFlight) < max(1, d.AtOnce) && !inFlight[index] {
				inFlight[index] = true
				go func() { results <- d.one(running, play.Unit{Player: u.Player, Task: u.Task, Index: index}, t) }()
			}
		}
		if len(inFlight) == 0 {
			return ended, used, exit.With(exit.Bug, fmt.Errorf("draws %v of task %s are there and are asked for again", need, u.Task.TaskID))
		}
		p := <-results
		delete(inFlight, p.draw.Index)
		if p.err != nil {
			if trouble(ctx, p.err) {
				for len(inFlight) > 0 {
					delete(inFlight, (<-results).draw.Index)
				}
			}
			return ended, used, p.err
		}
		used = used.Add(p.usage)
		at, _ := place(ended, p.draw.Index)
		ended = slices.Insert(ended, at, p.draw)
	}
}

// place is where the draw of an index is, or belongs.
func place(ended []record.Draw, index int64) (at int, there bool) {
	return slices.BinarySearchFunc(ended, index, func(e record.Draw, index int64) int { return int(e.Index - index) })
}

// one plays one rollout, or is given it.
func (d *Drawer) one(ctx context.Context, u play.Unit, t runner.Tools) played {
	unit := play.Of(u)
	row, reused, err := runner.Part(ctx, t, d.Scope.of(u.Task), unit, func(ctx context.Context) (record.Rollout, error) {
		return d.Do(ctx, unit, t)
	})
	p := played{draw: Of(row)}
	p.draw.Index = u.Index
	switch {
	case err == nil && !reused:
		p.usage = row.Usage
	case err != nil && t.Last && trouble(ctx, err):
		p.draw = record.Draw{RolloutID: unit.ID, Index: u.Index, Outcome: record.InfraError, Status: Aborted, Trouble: err.Error()}
	case err != nil:
		p.err = fmt.Errorf("rollout %d: %w", u.Index, err)
	}
	return p
}

// Troubled is an error when a draw is there that nobody could find out about, for a
// caller who cannot decide without it.
func Troubled(draws []record.Draw) error {
	for _, d := range draws {
		if d.Outcome == record.InfraError {
			return fmt.Errorf("nothing can be said without rollout %d, which met trouble that is not its own: %s", d.Index, d.Trouble)
		}
	}
	return nil
}
