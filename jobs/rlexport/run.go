package rlexport

import (
	"context"
	"errors"
	"slices"

	"github.com/urfave/cli/v2"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/runner"
)

const name = "rl-export"

// Command is `orchard rl-export`.
func Command(d runner.Deps) *cli.Command {
	c := Defaults()
	return &cli.Command{
		Name:  name,
		Usage: "turn groups of rollouts, or tasks, into RL data",
		Description: runner.Describe("Of group datasets (--form groups) it writes a dataset of samples with tokens, loss masks,\n" +
			"log-probabilities, rewards and advantages, and the same beside it as slime.jsonl and\n" +
			"verl.parquet. Of task datasets (--form prompts) it writes prompts, and the same as\n" +
			"prompts-slime.jsonl, prompts-verl.parquet and prompts-nemo.jsonl."),
		Flags:        Flags(&c),
		OnUsageError: runner.UsageError,
		Action: runner.Action(name, "datasets are given with --in", func(ctx context.Context) error {
			_, err := Run(ctx, c, d)
			return err
		}),
	}
}

// groupSettings and promptSettings decide the rows beside the inputs.
type groupSettings struct {
	Form          string  `json:"form"`
	Advantage     string  `json:"advantage"`
	DDof          int     `json:"ddof"`
	Eps           float64 `json:"eps"`
	MaxTokens     int64   `json:"max_tokens"`
	Policy        string  `json:"policy"`
	WeightVersion string  `json:"weight_version"`
	Stale         string  `json:"stale"`
}

type promptSettings struct {
	Form     string `json:"form"`
	LabelKey string `json:"label_key"`
	NoLabel  bool   `json:"no_label"`
	Policy   string `json:"policy"` // whose pass rates
}

// Run exports.
func Run(ctx context.Context, c Config, d runner.Deps) (runner.Result, error) {
	fail := func(err error) (runner.Result, error) { return runner.Failed(c.Config, name, err) }
	if err := c.Validate(); err != nil {
		return fail(err)
	}
	c.Scale.NoStd = c.Advantage == AdvantageDrGRPO
	in, err := open(ctx, c, d.WithDefaults().Open)
	if err != nil {
		return fail(err)
	}
	stage := runner.Stage{Name: name, Version: Version, Inputs: in.all}
	if c.Form == FormPrompts {
		stage.Settings = c.promptSettings()
		return runner.Batch(ctx, c.Config, d, stage, func(ctx context.Context, p *runner.Pass[record.RLPrompt]) error {
			return writePrompts(ctx, c, in, p)
		})
	}
	stage.Settings = c.settings()
	return runner.Batch(ctx, c.Config, d, stage, func(ctx context.Context, p *runner.Pass[record.RLSample]) error {
		return writeGroups(ctx, c, in, p)
	})
}

func (c Config) settings() groupSettings {
	return groupSettings{c.Form, c.Advantage, c.Scale.DDof, c.Scale.Eps, c.MaxTokens, c.Policy, c.WeightVersion, c.Stale}
}

func (c Config) promptSettings() promptSettings {
	return promptSettings{c.Form, c.LabelKey, c.NoLabel, c.Policy}
}

// inputs is what the stage reads.
type inputs struct {
	in       []*datasets.Version // groups or tasks
	rollouts []*datasets.Version // of each group dataset
	passRate *datasets.Version   // nil: none
	all      []datasets.Input
}

// open opens the inputs and says of each that is something else what it is. In ModeCheck
// nothing is opened, as an earlier stage may be at work on it.
func open(ctx context.Context, c Config, opener datasets.Opener) (in inputs, err error) {
	if c.Mode == runner.ModeCheck {
		return in, nil
	}
	one := func(flag, uri, kind, maker string) (*datasets.Version, error) {
		v, err := runner.OpenAs(ctx, opener, flag, uri, kind, maker)
		if err != nil {
			return nil, err
		}
		in.all = append(in.all, v.Input(flag))
		return v, nil
	}
	kind, maker := "group", "bar"
	if c.Form == FormPrompts {
		kind, maker = "task", "import"
	}
	for _, uri := range c.In {
		v, err := one("in", uri, kind, maker)
		if err != nil {
			return in, err
		}
		if slices.ContainsFunc(in.in, func(w *datasets.Version) bool { return w.Digest() == v.Digest() }) {
			return in, exit.Inputf("--in %s: is given twice", v.Location())
		}
		in.in = append(in.in, v)
	}
	if c.PassRate != "" {
		if in.passRate, err = one("passrate", c.PassRate, "pass_rate", "passrate"); err != nil {
			return in, err
		}
	}
	if c.Form == FormPrompts {
		return in, nil
	}
	for i, v := range in.in {
		uri, given := rolloutsOf(c, i, v)
		r, err := one("rollouts", uri, "rollout", "bar")
		if !given && errors.Is(err, datasets.ErrNotFound) {
			return in, exit.Inputf("--rollouts: is not given, and there is no dataset %s beside %s; name the dataset that has the members' rollouts", uri, v.Location())
		}
		if err != nil {
			return in, err
		}
		in.rollouts = append(in.rollouts, r)
	}
	return in, nil
}

// rolloutsOf is where the rollouts of group dataset i are.
func rolloutsOf(c Config, i int, groups *datasets.Version) (uri string, given bool) {
	switch len(c.Rollouts) {
	case 0:
		loc := groups.Location()
		return loc.Beside(loc.Name + "-rollouts").String(), false
	case 1:
		return c.Rollouts[0], true
	}
	return c.Rollouts[i], true
}
