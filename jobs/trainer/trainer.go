// Package trainer stands where a user's own trainer does in reinforcement learning:
// `orchard trainer check` takes what a trainer takes, and instead of training makes sure
// that a trainer could: that the files of an export are whole and say what its rows say,
// that masks, log-probabilities and advantages fit, and that every group is complete.
//
// It trains nothing and changes no model. It answers with the model that it was given
// under another weight version, so that the next round's rollouts are new ones. It reads
// an rl_sample dataset and writes nothing to the store.
package trainer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"orchard/datasets"
	"orchard/internal/exit"
	"orchard/internal/runner"
)

// Config is the step's settings.
type Config struct {
	runner.Config
	Files  string // URI that the export's files begin with; "" is that beside the dataset
	Round  int64
	URL    string // of the model server that the rollouts came from; "" is that of the environment
	Weight string // version of its weights; "" is not known
}

// Command is `orchard trainer`.
func Command(d runner.Deps) *cli.Command {
	c := Config{Config: runner.Default()}
	return &cli.Command{
		Name: "trainer", Usage: "what stands for a trainer in reinforcement learning", OnUsageError: runner.UsageError,
		Action: func(ctx *cli.Context) error {
			if ctx.Args().Present() {
				return exit.Configf("trainer: no command %q; there is check", ctx.Args().First())
			}
			return cli.ShowSubcommandHelp(ctx)
		},
		Subcommands: []*cli.Command{{
			Name:  "check",
			Usage: "check what a trainer is given, and train nothing",
			Description: runner.Describe("Reads the dataset of `orchard rl-export --form groups` and its files, and fails if a trainer\n" +
				"could not rely on them. With --output-dir it writes llm-url (as given) and weight-version\n" +
				"(noop-<round+1>) there, as a trainer does; --out is not used."),
			OnUsageError: runner.UsageError,
			Flags: append(runner.Flags(&c.Config),
				&cli.StringFlag{Name: "files", EnvVars: []string{"ORCHARD_TRAINER_FILES"}, Destination: &c.Files, Usage: "`URI` that the files of the dataset begin with (default: that beside the dataset)"},
				&cli.Int64Flag{Name: "round", EnvVars: []string{"ORCHARD_ROUND"}, Destination: &c.Round, Usage: "`NUMBER` of this round, from 0"},
				&cli.StringFlag{Name: "llm-url", EnvVars: []string{"ORCHARD_TRAINER_LLM_URL"}, Destination: &c.URL, Usage: "`URL` of the server that the rollouts came from"},
				&cli.StringFlag{Name: "weight-version", EnvVars: []string{"ORCHARD_WEIGHT_VERSION"}, Destination: &c.Weight, Usage: "`NAME` of its weights"},
			),
			Action: runner.Action("trainer check", "the dataset is given with --in", func(ctx context.Context) error {
				return Run(ctx, c, d)
			}),
		}},
	}
}

// Validate says everything that is wrong, by the names of the flags.
func (c Config) Validate() error {
	errs := []error{c.Config.Validate()}
	if len(c.In) > 1 {
		errs = append(errs, fmt.Errorf("--in: give one dataset, the export of one round"))
	}
	if c.Mode != runner.ModeRun || c.Shard != (runner.Shard{}) {
		errs = append(errs, fmt.Errorf("--mode, --shard: a check is one piece"))
	}
	if c.Round < 0 {
		errs = append(errs, fmt.Errorf("--round: %d must not be negative", c.Round))
	}
	return exit.With(exit.Config, errors.Join(errs...))
}

// Run checks, says what it found on d.Stdout, and writes the step's outputs.
func Run(ctx context.Context, c Config, d runner.Deps) error {
	c.Out = cmp.Or(c.Out, "-") // shared, and not used
	if err := c.Validate(); err != nil {
		return err
	}
	d = d.WithDefaults()
	if c.Deadline > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.Deadline)
		defer cancel()
	}
	found, err := check(ctx, c, d.Open)
	if err != nil {
		_, err = runner.Failed(c.Config, "trainer check", err)
		return err
	}
	next := "noop-" + strconv.FormatInt(c.Round+1, 10)
	if _, err := fmt.Fprintf(d.Stdout, "round %d: %s; sampled from weights %s. Nothing is trained; the next round's weights are called %s\n",
		c.Round, found, cmp.Or(c.Weight, "unnamed"), next); err != nil {
		return fmt.Errorf("print what was found: %w", err)
	}
	if c.DryRun {
		return nil
	}
	for name, value := range map[string]string{"llm-url": c.URL, "weight-version": next, "rows": strconv.FormatInt(found.rows, 10)} {
		if err := runner.SaveOutput(c.OutputDir, name, []byte(value)); err != nil {
			return err
		}
	}
	return nil
}

// found is what a whole export has.
type found struct{ groups, members, rows, trained, tokens int64 }

func (f found) String() string {
	return fmt.Sprintf("%d groups of %d trajectories in %d rows, %d tokens and messages to train, %d rows with token ids", f.groups, f.members, f.rows, f.trained, f.tokens)
}

func check(ctx context.Context, c Config, open datasets.Opener) (found, error) {
	v, err := datasets.Open(ctx, open, c.In[0])
	if err != nil {
		return found{}, fmt.Errorf("--in: %w", err)
	}
	if kind := v.Manifest().Schema.Name; kind != "rl_sample" {
		return found{}, exit.Inputf("--in %s: holds %s rows, not rl_sample rows; `orchard rl-export --form groups` makes such a dataset", v.Location(), kind)
	}
	prefix := strings.TrimSuffix(v.Store().String(), "/") + "/" + datasets.FilesPrefix(v.Location().Name, v.Manifest().Key)
	if c.Files != "" && strings.TrimSuffix(c.Files, "/") != strings.TrimSuffix(prefix, "/") {
		return found{}, exit.Inputf("--files %s: the files of %s begin with %s", c.Files, v.Location(), prefix)
	}
	rows, err := readRows(ctx, v)
	if err != nil {
		return found{}, err
	}
	f, err := rows.complete()
	if err != nil {
		return found{}, exit.Inputf("--in %s: %w", v.Location(), err)
	}
	if err := rows.files(ctx, v); err != nil {
		return found{}, fmt.Errorf("--in %s: %w", v.Location(), err)
	}
	return f, nil
}
