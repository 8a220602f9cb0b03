package command

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"orchard/datasets"
	"orchard/datasets/collect"
	"orchard/internal/exit"
)

const aboutGC = `Garbage is what no version needs, in any dataset of the root, as these share blobs: shards
and blobs of writers that were killed and never repeated, units of stages that are done or
given up, files and keys of versions that are gone. It must be older than --older-than; of
a stage's units the last must be. Versions are never garbage. When a manifest cannot be
read, nothing is deleted.

Without --delete nothing is deleted and the answer is what would be. The age is what keeps
a collection apart from stages that run meanwhile: let it be longer than any of them takes.

EXAMPLES
   orchard dataset gc out
   orchard dataset gc --older-than 30d --delete s3://team/datasets`

func gcFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "older-than", Value: "7d", Usage: "spare what is younger than `AGE`, such as 7d or 36h"},
		&cli.BoolFlag{Name: "delete", Usage: "delete the garbage"},
		&cli.BoolFlag{Name: "list", Usage: "name every object"},
		jsonFlag("one JSON object a line for every piece of garbage, then the summary"),
	}
}

func gc(c *cli.Context, open datasets.Opener, args []string) error {
	age, err := parseAge("--older-than", c.String("older-than"))
	if err != nil {
		return err
	}
	t, err := find(c.Context, open, args[0])
	if err != nil {
		return err
	}
	if !t.isRoot {
		return exit.Configf("gc: %s is a dataset; give its root, %s, as all datasets there share their blobs", args[0], t.store)
	}
	if age == 0 {
		age = -1
	}
	m := newMeter(c.App.ErrWriter, "gc")
	p, err := collect.Find(c.Context, t.store, collect.Options{OlderThan: age, Now: time.Now,
		Progress: func(done, total int) { m.set(int64(done), int64(total), 0, "objects") }})
	if err != nil {
		return err
	}
	deleted := 0
	var derr error
	if c.Bool("delete") {
		deleted, derr = p.Delete(c.Context)
		m.end()
	}
	if c.Bool("json") {
		err = gcJSON(c.App.Writer, p, c.Bool("delete"), deleted)
	} else {
		err = gcText(c, p, deleted)
	}
	if derr != nil {
		return derr
	}
	return err
}

func gcJSON(w io.Writer, p *collect.Plan, really bool, deleted int) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for _, g := range p.Garbage {
		err := enc.Encode(struct {
			Key      string    `json:"key"`
			Kind     string    `json:"kind"`
			Bytes    int64     `json:"bytes"`
			Modified time.Time `json:"modified"`
		}{g.Key, g.Kind.String(), g.Size, g.Modified.UTC()})
		if err != nil {
			return err
		}
	}
	return enc.Encode(struct {
		Root     string `json:"root"`
		Datasets int    `json:"datasets"`
		Versions int    `json:"versions"`
		Objects  int    `json:"objects"`
		Young    int    `json:"young"`
		Foreign  int    `json:"foreign"`
		Garbage  int    `json:"garbage"`
		Bytes    int64  `json:"bytes"`
		Delete   bool   `json:"delete"`
		Deleted  int    `json:"deleted"`
	}{p.Root, p.Datasets, p.Versions, p.Objects, p.Young, p.Foreign, len(p.Garbage), p.Bytes, really, deleted})
}

func gcText(c *cli.Context, p *collect.Plan, deleted int) error {
	w := c.App.Writer
	if c.Bool("list") {
		for _, g := range p.Garbage {
			fmt.Fprintf(w, "%s  %s  %s\n", g.Key, size(g.Size), when(g.Modified))
		}
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "root\t%s\n", p.Root)
	fmt.Fprintf(t, "needed by\t%s of %s\n", count(int64(p.Versions), "version"), count(int64(p.Datasets), "dataset"))
	fmt.Fprintf(t, "objects\t%d, %d of them needed by none but too young\n", p.Objects, p.Young)
	if p.Foreign > 0 {
		fmt.Fprintf(t, "others\t%s of no dataset, which are left alone\n", count(int64(p.Foreign), "object"))
	}
	for kind := collect.Card; kind <= collect.Blob; kind++ {
		n, bytes := int64(0), int64(0)
		for _, g := range p.Garbage {
			if g.Kind == kind {
				n++
				bytes += g.Size
			}
		}
		if n > 0 {
			fmt.Fprintf(t, "garbage\t%s, %s\n", count(n, kind.String()), size(bytes))
		}
	}
	verdict := fmt.Sprintf("%s in %s would be deleted; --delete does it", size(p.Bytes), count(int64(len(p.Garbage)), "object"))
	switch {
	case c.Bool("delete"):
		verdict = fmt.Sprintf("%s deleted", count(int64(deleted), "object"))
	case len(p.Garbage) == 0:
		verdict = "there is no garbage"
	}
	fmt.Fprintf(t, "%s\n", strings.TrimSpace(verdict))
	return t.Flush()
}
