package distill

import (
	"context"

	"github.com/urfave/cli/v2"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/rollout/play"
	"orchard/internal/runner"
)

// settings is what decides the rows beside the inputs and the model's answers.
type settings struct {
	play.Settings
	Rollouts int `json:"rollouts"`
}

// Command is `orchard distill`.
func Command(d runner.Deps) *cli.Command {
	c := Defaults()
	return &cli.Command{
		Name:  "distill",
		Usage: "roll out a teacher on tasks and grade what it did",
		Description: runner.Describe("Plays every task --rollouts times: a sandbox with the task's repository, a harness, the model;\n"+
			"then the diff is graded by the task's tests in a fresh sandbox. Killed anywhere and started\n"+
			"again with the same --run-id, it repeats no finished rollout.",
			"OPENAI_API_KEY            key of the model server", "SANDBOX_API_KEY           key of the sandbox service"),
		Flags:        Flags(&c),
		OnUsageError: runner.UsageError,
		Action: runner.Action("distill", "datasets are given with --in", func(ctx context.Context) error {
			_, err := Run(ctx, c, d)
			return err
		}),
	}
}

// Run plays and grades all rollouts.
func Run(ctx context.Context, c Config, d runner.Deps) (runner.Result, error) {
	fail := func(err error) (runner.Result, error) { return runner.Failed(c.Config, "distill", err) }
	if err := c.Validate(); err != nil {
		return fail(err)
	}
	shared, err := c.Options.Settings()
	if err != nil {
		return fail(err)
	}
	player, check, err := c.Player(c.Config, d.WithDefaults().Now)
	if err != nil {
		return fail(err)
	}
	doer := &play.Doer{Canary: c.Canary}
	stage := runner.Stage{Name: "distill", Version: Version, Settings: settings{shared, c.Rollouts}, Model: true}
	return runner.Rollouts(ctx, c.Config, d, stage, runner.Source[record.Rollout]{
		Ready:   check,
		Outcome: func(r record.Rollout) string { return string(r.Verdict.Outcome) },
		Usage:   func(r record.Rollout) record.Usage { return r.Usage },
		Units: func(ctx context.Context, in []*datasets.Version) ([]runner.Unit, error) {
			return play.Units(ctx, in, c.Rollouts, player)
		},
		Do: doer.Do,
	})
}
