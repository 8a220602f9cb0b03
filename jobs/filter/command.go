package filter

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"orchard/internal/exit"
	"orchard/internal/runner"
	"orchard/jobs/filter/rules"
)

// Command is `orchard filter`.
func Command(d runner.Deps) *cli.Command {
	c := Defaults()
	return &cli.Command{
		Name:  "filter",
		Usage: "leave out tasks by rules, admission and evaluation sets",
		Description: runner.Describe("Reads task datasets and writes those tasks that every rule keeps. Beside them: dropped.jsonl\n"+
			"(each dropped task with its first reason), funnel.json, funnel.md and funnel.svg, and with\n"+
			"--eval contamination.jsonl.", "OPENAI_API_KEY            key of the model server"),
		Flags:        Flags(&c),
		OnUsageError: runner.UsageError,
		Action: runner.Action("filter", "datasets are given with --in, and `orchard filter rules` shows rule files", func(ctx context.Context) error {
			_, err := Run(ctx, c, d)
			return err
		}),
		Subcommands: []*cli.Command{ruleFiles(d)},
	}
}

// ruleFiles is `orchard filter rules`.
func ruleFiles(d runner.Deps) *cli.Command {
	out := d.WithDefaults().Stdout
	return &cli.Command{
		Name: "rules", Usage: "the rule files that come with the program", OnUsageError: runner.UsageError,
		Action: func(ctx *cli.Context) error {
			if ctx.Args().Present() {
				return exit.Configf("filter rules: no command %q; there are ls and show NAME", ctx.Args().First())
			}
			return cli.ShowSubcommandHelp(ctx)
		},
		Subcommands: []*cli.Command{
			{Name: "ls", Usage: "their names", OnUsageError: runner.UsageError, Action: func(ctx *cli.Context) error {
				for _, name := range rules.Ready() {
					if _, err := fmt.Fprintln(out, name); err != nil {
						return err
					}
				}
				return nil
			}},
			{Name: "show", Usage: "one of them, to read or to start your own from", ArgsUsage: "NAME", OnUsageError: runner.UsageError, Action: func(ctx *cli.Context) error {
				if ctx.NArg() != 1 {
					return exit.Configf("filter rules show: give one name of %v", rules.Ready())
				}
				b, ok := rules.ReadyFile(ctx.Args().First())
				if !ok {
					return exit.Configf("filter rules show: no rule file %q; there are %v", ctx.Args().First(), rules.Ready())
				}
				_, err := out.Write(b)
				return err
			}},
		},
	}
}

// program is the rules of --rules; nil without.
func (c Config) program() (*rules.Program, error) {
	if c.Rules == "" {
		return nil, nil
	}
	given, err := c.sets()
	if err != nil {
		return nil, err
	}
	content, ok := rules.ReadyFile(c.Rules)
	name, beside := c.Rules, func(path string) ([]byte, error) {
		if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(c.Rules), path)
		}
		return os.ReadFile(path)
	}
	if !ok {
		if content, err = os.ReadFile(c.Rules); err != nil {
			return nil, exit.Configf("--rules: %w; ready ones are %v", err, rules.Ready())
		}
		name = filepath.Base(c.Rules)
	}
	p, err := rules.Load(name, content, given, beside, os.ReadFile)
	if err != nil {
		return nil, fmt.Errorf("--rules: %w", err)
	}
	return p, nil
}
