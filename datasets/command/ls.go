package command

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"orchard/datasets"
	"orchard/internal/exit"
)

// entry is one line of ls.
type entry struct {
	Name      string    `json:"name"`
	Version   string    `json:"version"`
	Kind      string    `json:"kind"`
	Rows      int64     `json:"rows"`
	Bytes     int64     `json:"bytes"`
	Blobs     int64     `json:"blobs"`
	Stage     string    `json:"stage"`
	Committed time.Time `json:"committed"`
	URI       string    `json:"uri"`
}

func entryOf(v *datasets.Version) entry {
	m := v.Manifest()
	return entry{v.Location().Name, v.Digest(), m.Schema.Name, m.Rows, m.Bytes, m.Blobs.Count, m.Stage.Name, m.Run.Committed, v.Location().String()}
}

func ls(c *cli.Context, open datasets.Opener, args []string) error {
	arg := "."
	if len(args) > 0 {
		arg = args[0]
	}
	t, err := find(c.Context, open, arg)
	if err != nil {
		return err
	}
	if len(t.names) == 0 {
		return exit.Inputf("%s: no datasets there", t.store)
	}
	var entries []entry
	var damaged []error
	add := func(v *datasets.Version, err error) error {
		if err == nil {
			entries = append(entries, entryOf(v))
		} else if exit.Code(err) == exit.Input {
			damaged = append(damaged, err)
		} else {
			return err
		}
		return nil
	}
	for _, name := range t.names {
		if t.isRoot || t.version != "" {
			err = add(datasets.OpenIn(c.Context, t.store, name, t.version))
		} else {
			for v, verr := range datasets.Versions(c.Context, t.store, name) {
				if err = add(v, verr); err != nil {
					break
				}
			}
		}
		if err != nil {
			return err
		}
	}
	if err := printEntries(c.App.Writer, entries, c.Bool("json")); err != nil {
		return err
	}
	return problems(damaged)
}

func printEntries(w io.Writer, entries []entry, asJSON bool) error {
	if asJSON {
		for _, e := range entries {
			if err := json.NewEncoder(w).Encode(e); err != nil {
				return err
			}
		}
		return nil
	}
	if len(entries) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tVERSION\tKIND\tROWS\tSIZE\tBLOBS\tMADE BY\tCOMMITTED")
	for _, e := range entries {
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%d\t%s\t%s\n", e.Name, e.Version[:12], e.Kind, e.Rows, size(e.Bytes), e.Blobs, e.Stage, when(e.Committed))
	}
	return t.Flush()
}

func when(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// size is bytes for people, in powers of 1000.
func size(n int64) string {
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	f, units := float64(n)/1000, "kMGTP"
	for f >= 999.5 && len(units) > 1 {
		f, units = f/1000, units[1:]
	}
	if f < 9.95 {
		return fmt.Sprintf("%.1f %cB", f, units[0])
	}
	return fmt.Sprintf("%.0f %cB", f, units[0])
}
