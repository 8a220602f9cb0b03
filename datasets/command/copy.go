package command

import (
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"orchard/datasets"
	"orchard/datasets/transfer"
	"orchard/internal/exit"
	"orchard/internal/objstore"
)

const aboutCopy = `DESTINATION is a dataset (s3://bucket/prefix/name), or a root that ends in a slash, in
which the dataset keeps its name. Every object is compared with its hash on the way and
created if absent, and the manifest comes last: killed anywhere, the destination has the
whole version or none, and the same command again copies only what is missing. A version
that is there is left as it is. The newest version stays the newest.`

const aboutCp = aboutCopy + `

EXAMPLES
   orchard dataset cp out/rollouts s3://team/datasets/
   orchard dataset cp --parents s3://team/datasets/sft@4f2ac07d s3://archive/2026/sft`

const aboutPush = `push is cp that first reads the whole version, as verify does, so that of a damaged one
nothing is sent.

` + aboutCopy + `

EXAMPLES
   orchard dataset push out/rollouts s3://team/datasets/
   orchard dataset push --parents --files out/sft s3://team/datasets/sft-2026-05`

func copyFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "parents", Usage: "also the versions that it was made from"},
		&cli.BoolFlag{Name: "files", Usage: "also the files that its stage wrote beside it, such as sft.jsonl"},
		&cli.BoolFlag{Name: "check", Usage: "read what is there already and compare it with its hash"},
		workersFlag(),
	}
}

func workersFlag() cli.Flag {
	return &cli.IntFlag{Name: "workers", Value: transfer.DefaultWorkers, Usage: "`NUMBER` of objects that are moved at once"}
}

// copyOptions reads the flags that the copying commands share.
func copyOptions(c *cli.Context) (transfer.Options, error) {
	o := transfer.Options{Workers: c.Int("workers"), Files: c.Bool("files"), Check: c.Bool("check")}
	if o.Workers < 1 {
		return o, exit.Configf("--workers: %d must be at least 1", o.Workers)
	}
	return o, nil
}

func cp(c *cli.Context, open datasets.Opener, args []string) error {
	return copyTo(c, open, args, nil)
}

func push(c *cli.Context, open datasets.Opener, args []string) error {
	return copyTo(c, open, args, func(v *datasets.Version) error {
		r, err := datasets.Verify(c.Context, v)
		if err != nil {
			return fmt.Errorf("verify %s: %w", v.Location(), err)
		}
		var damaged []error
		for _, p := range r.Problems {
			damaged = append(damaged, errors.New(p.String()))
		}
		if err := problems(damaged); err != nil {
			return exit.Inputf("nothing was sent: %w", err)
		}
		return nil
	})
}

// copyTo copies a version and perhaps its parents; check may refuse each before.
func copyTo(c *cli.Context, open datasets.Opener, args []string, check func(*datasets.Version) error) error {
	o, err := copyOptions(c)
	if err != nil {
		return err
	}
	v, err := datasets.Open(c.Context, open, args[0])
	if err != nil {
		return err
	}
	loc, err := destination(args[1], v.Location().Name)
	if err != nil {
		return err
	}
	to, err := open(c.Context, loc.Root)
	if err != nil {
		return err
	}
	all, err := withParents(c, open, v)
	if err != nil {
		return err
	}
	if check != nil {
		for _, v := range all {
			if err := check(v); err != nil {
				return err
			}
		}
	}
	for _, each := range all {
		o.Name = each.Location().Name
		if each == v {
			o.Name = loc.Name
		}
		if err := copyOne(c, each, to, o); err != nil {
			return err
		}
	}
	return nil
}

// destination is a dataset, or a root when it ends in a slash.
func destination(arg, name string) (datasets.Location, error) {
	if strings.HasSuffix(arg, "/") {
		arg += name
	}
	loc, err := datasets.Parse(arg)
	if err == nil && loc.Version != "" {
		err = exit.Configf("destination %q: a version cannot be chosen, it keeps its digest", arg)
	}
	return loc, err
}

// withParents is what is copied, each before what was made from it.
func withParents(c *cli.Context, open datasets.Opener, v *datasets.Version) ([]*datasets.Version, error) {
	all := []*datasets.Version{v}
	if !c.Bool("parents") {
		return all, nil
	}
	known := map[string]*datasets.Version{}
	for _, a := range datasets.Lineage(c.Context, open, v) {
		if a.Err != nil {
			return nil, fmt.Errorf("input %s of %s: %w", a.Role, v.Location(), a.Err)
		}
		if a.Version != nil {
			known[a.Digest] = a.Version
		}
	}
	all = nil
	var visit func(v *datasets.Version)
	visit = func(v *datasets.Version) {
		for _, in := range v.Manifest().Inputs {
			if parent := known[in.Digest]; parent != nil {
				delete(known, in.Digest)
				visit(parent)
			}
		}
		all = append(all, v)
	}
	visit(v)
	return all, nil
}

func copyOne(c *cli.Context, v *datasets.Version, to objstore.Store, o transfer.Options) error {
	m := newMeter(c.App.ErrWriter, v.Location().Name)
	o.Progress = func(p transfer.Progress) { m.set(p.Objects, p.Total, p.Bytes, "objects") }
	r, err := transfer.Copy(c.Context, v, to, o)
	m.end()
	if err != nil {
		return err
	}
	there := datasets.Location{Root: to.String(), Name: o.Name, Version: v.Digest()}
	fmt.Fprintf(c.App.Writer, "%s  %s, %d copied, %s\n", there, count(r.Objects, "object"), r.Copied, size(r.Bytes))
	if r.Key != "" && r.Key != v.Digest() {
		fmt.Fprintf(c.App.ErrWriter, "%s: the same work has another result there, %s, which stays the one that stages find\n", there, r.Key[:12])
	}
	return nil
}
