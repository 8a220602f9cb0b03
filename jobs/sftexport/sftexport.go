// Package sftexport is the stage that turns graded rollouts into SFT data: a dataset of
// examples with a loss mask per message, and the same rows as JSONL and Parquet files
// that trainers and `load_dataset` read as they are.
//
// Every rollout read is exported or dropped under a reason, and the counts add up. A
// rollout whose worth is unknown is never exported, whatever --keep says.
package sftexport

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"orchard/datasets"
	"orchard/datasets/arrowio"
	"orchard/datasets/export"
	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/objstore"
	"orchard/internal/runner"
)

// Version goes up whenever the rows or files for the same inputs change.
const Version = 1

// What --keep takes.
const (
	KeepResolved = "resolved" // rollouts that solved their task
	KeepGraded   = "graded"   // every rollout with a reward, for credit and preference training
)

// Reasons for leaving a rollout out, beside those of datasets/export.
const (
	ReasonUnknown     = "no_reward"    // we could not find out what it is worth
	ReasonNotResolved = "not_resolved" // --keep resolved
	ReasonTooLong     = "too_long"     // over --max-tokens
	ReasonNoCount     = "no_token_count"
)

// Config is the stage's settings.
type Config struct {
	runner.Config
	Keep      string
	MaxTokens int64  // of a whole conversation; 0 is no limit
	Credit    string // URI of a credit dataset; "" trains whatever is kept whole
}

// Defaults is the configuration without any flag.
func Defaults() Config { return Config{Config: runner.Default(), Keep: KeepResolved} }

// Flags are the flags that fill c.
func Flags(c *Config) []cli.Flag {
	return append(runner.Flags(&c.Config),
		&cli.StringFlag{Name: "keep", EnvVars: []string{"ORCHARD_SFT_KEEP"}, Destination: &c.Keep, Value: c.Keep, Usage: "which rollouts: resolved, or graded (every one with a reward)"},
		&cli.StringFlag{Name: "credit", EnvVars: []string{"ORCHARD_SFT_CREDIT"}, Destination: &c.Credit, Usage: "`URI` of a credit dataset: of a rollout that is not resolved only the steps are trained that it says, and none without it; goes with --keep graded"},
		&cli.Int64Flag{Name: "max-tokens", EnvVars: []string{"ORCHARD_SFT_MAX_TOKENS"}, Destination: &c.MaxTokens, Value: c.MaxTokens, Usage: "leave out conversations over so many tokens, as the model server counted them, and those it did not count; 0 is no limit"},
	)
}

// Validate says everything that is wrong, by the names of the flags.
func (c Config) Validate() error {
	errs := []error{c.Config.Validate()}
	if c.Keep != KeepResolved && c.Keep != KeepGraded {
		errs = append(errs, fmt.Errorf("--keep: %q is neither resolved nor graded", c.Keep))
	}
	if c.Credit != "" && c.Keep != KeepGraded {
		errs = append(errs, fmt.Errorf("--credit: only goes with --keep graded; resolved rollouts are trained whole"))
	}
	if c.MaxTokens < 0 {
		errs = append(errs, fmt.Errorf("--max-tokens: %d must not be negative", c.MaxTokens))
	}
	return exit.With(exit.Config, errors.Join(errs...))
}

// Command is `orchard sft-export`.
func Command(d runner.Deps) *cli.Command {
	c := Defaults()
	return &cli.Command{
		Name:  "sft-export",
		Usage: "turn graded rollouts into SFT data",
		Description: runner.Describe("Reads rollout datasets and writes a dataset of training examples, with a loss mask per\n" +
			"message, and the same rows beside it as sft.jsonl and train-00000-of-00001.parquet. With --credit\n" +
			"rollouts that are not resolved are trained where their value rises, and nowhere else."),
		Flags:        Flags(&c),
		OnUsageError: runner.UsageError,
		Action: runner.Action("sft-export", "datasets are given with --in", func(ctx context.Context) error {
			_, err := Run(ctx, c, d)
			return err
		}),
	}
}

// Run exports.
func Run(ctx context.Context, c Config, d runner.Deps) (runner.Result, error) {
	if err := c.Validate(); err != nil {
		return runner.Failed(c.Config, "sft-export", err)
	}
	stage := runner.Stage{Name: "sft-export", Version: Version, Settings: struct {
		Keep      string `json:"keep"`
		MaxTokens int64  `json:"max_tokens"`
	}{c.Keep, c.MaxTokens}}
	credit, err := c.credit(ctx, d.WithDefaults().Open)
	if err != nil {
		return runner.Failed(c.Config, "sft-export", err)
	}
	return runner.Batch(ctx, c.Config, d, stage, func(ctx context.Context, p *runner.Pass[record.SFTRow]) error {
		known, err := segments(ctx, credit)
		if err != nil {
			return err
		}
		if credit != nil { // the last of the inputs
			p.Inputs = p.Inputs[:len(p.Inputs)-1]
		}
		return write(ctx, c, known, p)
	})
}

// write passes over the rollouts once; the files for trainers grow beside the dataset,
// so that memory does not depend on the number of rollouts.
func write(ctx context.Context, c Config, known credits, p *runner.Pass[record.SFTRow]) (err error) {
	for _, in := range p.Inputs {
		if kind := in.Manifest().Schema.Name; kind != "rollout" {
			return exit.Inputf("--in %s: holds %s rows, not rollouts; `orchard distill` makes a rollout dataset%s", in.Location(), kind,
				map[string]string{"credit": ", and credit is given with --credit"}[kind])
		}
	}
	dir, err := os.MkdirTemp("", "orchard-sft-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	lines, err := os.Create(dir + "/sft.jsonl")
	if err != nil {
		return err
	}
	defer lines.Close()
	table, err := os.Create(dir + "/train.parquet")
	if err != nil {
		return err
	}
	defer table.Close()
	text := bufio.NewWriterSize(lines, 1<<20)
	err = arrowio.WriteParquet(table, func(yield func(record.SFTRow, error) bool) {
		for _, in := range p.Inputs {
			for r, err := range datasets.Rows[record.Rollout](ctx, in) {
				if err != nil {
					yield(record.SFTRow{}, err)
					return
				}
				p.Read(1)
				row, reason, err := one(c, known, r)
				if reason != "" {
					p.Drop(reason)
					continue
				}
				if err == nil {
					err = emit(ctx, p, text, row)
				}
				if !yield(row, err) || err != nil {
					return
				}
			}
		}
	})
	if err == nil {
		err = text.Flush()
	}
	if err != nil {
		return err
	}
	for _, f := range []struct{ name, path string }{{"sft.jsonl", lines.Name()}, {"train-00000-of-00001.parquet", table.Name()}} {
		info, err := os.Stat(f.path)
		if err != nil {
			return err
		}
		if _, err := p.PutFile(ctx, f.name, objstore.File{Path: f.path, Bytes: info.Size()}); err != nil {
			return err
		}
	}
	return nil
}

func emit(ctx context.Context, p *runner.Pass[record.SFTRow], text *bufio.Writer, row record.SFTRow) error {
	line, err := export.JSONLine(row)
	if err != nil {
		return err
	}
	if _, err := text.Write(line); err != nil {
		return err
	}
	return p.Emit(ctx, row)
}

// one is the example of a rollout, or the reason why there is none.
func one(c Config, known credits, r record.Rollout) (row record.SFTRow, reason string, err error) {
	switch {
	case r.Verdict.Reward == nil:
		return row, ReasonUnknown, nil
	case c.Keep == KeepResolved && r.Verdict.Outcome != record.Resolved:
		return row, ReasonNotResolved, nil
	}
	steps, reason, err := known.of(r)
	if reason != "" || err != nil {
		return row, reason, err
	}
	if steps == nil {
		row, err = export.SFT(r)
	} else {
		row, err = export.Credited(r, steps)
	}
	for _, known := range []error{export.ErrNothingTrained, export.ErrUndefinedTool, export.ErrBadArguments} {
		if errors.Is(err, known) {
			return row, known.Error(), nil
		}
	}
	if err == nil {
		err = exit.With(exit.Bug, export.CheckMask(row, r, steps))
	}
	switch {
	case err != nil || c.MaxTokens == 0:
	case row.NTokens == nil:
		return row, ReasonNoCount, nil
	case *row.NTokens > c.MaxTokens:
		return row, ReasonTooLong, nil
	}
	return row, "", err
}
