package passrate

import (
	"context"

	"github.com/urfave/cli/v2"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/passrate"
	"orchard/internal/rollout/draw"
	"orchard/internal/rollout/play"
	"orchard/internal/runner"
	"orchard/internal/seal"
	"orchard/internal/stats"
)

// Command is `orchard passrate`.
func Command(d runner.Deps) *cli.Command {
	c := Defaults()
	return &cli.Command{
		Name:  "passrate",
		Usage: "find the tasks that a policy solves sometimes, for reinforcement learning",
		Description: runner.Describe("Draws rollouts of each task until it is certain whether its pass rate is above --above and at\n"+
			"most --at-most, and writes one row a task, with the interval, and the rollouts beside it.\n"+
			"Tasks in parallel are --workers; the rollouts of one task run side by side as far as none\n"+
			"of them can turn out to be in vain. Rollouts that are there already of the same policy,\n"+
			"weights, settings and seed are taken.",
			"OPENAI_API_KEY            key of the model server", "SANDBOX_API_KEY           key of the sandbox service"),
		Flags:        Flags(&c),
		OnUsageError: runner.UsageError,
		Action: runner.Action("passrate", "datasets are given with --in", func(ctx context.Context) error {
			_, err := Run(ctx, c, d)
			return err
		}),
	}
}

// Run estimates the pass rates.
func Run(ctx context.Context, c Config, d runner.Deps) (runner.Result, error) {
	fail := func(err error) (runner.Result, error) { return runner.Failed(c.Config, "passrate", err) }
	if err := c.Validate(); err != nil {
		return fail(err)
	}
	w, err := draw.Wire(c.Config, c.Options, c.Kept, d)
	if err != nil {
		return fail(err)
	}
	return c.run(ctx, d, w)
}

func (c Config) run(ctx context.Context, d runner.Deps, w draw.World) (runner.Result, error) {
	drawer := w.Drawer(c.Rule.N)
	stage := runner.Stage{Name: "passrate", Version: Version, Model: true, Settings: settings{w.Settings, c.Kept.Settings(), c.Rule, c.Redraws, c.Early}}
	result, err := runner.Rollouts(ctx, c.Config, d, stage, runner.Source[record.PassRate]{
		Ready:   w.Check,
		Outcome: func(r record.PassRate) string { return r.Decision },
		Usage:   func(r record.PassRate) record.Usage { return r.Usage },
		Units: func(ctx context.Context, in []*datasets.Version) (list []runner.Unit, err error) {
			err = play.Tasks(ctx, in, func(task *record.Task) error {
				u := play.Unit{Player: w.Player, Task: task}
				list = append(list, runner.Unit{ID: c.id(u), Task: task.TaskID, Work: u})
				return nil
			})
			return list, err
		},
		Do: func(ctx context.Context, u runner.Unit, t runner.Tools) (record.PassRate, error) {
			return c.estimate(ctx, drawer, u.Work.(play.Unit), t)
		},
	})
	if err != nil {
		return result, err
	}
	return result, draw.Gather(ctx, c.Config, d, result, w.Scope, func(r record.PassRate) (string, []record.Draw) { return r.TaskID, r.Draws })
}

func (c Config) id(u play.Unit) string {
	return seal.ID(u.Task.TaskID, u.Player.Policy, u.Player.Harness.Name(), c.Weights)
}

// estimate draws until the task is decided.
func (c Config) estimate(ctx context.Context, drawer *draw.Drawer, u play.Unit, t runner.Tools) (record.PassRate, error) {
	row := record.PassRate{
		PassRateID: c.id(u), TaskID: u.Task.TaskID, Source: u.Task.Source, Repo: u.Task.Repo, Language: u.Task.Language,
		Policy: u.Player.Policy, Harness: u.Player.Harness.Name(), WeightVersion: c.Weights, Wanted: int64(c.Rule.N), Draws: []record.Draw{},
	}
	ended, used, err := drawer.Draw(ctx, u, t, func(ended []record.Draw) ([]int64, error) {
		s, err := c.look(ended)
		return s.need, err
	})
	if err != nil {
		return row, err
	}
	s, err := c.look(ended)
	if err != nil {
		return row, err
	}
	if s.decision == passrate.Unknown {
		if err := draw.Troubled(s.draws); err != nil {
			return row, err
		}
	}
	row.Draws, row.Valid, row.Passed, row.Usage = s.draws, int64(s.known), int64(s.pass), used
	row.Unknown = int64(len(s.draws) - s.known)
	if s.known > 0 {
		rate := float64(s.pass) / float64(s.known)
		w := stats.Wilson(int64(s.pass), int64(s.known))
		row.Rate, row.Low, row.High = &rate, &w.Lo, &w.Hi
	}
	row.Decision, row.Reason = string(s.decision), c.reason(s)
	row.Early = s.known < c.Rule.N && s.decision != passrate.Unknown && len(s.draws) < c.Rule.N+c.Redraws
	return row, nil
}
