// Package history is `orchard history`: the runs that an evaluation has had, and the
// headline of one of them for a workflow.
//
// It reads a dataset of evaluations and writes nothing to the store. A run without a
// headline is an error, after everything was said of it.
package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"orchard/datasets"
	"orchard/internal/evaluation/history"
	"orchard/internal/exit"
	"orchard/internal/runner"
)

// Config is the step's settings.
type Config struct {
	runner.Config
	Alpha float64
	Last  int
}

// Command is `orchard history`.
func Command(d runner.Deps) *cli.Command {
	c := Config{Config: runner.Default(), Alpha: .05, Last: 30}
	return &cli.Command{
		Name:  "history",
		Usage: "say what evaluations there were, and the headline of one",
		Description: runner.Describe("Reads a dataset of evaluations (<out>-evaluation of `orchard evaluate`), and prints the runs of\n" +
			"the same tasks and settings, the newest first, up to the version of --in. With --output-dir it\n" +
			"writes headline, and of the first system rate, low, high, mcnemar-p, and regression, there;\n" +
			"--out is not used. A version without a headline is an error."),
		OnUsageError: runner.UsageError,
		Flags: append(runner.Flags(&c.Config),
			&cli.Float64Flag{Name: "alpha", EnvVars: []string{"ORCHARD_ALPHA"}, Destination: &c.Alpha, Value: c.Alpha, Usage: "a lower rate with a McNemar p below this `LEVEL` is a regression"},
			&cli.IntFlag{Name: "last", EnvVars: []string{"ORCHARD_HISTORY_LAST"}, Destination: &c.Last, Value: c.Last, Usage: "`NUMBER` of runs to print at most"},
		),
		Action: runner.Action("history", "the dataset is given with --in", func(ctx context.Context) error {
			return Run(ctx, c, d)
		}),
	}
}

// Validate says everything that is wrong, by the names of the flags.
func (c Config) Validate() error {
	errs := []error{c.Config.Validate()}
	if len(c.In) > 1 {
		errs = append(errs, fmt.Errorf("--in: give one dataset of evaluations"))
	}
	if c.Last < 1 {
		errs = append(errs, fmt.Errorf("--last: %d must be at least 1", c.Last))
	}
	if !(c.Alpha > 0 && c.Alpha < 1) {
		errs = append(errs, fmt.Errorf("--alpha: %v must be above 0 and below 1", c.Alpha))
	}
	return exit.With(exit.Config, errors.Join(errs...))
}

// Run prints the history to d.Stdout and writes the step's outputs.
func Run(ctx context.Context, c Config, d runner.Deps) error {
	c.Out = cmp.Or(c.Out, "-") // shared, and not used
	if err := c.Validate(); err != nil {
		return err
	}
	if err := c.run(ctx, d.WithDefaults()); err != nil {
		_, err = runner.Failed(c.Config, "history", err)
		return err
	}
	return nil
}

func (c Config) run(ctx context.Context, d runner.Deps) error {
	v, err := datasets.Open(ctx, d.Open, c.In[0])
	if err != nil {
		return fmt.Errorf("--in: %w", err)
	}
	own, err := history.Of(ctx, v)
	if err != nil {
		return fmt.Errorf("--in: %w", err)
	}
	all, err := history.All(ctx, v.Store(), v.Location().Name)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(r history.Run) bool {
		return !r.Same(own) || r.At.After(own.At) || r.Rollouts == own.Rollouts
	})
	var text strings.Builder
	if err := history.Table(&text, append(all, own), c.Last, c.Alpha); err != nil {
		return err
	}
	headline := own.Headlines(c.Alpha)
	if _, err := fmt.Fprintf(d.Stdout, "%s\n%s\n", text.String(), headline); err != nil {
		return fmt.Errorf("print the history: %w", err)
	}
	for name, value := range c.outputs(own, headline, text.String()) {
		if err := runner.SaveOutput(c.OutputDir, name, []byte(value)); err != nil {
			return err
		}
	}
	if !own.Headline() {
		return exit.Inputf("run %s has %s", own.ID, headline)
	}
	return nil
}

// outputs are small values for a workflow; what is not known is empty.
func (c Config) outputs(r history.Run, headline, table string) map[string]string {
	out := map[string]string{"headline": headline, "history.txt": table, "rate": "", "low": "", "high": "", "mcnemar-p": "", "regression": ""}
	if worse := r.Regression(c.Alpha); worse != nil {
		out["regression"] = strconv.FormatBool(*worse)
	}
	if len(r.Systems) > 0 {
		e := r.Systems[0]
		for name, value := range map[string]*float64{"rate": e.Rate, "low": e.Low, "high": e.High, "mcnemar-p": e.McNemarP} {
			if value != nil {
				out[name] = strconv.FormatFloat(*value, 'g', 6, 64)
			}
		}
	}
	return out
}
