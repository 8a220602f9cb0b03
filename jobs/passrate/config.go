// Package passrate is the stage that finds the tasks a policy can learn from: those that it
// solves sometimes, but not mostly.
//
// It reads a task dataset, draws rollouts of each task until it is certain whether the task
// is kept, and writes one row a task and, beside them, the rollouts. Stopping early never
// changes a decision (internal/passrate). A draw without a reward is no failure: another is
// drawn in its place, and a task of which too little is known is "unknown", neither kept
// nor dropped.
package passrate

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"orchard/internal/exit"
	"orchard/internal/passrate"
	"orchard/internal/rollout/draw"
	"orchard/internal/rollout/play"
	"orchard/internal/runner"
)

// Version goes up whenever the rows for the same inputs and answers change.
const Version = 2

// Config is the stage's settings.
type Config struct {
	runner.Config
	play.Options
	draw.Kept

	Rule    passrate.Rule
	Redraws int  // draws a task beyond Rule.N at most, in place of those without a reward
	Early   bool // stop drawing when the decision can no longer change
}

// Defaults is the configuration without any flag.
func Defaults() Config {
	return Config{Config: runner.Default(), Options: play.Defaults(), Rule: passrate.Defaults(), Redraws: 4, Early: true}
}

// Flags are the flags that fill c.
func Flags(c *Config) []cli.Flag {
	const estimate = "PASS RATE"
	flags := append(runner.Flags(&c.Config),
		&cli.IntFlag{Name: "rollouts", Aliases: []string{"n"}, Category: estimate, EnvVars: []string{"ORCHARD_ROLLOUTS"}, Destination: &c.Rule.N, Value: c.Rule.N, Usage: "`NUMBER` of rollouts a task with a reward"},
		&cli.IntFlag{Name: "min-known", Category: estimate, EnvVars: []string{"ORCHARD_MIN_KNOWN"}, Destination: &c.Rule.NMin, Value: c.Rule.NMin, Usage: "`NUMBER` of rewards without which nothing is decided of a task"},
		&cli.Float64Flag{Name: "above", Category: estimate, EnvVars: []string{"ORCHARD_PASS_ABOVE"}, Destination: &c.Rule.Lo, Value: c.Rule.Lo, Usage: "keep tasks whose pass rate is above this `SHARE`"},
		&cli.Float64Flag{Name: "at-most", Category: estimate, EnvVars: []string{"ORCHARD_PASS_AT_MOST"}, Destination: &c.Rule.Hi, Value: c.Rule.Hi, Usage: "and at most this `SHARE`"},
		&cli.IntFlag{Name: "redraws", Category: estimate, EnvVars: []string{"ORCHARD_REDRAWS"}, Destination: &c.Redraws, Value: c.Redraws, Usage: "rollouts a task beyond --rollouts at most, in place of those without a reward"},
		&cli.BoolFlag{Name: "early-stop", Category: estimate, EnvVars: []string{"ORCHARD_EARLY_STOP"}, Destination: &c.Early, Value: c.Early, Usage: "stop drawing when the decision can no longer change; false draws all, for a better estimate"},
	)
	return append(append(flags, draw.Flags(&c.Kept)...), play.Flags(&c.Options)...)
}

// Validate says everything that is wrong, by the names of the flags.
func (c Config) Validate() error {
	errs := []error{c.Config.Validate(), c.Options.Validate(c.Config), c.Kept.Validate()}
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	r := c.Rule
	if r.N < 1 || r.N > 10000 {
		bad("--rollouts: %d must be 1 to 10000", r.N)
	}
	if r.NMin < 1 || r.NMin > r.N {
		bad("--min-known: %d must be 1 to --rollouts, which is %d", r.NMin, r.N)
	}
	if !(r.Lo >= 0 && r.Lo < r.Hi && r.Hi <= 1) {
		bad("--above, --at-most: %v and %v must be 0 <= above < at most <= 1", r.Lo, r.Hi)
	} else if len(errs) == 3 {
		if err := r.Validate(); err != nil {
			bad("--above, --at-most: %w", err)
		}
	}
	if c.Redraws < 0 || c.Redraws > 10000 {
		bad("--redraws: %d must be 0 to 10000", c.Redraws)
	}
	return exit.With(exit.Config, errors.Join(errs...))
}

// settings is what decides the rows beside the inputs and the model's answers.
type settings struct {
	play.Settings
	draw.KeptSettings
	Rule    passrate.Rule `json:"rule"`
	Redraws int           `json:"redraws"`
	Early   bool          `json:"early_stop"`
}
