// Package command is `orchard dataset`: looking at datasets and checking them. It
// writes what was asked for to the program's standard output and never changes a store.
package command

import (
	"context"
	"errors"
	"strings"

	"github.com/urfave/cli/v2"

	"orchard/datasets"
	"orchard/internal/exit"
	"orchard/internal/objstore"
)

const about = `A dataset is named by a path or a URI, with or without a version:
   out/rollouts  out/rollouts@4f2ac07d  file:///data/out/rollouts  s3://bucket/prefix/rollouts
Without a version it is the newest. The beginning of a version is enough (8 digits).
Flags come before the dataset.`

// Dataset is the command with its subcommands.
func Dataset() *cli.Command {
	open := datasets.Opener(datasets.Local)
	return &cli.Command{
		Name:        "dataset",
		Usage:       "look at datasets and check them",
		Description: about + "\n\n" + exit.Help,
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return exit.Configf("dataset: no command %q; `orchard dataset --help` lists them", c.Args().First())
			}
			return cli.ShowSubcommandHelp(c)
		},
		Subcommands: []*cli.Command{
			sub("ls", "[ROOT | DATASET]", "list the datasets of a folder, or the versions of one dataset", open, ls,
				&cli.BoolFlag{Name: "json", Usage: "one JSON object a line"}),
			sub("show", "DATASET", "what a version is and what it was made from", open, show,
				&cli.BoolFlag{Name: "json", Usage: "the manifest as it is stored"}),
			sub("head", "DATASET", "the first rows", open, head,
				&cli.IntFlag{Name: "n", Value: 3, Usage: "how many `ROWS`"},
				&cli.StringFlag{Name: "columns", Usage: "only these, comma-separated; a dot goes into structs and lists, as in `verdict.outcome,trajectory.messages.role`"},
				&cli.BoolFlag{Name: "json", Usage: "one JSON object a line, nothing shortened"}),
			sub("verify", "DATASET | ROOT ...", "read everything and compare it with its hashes", open, verify,
				&cli.BoolFlag{Name: "all", Usage: "every version, not only the newest"},
				&cli.BoolFlag{Name: "parents", Usage: "also what the versions were made from"}),
		},
	}
}

// action is a subcommand; args are the arguments after the flags.
type action func(c *cli.Context, open datasets.Opener, args []string) error

func sub(name, args, usage string, open datasets.Opener, do action, flags ...cli.Flag) *cli.Command {
	return &cli.Command{
		Name: name, Usage: usage, ArgsUsage: args, Flags: flags,
		UsageText:       "orchard dataset " + name + " [flags] " + args,
		Description:     about + "\n\n" + exit.Help,
		HideHelpCommand: true,
		OnUsageError: func(_ *cli.Context, err error, _ bool) error {
			return exit.Configf("dataset %s: %w", name, err)
		},
		Action: func(c *cli.Context) error {
			rest := c.Args().Slice()
			for _, a := range rest {
				if strings.HasPrefix(a, "-") {
					return exit.Configf("dataset %s: %s: flags come before the dataset", name, a)
				}
			}
			if args == "DATASET" && len(rest) != 1 || name == "ls" && len(rest) > 1 || name == "verify" && len(rest) == 0 {
				return exit.Configf("usage: orchard dataset %s [flags] %s", name, args)
			}
			return do(c, open, rest)
		},
	}
}

// target is what an argument names: one dataset, or all of a root.
type target struct {
	store   objstore.Store
	names   []string
	version string // of the one dataset; "" otherwise
	isRoot  bool
}

// find takes the argument for a dataset if there is one, else for a root.
func find(ctx context.Context, open datasets.Opener, arg string) (target, error) {
	loc, err := datasets.Parse(arg)
	if err == nil {
		store, err := open(ctx, loc.Root)
		if err != nil {
			return target{}, err
		}
		exists, err := hasVersions(ctx, store, loc.Name)
		if err != nil {
			return target{}, err
		}
		if exists || loc.Version != "" {
			return target{store: store, names: []string{loc.Name}, version: loc.Version}, nil
		}
	}
	inside, rerr := datasets.Parse(strings.TrimRight(arg, "/") + "/x")
	if rerr != nil {
		return target{}, errors.Join(err, rerr)
	}
	store, err := open(ctx, inside.Root)
	if err != nil {
		return target{}, err
	}
	names, err := datasets.Names(ctx, store)
	return target{store: store, names: names, isRoot: true}, err
}

func hasVersions(ctx context.Context, store objstore.Store, name string) (bool, error) {
	for _, err := range store.List(ctx, name+"/versions/") {
		return err == nil, err
	}
	return false, nil
}
