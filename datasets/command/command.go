// Package command is `orchard dataset`: looking at datasets, checking and comparing them,
// and moving them between stores. What was asked for goes to the program's standard
// output, progress to standard error. Only pull, push and cp write, and they only add;
// only `gc --delete` deletes.
package command

import (
	"cmp"
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
func Dataset() *cli.Command { return dataset(datasets.Stores) }

func dataset(open datasets.Opener) *cli.Command {
	return &cli.Command{
		Name:        "dataset",
		Usage:       "look at datasets, check, compare, copy and collect them",
		Description: about + "\n\n" + exit.Help,
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return exit.Configf("dataset: no command %q; `orchard dataset --help` lists them", c.Args().First())
			}
			return cli.ShowSubcommandHelp(c)
		},
		Subcommands: []*cli.Command{
			sub{name: "ls", args: "[ROOT | DATASET]", most: 1, usage: "list the datasets of a root, or the versions of one dataset", do: ls,
				flags: []cli.Flag{jsonFlag("one JSON object a line")}}.command(open),
			sub{name: "show", args: "DATASET", least: 1, most: 1, usage: "what a version is, what it was made from, and the files beside it", do: show,
				flags: []cli.Flag{jsonFlag("the manifest as it is stored")}}.command(open),
			sub{name: "head", args: "DATASET", least: 1, most: 1, usage: "the first rows", do: head, about: aboutHead,
				flags: []cli.Flag{
					&cli.IntFlag{Name: "n", Value: 3, Usage: "how many `ROWS`"},
					columnsFlag(), whereFlag(), jsonFlag("one JSON object a line, nothing shortened")}}.command(open),
			sub{name: "stats", args: "DATASET", least: 1, most: 1, usage: "histograms of turns, tokens and outcomes by source", do: statistics, about: aboutStats,
				flags: []cli.Flag{jsonFlag("one JSON object")}}.command(open),
			sub{name: "diff", args: "A B", least: 2, most: 2, usage: "what two versions differ in: schema, counts, rows by id", do: diff, about: aboutDiff,
				flags: diffFlags()}.command(open),
			sub{name: "lineage", args: "DATASET", least: 1, most: 1, usage: "what a version was made from, back to the imported files", do: lineage, about: aboutLineage,
				flags: []cli.Flag{jsonFlag("one JSON object"), &cli.StringFlag{Name: "svg", Usage: "draw a picture into `FILE`"}}}.command(open),
			sub{name: "verify", args: "DATASET | ROOT ...", least: 1, most: many, usage: "read everything and compare it with its hashes", do: verify,
				flags: []cli.Flag{
					&cli.BoolFlag{Name: "all", Usage: "every version, not only the newest"},
					&cli.BoolFlag{Name: "parents", Usage: "also what the versions were made from"}}}.command(open),
			sub{name: "pull", args: "DATASET", least: 1, most: 1, usage: "copy a version to this machine, as it is or as Parquet, JSON lines or Arrow", do: pull, about: aboutPull,
				flags: pullFlags()}.command(open),
			sub{name: "push", args: "DATASET DESTINATION", least: 2, most: 2, usage: "verify a version and copy it to a store", do: push, about: aboutPush,
				flags: copyFlags()}.command(open),
			sub{name: "cp", args: "DATASET DESTINATION", least: 2, most: 2, usage: "copy a version from one store to another", do: cp, about: aboutCp,
				flags: copyFlags()}.command(open),
			sub{name: "gc", args: "ROOT", least: 1, most: 1, usage: "find garbage in a root, and delete it when told to", do: gc, about: aboutGC,
				flags: gcFlags()}.command(open),
		},
	}
}

// many is no limit on arguments.
const many = 1 << 30

// action is a subcommand; args are the arguments after the flags.
type action func(c *cli.Context, open datasets.Opener, args []string) error

// sub is a subcommand.
type sub struct {
	name, args, usage string
	about             string // what its help says besides; "" is nothing
	least, most       int    // arguments
	do                action
	flags             []cli.Flag
}

func (s sub) command(open datasets.Opener) *cli.Command {
	description := about
	if s.about != "" {
		description += "\n\n" + s.about
	}
	return &cli.Command{
		Name: s.name, Usage: s.usage, ArgsUsage: s.args, Flags: s.flags,
		UsageText:       "orchard dataset " + s.name + " [flags] " + s.args,
		Description:     description + "\n\n" + exit.Help,
		HideHelpCommand: true,
		OnUsageError: func(_ *cli.Context, err error, _ bool) error {
			return exit.Configf("dataset %s: %w", s.name, err)
		},
		Action: func(c *cli.Context) error {
			rest := c.Args().Slice()
			for _, a := range rest {
				if strings.HasPrefix(a, "-") {
					return exit.Configf("dataset %s: %s: flags come before the dataset", s.name, a)
				}
			}
			if len(rest) < s.least || len(rest) > s.most {
				return exit.Configf("usage: orchard dataset %s [flags] %s", s.name, s.args)
			}
			err := s.do(c, open, rest)
			if c.Context.Err() != nil && errors.Is(err, context.Canceled) {
				return exit.Retryf("stopped; the same command goes on from here")
			}
			return err
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
		return target{}, cmp.Or(err, rerr)
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
