package bar

import (
	"context"

	"github.com/rs/zerolog"
	"github.com/urfave/cli/v2"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/bar"
	"orchard/internal/rollout/draw"
	"orchard/internal/rollout/play"
	"orchard/internal/runner"
)

// Command is `orchard bar`.
func Command(d runner.Deps) *cli.Command {
	c := Defaults()
	return &cli.Command{
		Name:  "bar",
		Usage: "draw one round of groups for reinforcement learning",
		Description: runner.Describe("Tries tasks in an order that --seed and --round decide, draws rollouts of each until they\n"+
			"make a group of positives and negatives or cannot, and stops at --groups of them. Writes one\n"+
			"row a task that was tried, and the rollouts beside it. --in takes task datasets, and pass-rate\n"+
			"datasets that say which of the tasks to use. Tasks in parallel are --workers, and of each a\n"+
			"stride of rollouts side by side. Killed anywhere and started again, it repeats no finished\n"+
			"rollout, in the middle of a stride either.",
			"OPENAI_API_KEY            key of the model server", "SANDBOX_API_KEY           key of the sandbox service"),
		Flags:        Flags(&c),
		OnUsageError: runner.UsageError,
		Action: runner.Action("bar", "datasets are given with --in", func(ctx context.Context) error {
			_, err := Run(ctx, c, d)
			return err
		}),
	}
}

// Run draws the groups.
func Run(ctx context.Context, c Config, d runner.Deps) (runner.Result, error) {
	fail := func(err error) (runner.Result, error) { return runner.Failed(c.Config, "bar", err) }
	if err := c.Validate(); err != nil {
		return fail(err)
	}
	strategy, err := c.strategy()
	if err != nil {
		return fail(err)
	}
	w, err := draw.Wire(c.Config, c.Options, c.Kept, d)
	if err != nil {
		return fail(err)
	}
	return c.run(ctx, d, strategy, w)
}

func (c Config) run(ctx context.Context, d runner.Deps, strategy bar.Strategy, w draw.World) (runner.Result, error) {
	r := round{Config: c, strategy: strategy, drawer: w.Drawer(strategy.Most())}
	stage := runner.Stage{Name: "bar", Version: Version, Model: true, Settings: settings{w.Settings, c.Kept.Settings(), c.Strategy, strategy, c.Groups, c.Prompts, c.Round}}
	result, err := runner.Rollouts(ctx, c.Config, d, stage, runner.Source[record.Group]{
		Ready:   w.Check,
		Outcome: outcome,
		Usage:   func(g record.Group) record.Usage { return g.Usage },
		Limit:   c.Groups,
		Counts:  func(g record.Group) bool { return g.Usable },
		Units: func(ctx context.Context, in []*datasets.Version) ([]runner.Unit, error) {
			tasks, err := c.prompts(ctx, in)
			var list []runner.Unit
			for place, task := range tasks {
				p := prompt{Unit: play.Unit{Player: w.Player, Task: task}, place: int64(place)}
				list = append(list, runner.Unit{ID: r.id(p), Task: task.TaskID, Work: p})
			}
			return list, err
		},
		Do: func(ctx context.Context, u runner.Unit, t runner.Tools) (record.Group, error) {
			return r.group(ctx, u.Work.(prompt), t)
		},
	})
	if err != nil {
		return result, err
	}
	if short := c.Groups - int(usable(result)); short > 0 && result.URI != "" {
		zerolog.Ctx(ctx).Warn().Int("groups", int(usable(result))).Int("wanted", c.Groups).Msg("no task is left to try, and the round is short of usable groups")
	}
	return result, draw.Gather(ctx, c.Config, d, result, w.Scope, func(g record.Group) (string, []record.Draw) { return g.TaskID, g.Draws })
}

// usable is how many of the groups that are the result are.
func usable(r runner.Result) (n int64) {
	for _, kind := range []bar.Kind{bar.Strict, bar.Relaxed, bar.Degenerate, bar.Fixed} {
		n += r.Outcomes[string(kind)]
	}
	return n
}

// outcome is the kind of a group, or why there is none.
func outcome(g record.Group) string {
	if g.Usable {
		return g.Kind
	}
	return g.Reason
}

// sample is a draw as a strategy sees it; base is the index of the round's first.
func sample(d record.Draw, base int64) bar.Sample {
	return bar.Sample{Index: int(d.Index - base), Status: bar.Status(d.Status), Reward: d.Reward, Length: d.Length}
}
