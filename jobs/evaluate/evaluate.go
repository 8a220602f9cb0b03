package evaluate

import (
	"context"

	"github.com/urfave/cli/v2"

	"orchard/datasets/record"
	"orchard/internal/runner"
)

// Command is `orchard evaluate`.
func Command(d runner.Deps) *cli.Command {
	c := Defaults()
	return &cli.Command{
		Name:  "evaluate",
		Usage: "measure policies in harnesses, or grade other systems' predictions",
		Description: runner.Describe("Plays every task --rollouts times with every policy in every harness and grades what came of it,\n"+
			"or grades the predictions of other systems (--predictions). Then it says how often tasks were\n"+
			"resolved, with intervals, and what changed against --baseline.",
			"OPENAI_API_KEY            key of the model servers", "SANDBOX_API_KEY           key of the sandbox service"),
		Flags:        Flags(&c),
		OnUsageError: runner.UsageError,
		Action: runner.Action("evaluate", "datasets are given with --in", func(ctx context.Context) error {
			_, err := Run(ctx, c, d)
			return err
		}),
	}
}

// Run makes the rollouts, or grades the predictions, and says what they say.
func Run(ctx context.Context, c Config, d runner.Deps) (runner.Result, error) {
	fail := func(err error) (runner.Result, error) { return runner.Failed(c.Config, "evaluate", err) }
	if err := c.Validate(); err != nil {
		return fail(err)
	}
	how := c.rolling
	if len(c.Predictions) > 0 {
		how = c.grading
	}
	w, err := how(d)
	if err != nil {
		return fail(err)
	}
	before, err := c.openBaseline(ctx, d)
	if err != nil {
		return fail(err)
	}
	w.source.Outcome = func(r record.Rollout) string { return string(r.Verdict.Outcome) }
	w.source.Usage = func(r record.Rollout) record.Usage { return r.Usage }
	r, err := runner.Rollouts(ctx, c.Config, d, w.stage, w.source)
	if err != nil || r.URI == "" || c.DryRun {
		return r, err
	}
	return r, c.analyse(ctx, d, w, r, before)
}
