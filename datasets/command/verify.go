package command

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"orchard/datasets"
	"orchard/internal/exit"
)

func verify(c *cli.Context, open datasets.Opener, args []string) error {
	ck := &checker{c: c, open: open, seen: map[string]bool{}}
	for _, arg := range args {
		t, err := find(c.Context, open, arg)
		if err != nil {
			return err
		}
		if len(t.names) == 0 {
			return exit.Inputf("%s: no dataset there", arg)
		}
		for _, name := range t.names {
			if err := ck.dataset(t, name); err != nil {
				return err
			}
		}
	}
	return problems(ck.damaged)
}

// problems is one error that names everything that is wrong; nil for nothing.
func problems(damaged []error) error {
	if len(damaged) == 0 {
		return nil
	}
	return exit.Inputf("%s:\n%w", count(int64(len(damaged)), "problem"), errors.Join(damaged...))
}

// checker verifies versions, each once, and collects what is wrong.
type checker struct {
	c       *cli.Context
	open    datasets.Opener
	seen    map[string]bool // digests of versions and files, names of damaged objects
	damaged []error
}

func (k *checker) dataset(t target, name string) error {
	if !k.c.Bool("all") {
		return k.opened(datasets.OpenIn(k.c.Context, t.store, name, t.version))
	}
	for v, err := range datasets.Versions(k.c.Context, t.store, name) {
		if err := k.opened(v, err); err != nil {
			return err
		}
	}
	return nil
}

// opened verifies a version; that it could not be opened may itself be the finding.
func (k *checker) opened(v *datasets.Version, err error) error {
	if exit.Code(err) == exit.Input {
		k.damaged = append(k.damaged, err)
		return nil
	}
	if err != nil || k.seen[v.Digest()] {
		return err
	}
	k.seen[v.Digest()] = true
	r, err := datasets.Verify(k.c.Context, v)
	if err != nil {
		return fmt.Errorf("verify %s: %w", v.Location(), err)
	}
	for _, p := range r.Problems {
		if !k.seen[p.Object] { // versions share blobs and shards
			k.seen[p.Object] = true
			k.damaged = append(k.damaged, errors.New(p.String()))
		}
	}
	word := "ok"
	if len(r.Problems) > 0 {
		word = "DAMAGED"
	}
	m := v.Manifest()
	fmt.Fprintf(k.c.App.Writer, "%s  %s@%s  %s, %s, %s\n", word, v.Location().Name, v.Digest()[:12], count(m.Rows, "row"), count(r.Objects, "object"), size(m.Bytes))
	if k.c.Bool("parents") {
		return k.parents(v)
	}
	return nil
}

func (k *checker) parents(v *datasets.Version) error {
	for _, in := range v.Manifest().Inputs {
		if in.Kind != datasets.InputDataset && !k.seen[in.Digest] {
			k.seen[in.Digest] = true
			fmt.Fprintf(k.c.App.Writer, "--  %s  a file, which is not kept; its sha256 was %s\n", in.Name, in.Digest)
		}
	}
	for _, a := range datasets.Lineage(k.c.Context, k.open, v) {
		if a.Depth > 1 || a.Kind != datasets.InputDataset {
			continue // reached through its own child
		}
		err := a.Err
		if err != nil {
			err = fmt.Errorf("input %s of %s@%s: %w", a.Role, v.Location().Name, v.Digest()[:12], err)
			err = exit.With(exit.Code(a.Err), err)
		}
		if err := k.opened(a.Version, err); err != nil {
			return err
		}
	}
	return nil
}
