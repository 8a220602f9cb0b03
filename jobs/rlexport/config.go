// Package rlexport is the stage that turns what other stages chose into reinforcement
// learning data, in one of two forms. Of groups it makes samples: the members' token ids,
// loss masks, log-probabilities, rewards and advantages, for a trainer that takes a
// gradient step on them. Of tasks it makes prompts, for a trainer that rolls out by itself.
//
// A group is exported whole or not at all: an advantage is a member's place among all
// members, so one that cannot be trained on takes the others with it. A reward that is
// null is never a number here. Every row is counted: written, or dropped under a reason.
package rlexport

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"orchard/internal/bar"
	"orchard/internal/exit"
	"orchard/internal/runner"
)

// Version goes up whenever the rows or files for the same inputs change.
const Version = 1

// What --form takes.
const (
	FormGroups  = "groups"
	FormPrompts = "prompts"
)

// What --advantage takes.
const (
	AdvantageGRPO   = "grpo"
	AdvantageDrGRPO = "dr-grpo" // without the division by the standard deviation
	AdvantageNone   = "none"    // the trainer computes its own
)

// What --stale takes.
const (
	StaleDrop  = "drop"
	StaleError = "error"
)

// Config is the stage's settings.
type Config struct {
	runner.Config
	Form string

	Policy string // whose groups or pass rates; "" is that of all of them

	// Of FormGroups.
	Rollouts      []string // of each --in, or one of all; none: the one beside each
	Advantage     string
	Scale         bar.Advantage // its NoStd follows from Advantage
	MaxTokens     int64         // of a row; 0 is no limit
	WeightVersion string        // "" is any
	Stale         string

	// Of FormPrompts.
	PassRate string // "" is none
	LabelKey string
	NoLabel  bool
}

// Defaults is the configuration without any flag.
func Defaults() Config {
	return Config{Config: runner.Default(), Form: FormGroups, Advantage: AdvantageGRPO, Scale: bar.DefaultAdvantage(), Stale: StaleDrop, LabelKey: "patch"}
}

// Flags are the flags that fill c.
func Flags(c *Config) []cli.Flag {
	const groups, prompts = "of --form groups", "of --form prompts"
	return append(runner.Flags(&c.Config),
		&cli.StringFlag{Name: "form", EnvVars: []string{"ORCHARD_RL_FORM"}, Destination: &c.Form, Value: c.Form, Usage: "groups: samples to train on, of group datasets; prompts: tasks for a trainer that rolls out by itself, of task datasets"},
		runner.ListFlag("rollouts", "ORCHARD_RL_ROLLOUTS", groups, "`URI` of the members' rollouts; one, or one for each --in in its order (default: <name of the group dataset>-rollouts beside each, its newest version)", &c.Rollouts),
		&cli.StringFlag{Name: "advantage", Category: groups, EnvVars: []string{"ORCHARD_RL_ADVANTAGE"}, Destination: &c.Advantage, Value: c.Advantage, Usage: "grpo: (reward - mean) / (standard deviation + eps); dr-grpo: reward - mean; none: the column stays null"},
		&cli.IntFlag{Name: "ddof", Category: groups, EnvVars: []string{"ORCHARD_RL_DDOF"}, Destination: &c.Scale.DDof, Value: c.Scale.DDof, Usage: "what is taken off the number of members in the standard deviation of grpo: 1 (slime, NeMo-RL) or 0 (the paper's formula)"},
		&cli.Float64Flag{Name: "eps", Category: groups, EnvVars: []string{"ORCHARD_RL_EPS"}, Destination: &c.Scale.Eps, Value: c.Scale.Eps, Usage: "what is added to the standard deviation of grpo"},
		&cli.Int64Flag{Name: "max-tokens", Category: groups, EnvVars: []string{"ORCHARD_RL_MAX_TOKENS"}, Destination: &c.MaxTokens, Value: c.MaxTokens, Usage: "drop groups with a row over so many tokens, prompt and response together; 0 is no limit"},
		&cli.StringFlag{Name: "policy", Category: "of both forms", EnvVars: []string{"ORCHARD_RL_POLICY"}, Destination: &c.Policy, Value: c.Policy, Usage: "use the groups, or the pass rates, of this policy only; without it, two policies are an error"},
		&cli.StringFlag{Name: "weight-version", Category: groups, EnvVars: []string{"ORCHARD_RL_WEIGHT_VERSION"}, Destination: &c.WeightVersion, Value: c.WeightVersion, Usage: "every token must have been sampled from these weights"},
		&cli.StringFlag{Name: "stale", Category: groups, EnvVars: []string{"ORCHARD_RL_STALE"}, Destination: &c.Stale, Value: c.Stale, Usage: "what becomes of a group that was sampled from other weights than --weight-version: drop or error"},
		&cli.StringFlag{Name: "passrate", Category: prompts, EnvVars: []string{"ORCHARD_RL_PASSRATE"}, Destination: &c.PassRate, Value: c.PassRate, Usage: "`URI` of a pass-rate dataset: only tasks that it keeps"},
		&cli.StringFlag{Name: "label-key", Category: prompts, EnvVars: []string{"ORCHARD_RL_LABEL_KEY"}, Destination: &c.LabelKey, Value: c.LabelKey, Usage: "`NAME` under which prompts-slime.jsonl has the gold patch"},
		&cli.BoolFlag{Name: "no-label", Category: prompts, EnvVars: []string{"ORCHARD_RL_NO_LABEL"}, Destination: &c.NoLabel, Value: c.NoLabel, Usage: "leave the gold patch out of all files"},
	)
}

// Validate says everything that is wrong, by the names of the flags.
func (c Config) Validate() error {
	errs := []error{c.Config.Validate()}
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	oneOf := func(flag, value string, allowed ...string) {
		if !slices.Contains(allowed, value) {
			bad("--%s: %q is none of %q", flag, value, allowed)
		}
	}
	oneOf("form", c.Form, FormGroups, FormPrompts)
	oneOf("advantage", c.Advantage, AdvantageGRPO, AdvantageDrGRPO, AdvantageNone)
	oneOf("stale", c.Stale, StaleDrop, StaleError)
	if err := (bar.Advantage{DDof: c.Scale.DDof}).Validate(); err != nil {
		bad("--ddof: %w", err)
	}
	if err := (bar.Advantage{Eps: c.Scale.Eps}).Validate(); err != nil {
		bad("--eps: %w", err)
	}
	if c.MaxTokens < 0 {
		bad("--max-tokens: %d must not be negative", c.MaxTokens)
	}
	if n := len(c.Rollouts); n > 1 && n != len(c.In) {
		bad("--rollouts: %d are given for %d --in; give one, or one for each", n, len(c.In))
	}
	switch c.LabelKey {
	case "":
		bad("--label-key: must not be empty; --no-label leaves the gold patch out")
	case "problem_statement", "metadata":
		bad("--label-key: %q is a column already", c.LabelKey)
	}
	switch {
	case c.Form == FormPrompts && len(c.Rollouts) > 0:
		bad("--rollouts: goes with --form groups only")
	case c.Form == FormPrompts && c.WeightVersion != "":
		bad("--weight-version: goes with --form groups only")
	case c.Form == FormPrompts && c.Policy != "" && c.PassRate == "":
		bad("--policy: tasks have none; it goes with --passrate, or with --form groups")
	case c.Form == FormGroups && c.PassRate != "":
		bad("--passrate: goes with --form prompts only")
	}
	return exit.With(exit.Config, errors.Join(errs...))
}

// amongst refuses a --policy that made none of what was read, if anything was: that is a
// wrong name more often than a wish for an empty result.
func (c Config) amongst(policies map[string]bool, none string) error {
	if c.Policy == "" || len(policies) == 0 || policies[c.Policy] {
		return nil
	}
	return exit.Inputf("%s is of the policy %q of --policy; there is %s", none, c.Policy, strings.Join(slices.Sorted(maps.Keys(policies)), ", "))
}
