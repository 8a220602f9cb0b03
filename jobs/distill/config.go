// Package distill is the stage that makes training data from a teacher: n rollouts of
// every task, each played in its own sandbox and graded in another.
//
// It reads a task dataset and writes a rollout dataset, one row a rollout, in the order
// of the tasks. A rollout whose worth could not be found out is no row: it is tried
// again, and a version with too many of those is not committed. A task whose own gold
// patch is not resolved costs no model call: its rollouts are rows with task_invalid.
package distill

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"orchard/internal/exit"
	"orchard/internal/rollout/play"
	"orchard/internal/runner"
)

// Version goes up whenever the rows for the same inputs and answers change.
const Version = 1

// Config is the stage's settings.
type Config struct {
	runner.Config
	play.Options

	Rollouts int
}

// Defaults is the configuration without any flag.
func Defaults() Config {
	return Config{Config: runner.Default(), Options: play.Defaults(), Rollouts: 4}
}

// Flags are the flags that fill c.
func Flags(c *Config) []cli.Flag {
	flags := append(runner.Flags(&c.Config),
		&cli.IntFlag{Name: "rollouts", Aliases: []string{"n"}, Category: play.Category, EnvVars: []string{"ORCHARD_ROLLOUTS"}, Destination: &c.Rollouts, Value: c.Rollouts, Usage: "`NUMBER` of rollouts a task"},
		&cli.BoolFlag{Name: "keep-diffs", Category: play.Category, EnvVars: []string{"ORCHARD_KEEP_DIFFS"}, Destination: &c.KeepDiffs, Value: c.KeepDiffs, Usage: "keep the diff after each step, for orchard credit --method execution"})
	return append(flags, play.Flags(&c.Options)...)
}

// Validate says everything that is wrong, by the names of the flags.
func (c Config) Validate() error {
	errs := []error{c.Config.Validate(), c.Options.Validate(c.Config)}
	if c.Rollouts < 1 || c.Rollouts > 10000 {
		errs = append(errs, fmt.Errorf("--rollouts: %d must be 1 to 10000", c.Rollouts))
	}
	return exit.With(exit.Config, errors.Join(errs...))
}
