// Package bar is the stage that draws the rollouts of one round of reinforcement learning:
// of each task as many as it takes for a group of positives and negatives, by balanced
// adaptive rollout (BAR) or one of its baselines, until there are enough groups.
//
// It reads task datasets, and pass-rate datasets that say which of the tasks to use, and
// writes one row a task that was tried and, beside them, the rollouts. Which tasks those
// are depends on their order in the round, which the seed decides, and never on which
// rollout was quick. What is decided of one task is internal/bar's; this package draws.
package bar

import (
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"orchard/internal/bar"
	"orchard/internal/exit"
	"orchard/internal/rollout/draw"
	"orchard/internal/rollout/play"
	"orchard/internal/runner"
)

// Version goes up whenever the rows for the same inputs and answers change.
const Version = 1

// The strategies.
const (
	StrategyBAR   = "bar"
	StrategyFixed = "fixed"
	StrategyDAPO  = "dapo"
)

// mostDraws is how many rollouts of a task a round draws at most, whatever its settings, and
// mostRounds keeps their indexes far from where numbers end.
const (
	mostDraws  = 1000
	mostRounds = 1_000_000_000
)

// Config is the stage's settings.
type Config struct {
	runner.Config
	play.Options
	draw.Kept

	Strategy string
	Preset   string
	// What the preset does not decide; 0, and for shares below 0, leaves it to the preset.
	Size, Draws, Stride int
	Low, High           float64
	Eager, Truncated    bool

	Groups  int // usable ones; 0 is as many as there are
	Prompts int // tasks that may be tried for them; 0 is all
	Round   int64
}

// Defaults is the configuration without any flag.
func Defaults() Config {
	return Config{Config: runner.Default(), Options: play.Defaults(), Strategy: StrategyBAR, Preset: bar.PresetOrchard, Low: -1, High: -1}
}

// Flags are the flags that fill c.
func Flags(c *Config) []cli.Flag {
	const groups, batch = "GROUPS", "BATCH"
	flags := append(runner.Flags(&c.Config),
		&cli.StringFlag{Name: "strategy", Category: groups, EnvVars: []string{"ORCHARD_STRATEGY"}, Destination: &c.Strategy, Value: c.Strategy, Usage: "bar, fixed (all of --group-size rollouts) or dapo (the same, and of some positive and some not)"},
		&cli.StringFlag{Name: "preset", Category: groups, EnvVars: []string{"ORCHARD_BAR_PRESET"}, Destination: &c.Preset, Value: c.Preset, Usage: "settings of bar to begin with: " + strings.Join(bar.Presets(), ", ")},
		&cli.IntFlag{Name: "group-size", Category: groups, EnvVars: []string{"ORCHARD_GROUP_SIZE"}, Destination: &c.Size, Usage: "rollouts of a group; 0 is the preset's"},
		&cli.IntFlag{Name: "max-draws", Category: groups, EnvVars: []string{"ORCHARD_MAX_DRAWS"}, Destination: &c.Draws, Usage: "rollouts drawn of a task at most; 0 is the preset's"},
		&cli.IntFlag{Name: "stride", Category: groups, EnvVars: []string{"ORCHARD_STRIDE"}, Destination: &c.Stride, Usage: "rollouts drawn between two looks at them; 0 is the preset's"},
		&cli.Float64Flag{Name: "rho-low", Category: groups, EnvVars: []string{"ORCHARD_RHO_LOW"}, Destination: &c.Low, Value: c.Low, Usage: "least `SHARE` of positives in a balanced group; negative is the preset's"},
		&cli.Float64Flag{Name: "rho-high", Category: groups, EnvVars: []string{"ORCHARD_RHO_HIGH"}, Destination: &c.High, Value: c.High, Usage: "largest `SHARE` of positives in a balanced group; negative is the preset's"},
		&cli.BoolFlag{Name: "eager-stop", Category: groups, EnvVars: []string{"ORCHARD_EAGER_STOP"}, Destination: &c.Eager, Usage: "look after every rollout and not only after whole strides; quicker, and in favour of short rollouts"},
		&cli.BoolFlag{Name: "train-truncated", Category: groups, EnvVars: []string{"ORCHARD_TRAIN_TRUNCATED"}, Destination: &c.Truncated, Usage: "let rollouts that were cut at a limit of steps or tokens, and have a reward, be members"},
		&cli.IntFlag{Name: "groups", Category: batch, EnvVars: []string{"ORCHARD_GROUPS"}, Destination: &c.Groups, Usage: "`NUMBER` of usable groups to draw: tasks that give none are made up for by further ones; 0 tries every task once"},
		&cli.IntFlag{Name: "prompts", Category: batch, EnvVars: []string{"ORCHARD_PROMPTS"}, Destination: &c.Prompts, Usage: "tasks that are tried for --groups at most; 0 is all"},
		&cli.Int64Flag{Name: "round", Category: batch, EnvVars: []string{"ORCHARD_ROUND"}, Destination: &c.Round, Usage: "`NUMBER` of this round, from 0: it decides the order of the tasks, and rollouts are never those of another round"},
	)
	return append(append(flags, draw.Flags(&c.Kept)...), play.Flags(&c.Options)...)
}

// strategy is how a task's group is chosen, or what is wrong with the flags.
func (c Config) strategy() (bar.Strategy, error) {
	o, err := bar.Preset(c.Preset)
	if err != nil {
		return nil, fmt.Errorf("--preset: %w", err)
	}
	for _, set := range []struct {
		flag string
		of   *int
		to   int
	}{{"--group-size", &o.N, c.Size}, {"--max-draws", &o.NMax, c.Draws}, {"--stride", &o.Stride, c.Stride}} {
		if set.to < 0 || set.to > mostDraws {
			return nil, fmt.Errorf("%s: %d must be 0 to %d", set.flag, set.to, mostDraws)
		}
		if set.to > 0 {
			*set.of = set.to
		}
	}
	if c.Low >= 0 {
		o.Lo = c.Low
	}
	if c.High >= 0 {
		o.Hi = c.High
	}
	o.EagerStop, o.TruncatedUsable = c.Eager, o.TruncatedUsable || c.Truncated
	switch c.Strategy {
	case StrategyBAR:
		b, err := bar.New(o)
		if err != nil {
			return nil, fmt.Errorf("--group-size (n), --max-draws (n_max), --stride, --rho-low and --rho-high (rho): %w", err)
		}
		return b, nil
	case StrategyFixed, StrategyDAPO:
		if o.N < 2 {
			return nil, fmt.Errorf("--group-size: %d must be at least 2", o.N)
		}
		if c.Draws != 0 || c.Stride != 0 || c.Low >= 0 || c.High >= 0 || c.Eager {
			return nil, fmt.Errorf("--strategy: %s draws --group-size rollouts and has no --max-draws, --stride, --rho-low, --rho-high or --eager-stop", c.Strategy)
		}
		if c.Strategy == StrategyFixed {
			return bar.FixedN{N: o.N, Reading: o.Reading}, nil
		}
		return bar.DAPO{N: o.N, Reading: o.Reading}, nil
	}
	return nil, fmt.Errorf("--strategy: %q is none of bar, fixed, dapo", c.Strategy)
}

// Validate says everything that is wrong, by the names of the flags.
func (c Config) Validate() error {
	_, err := c.strategy()
	errs := []error{c.Config.Validate(), c.Options.Validate(c.Config), c.Kept.Validate(), err}
	if c.Groups < 0 || c.Prompts < 0 || c.Round < 0 {
		errs = append(errs, fmt.Errorf("--groups, --prompts, --round: must not be negative"))
	}
	if c.Round > mostRounds {
		errs = append(errs, fmt.Errorf("--round: %d must be at most %d", c.Round, mostRounds))
	}
	if c.Prompts > 0 && c.Prompts < c.Groups {
		errs = append(errs, fmt.Errorf("--prompts: %d tasks cannot give the %d groups of --groups", c.Prompts, c.Groups))
	}
	return exit.With(exit.Config, errors.Join(errs...))
}

// settings is what decides the rows beside the inputs and the model's answers.
type settings struct {
	play.Settings
	draw.KeptSettings
	Strategy string       `json:"strategy"`
	Choice   bar.Strategy `json:"choice"`
	Groups   int          `json:"groups"`
	Prompts  int          `json:"prompts"`
	Round    int64        `json:"round"`
}
