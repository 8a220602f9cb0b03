package draw

import (
	"context"
	"fmt"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/rollout"
	"orchard/internal/rollout/play"
	"orchard/internal/runner"
)

// World is what a stage draws with.
type World struct {
	Settings play.Settings
	Player   *rollout.Player
	Check    play.Check
	Do       func(context.Context, runner.Unit, runner.Tools) (record.Rollout, error)
	Scope    Scope
}

// Wire makes the world of a stage that writes to run.Out. It contacts nobody.
func Wire(run runner.Config, o play.Options, k Kept, d runner.Deps) (w World, err error) {
	if w.Settings, err = o.Settings(); err != nil {
		return w, err
	}
	if w.Player, w.Check, err = o.Player(run, d.WithDefaults().Now); err != nil {
		return w, err
	}
	out, err := datasets.Parse(run.Out)
	if err != nil {
		return w, fmt.Errorf("--out: %w", err)
	}
	dataset, err := k.Name(out.Name)
	if err != nil {
		return w, err
	}
	if answers := w.Check; answers != nil {
		w.Check = func(ctx context.Context) error {
			if err := runner.Takes[record.Rollout](ctx, d, out.Beside(dataset)); err != nil {
				return fmt.Errorf("--rollouts-out: %w", err)
			}
			return answers(ctx)
		}
	}
	w.Do = (&play.Doer{Canary: o.Canary}).Do
	w.Scope, err = NewScope(dataset, w.Settings, run, k.Weights, k.Fresh)
	return w, err
}

// Drawer draws at most so many rollouts of a task at once.
func (w World) Drawer(atOnce int) *Drawer { return &Drawer{Do: w.Do, Scope: w.Scope, AtOnce: atOnce} }
