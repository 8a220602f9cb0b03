// Package evaluate is the stage that measures: policies in harnesses on tasks, or the
// predictions of other systems as they are.
//
// It writes a rollout dataset, one row a rollout, and beside it a dataset of evaluations,
// one row a policy and harness, with evaluation.json, evaluation.md and evaluation.txt.
// Predictions are graded like rollouts, in fresh sandboxes, and are rows of the harness
// "predictions" without a trajectory. How the rows become numbers is internal/evaluation's.
package evaluate

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"orchard/internal/exit"
	"orchard/internal/harness"
	"orchard/internal/llm/llmflags"
	"orchard/internal/rollout/play"
	"orchard/internal/runner"
	"orchard/internal/stats"
)

// Version goes up whenever the rollouts for the same inputs and answers change, and
// AnalysisVersion whenever what is said of the same rollouts does.
const (
	Version         = 1
	AnalysisVersion = 1
)

// What becomes of predictions that do not fit the tasks.
const (
	MissingUnresolved = "unresolved" // a task without a prediction counts as not resolved
	MissingDrop       = "drop"       // and is left out
	UnknownError      = "error"      // a prediction for a task that is in no input ends the stage
	UnknownDrop       = "drop"
)

// Config is the stage's settings.
type Config struct {
	runner.Config
	play.Options

	Rollouts  int
	Policies  []string // NAME=URL or NAME=MODEL@URL
	Harnesses []string

	Predictions []string // files
	Missing     string
	Unknown     string

	Ks        []string
	MaxUnseen runner.Share // of rollouts without a reward, above which there is no headline
	Resamples int
	Baseline  string // URI of an earlier evaluation's rollouts
}

// Defaults is the configuration without any flag.
func Defaults() Config {
	return Config{
		Config: runner.Default(), Options: play.Defaults(), Rollouts: 1,
		Missing: MissingUnresolved, Unknown: UnknownError, MaxUnseen: .02, Resamples: stats.Resamples,
	}
}

// Flags are the flags that fill c.
func Flags(c *Config) []cli.Flag {
	const preds, numbers = "PREDICTIONS", "NUMBERS"
	flags := append(runner.Flags(&c.Config), llmflags.Flags(&c.LLM)...)
	flags = append(flags,
		&cli.IntFlag{Name: "rollouts", Aliases: []string{"n"}, Category: play.Category, EnvVars: []string{"ORCHARD_ROLLOUTS"}, Destination: &c.Rollouts, Value: c.Rollouts, Usage: "`NUMBER` of rollouts a task, policy and harness"},
		runner.ListFlag("harness", "ORCHARD_HARNESS", play.Category, "agent loop, repeatable or with commas: "+strings.Join(harness.Names(), ", ")+" (default: "+c.Harness+")", &c.Harnesses),
		runner.ListFlag("policy", "ORCHARD_POLICIES", play.Category, "`NAME=URL` of a model server, repeatable or with spaces, beside --llm-url; NAME=MODEL@URL where the server calls the model otherwise; they share the key and the other --llm flags", &c.Policies),

		runner.ListFlag("predictions", "ORCHARD_PREDICTIONS", preds, "grade the predictions in `FILE` instead of rolling out (preds.json, all_preds.jsonl), repeatable", &c.Predictions),
		&cli.StringFlag{Name: "missing-predictions", Category: preds, EnvVars: []string{"ORCHARD_MISSING_PREDICTIONS"}, Destination: &c.Missing, Value: c.Missing, Usage: "a task without a prediction is `WHAT`: unresolved (as SWE-bench counts it, shown apart) or drop (left out)"},
		&cli.StringFlag{Name: "unknown-predictions", Category: preds, EnvVars: []string{"ORCHARD_UNKNOWN_PREDICTIONS"}, Destination: &c.Unknown, Value: c.Unknown, Usage: "a prediction for a task that is in no input is `WHAT`: error or drop"},

		runner.ListFlag("pass-k", "ORCHARD_PASS_K", numbers, "`K` of pass@k and pass^k, repeatable (default: powers of two up to --rollouts, and that)", &c.Ks),
		runner.ShareFlag("max-infra-headline", "ORCHARD_MAX_INFRA_HEADLINE", numbers, "`SHARE` of rollouts without a reward above which no headline is given, only bounds", &c.MaxUnseen),
		&cli.IntFlag{Name: "resamples", Category: numbers, EnvVars: []string{"ORCHARD_RESAMPLES"}, Destination: &c.Resamples, Value: c.Resamples, Usage: "`NUMBER` of draws of the bootstrap"},
		&cli.StringFlag{Name: "baseline", Category: numbers, EnvVars: []string{"ORCHARD_BASELINE"}, Destination: &c.Baseline, Usage: "`URI` of an earlier evaluation's rollouts, to compare with on common tasks; previous is the newest of another run of the same tasks and settings"},
	)
	return append(flags, play.SharedFlags(&c.Options)...)
}

// Validate says everything that is wrong, by the names of the flags.
func (c Config) Validate() error {
	errs := []error{c.Config.Validate()}
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if len(c.Predictions) > 0 {
		errs = append(errs, c.Boxes.Validate(c.Config))
		if len(c.Policies)+len(c.Harnesses) > 0 {
			bad("--predictions: nothing is rolled out with it; leave out --policy and --harness, or evaluate the two apart")
		}
		if c.Rollouts != 1 {
			bad("--rollouts: a system has one prediction a task; leave it out with --predictions")
		}
	} else {
		errs = append(errs, c.validateSystems())
	}
	if c.Rollouts < 1 || c.Rollouts > 10000 {
		bad("--rollouts: %d must be 1 to 10000", c.Rollouts)
	}
	if !slices.Contains([]string{MissingUnresolved, MissingDrop}, c.Missing) {
		bad("--missing-predictions: %q is none of unresolved, drop", c.Missing)
	}
	if !slices.Contains([]string{UnknownError, UnknownDrop}, c.Unknown) {
		bad("--unknown-predictions: %q is none of error, drop", c.Unknown)
	}
	if _, err := c.ks(); err != nil {
		errs = append(errs, err)
	}
	if c.Resamples < 100 || c.Resamples > 1_000_000 {
		bad("--resamples: %d must be 100 to 1000000", c.Resamples)
	}
	return exit.With(exit.Config, errors.Join(errs...))
}

func (c Config) ks() ([]int64, error) {
	var list []int64
	for _, text := range c.Ks {
		for one := range strings.SplitSeq(text, ",") {
			k, err := strconv.ParseInt(strings.TrimSpace(one), 10, 64)
			if err != nil || k < 1 || k > 10000 {
				return nil, fmt.Errorf("--pass-k: %q must be a number from 1 to 10000", one)
			}
			list = append(list, k)
		}
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}
