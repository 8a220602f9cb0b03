package command

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"orchard/datasets"
	"orchard/datasets/compare"
	"orchard/internal/exit"
)

// Different is how `diff --exit-code` ends when it found differences: neither a fault
// nor bad input.
const Different = 3

const aboutDiff = `Rows are told from A to B: + added, - removed, ~ changed with the columns that differ.
Columns that may differ between two runs of the same work do not count unless --volatile.
With --json a row is a line and the last line is the summary.

EXAMPLES
   orchard dataset diff out/rollouts@4f2ac07d out/rollouts
   orchard dataset diff --exit-code --limit 0 out/tasks s3://team/datasets/tasks

EXIT STATUS 3, with --exit-code: the versions differ. Without it that is 0.`

func diffFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "volatile", Usage: "also columns that may differ between two runs of the same work"},
		&cli.IntFlag{Name: "limit", Value: 20, Usage: "tell at most `ROWS` rows of each kind; -1 is all"},
		&cli.BoolFlag{Name: "exit-code", Usage: "end with 3 when the versions differ"},
		jsonFlag("JSON lines: a row each, all of them, then the summary"),
	}
}

func diff(c *cli.Context, open datasets.Opener, args []string) error {
	a, err := datasets.Open(c.Context, open, args[0])
	if err != nil {
		return err
	}
	b, err := datasets.Open(c.Context, open, args[1])
	if err != nil {
		return err
	}
	tell, limit := c.App.Writer, int64(c.Int("limit"))
	told := map[string]int64{}
	enc := json.NewEncoder(tell)
	enc.SetEscapeHTML(false)
	d, err := compare.Versions(c.Context, a, b, compare.Options{
		Volatile: c.Bool("volatile"),
		Change: func(ch compare.Change) error {
			if c.Bool("json") {
				return enc.Encode(ch)
			}
			told[ch.What]++
			if limit >= 0 && told[ch.What] > limit {
				return nil
			}
			_, err := fmt.Fprintln(tell, ch)
			return err
		},
	})
	if err != nil {
		return err
	}
	if c.Bool("json") {
		err = enc.Encode(struct {
			A       string           `json:"a"`
			B       string           `json:"b"`
			Columns []compare.Column `json:"columns"`
			Counts  []compare.Count  `json:"counts"`
			Rows    compare.Rows     `json:"rows"`
		}{d.A, d.B, append([]compare.Column{}, d.Columns...), append([]compare.Count{}, d.Counts...), d.Rows})
	} else {
		err = printDifference(tell, d, told, limit)
	}
	if err == nil && c.Bool("exit-code") && !d.Equal() {
		return exit.With(Different, fmt.Errorf("the versions differ"))
	}
	return err
}

func printDifference(w io.Writer, d compare.Difference, told map[string]int64, limit int64) error {
	for _, what := range []string{compare.Added, compare.Removed, compare.Changed} {
		if n := told[what]; limit >= 0 && n > limit {
			fmt.Fprintf(w, "… and %d more %s; --limit -1 tells all\n", n-limit, what)
		}
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, c := range d.Columns {
		switch {
		case c.A == "":
			fmt.Fprintf(t, "column\t+ %s\t%s\n", c.Name, c.B)
		case c.B == "":
			fmt.Fprintf(t, "column\t- %s\t%s\n", c.Name, c.A)
		default:
			fmt.Fprintf(t, "column\t~ %s\t%s → %s\n", c.Name, c.A, c.B)
		}
	}
	for _, c := range d.Counts {
		fmt.Fprintf(t, "count\t%s\t%d → %d\n", c.Name, c.A, c.B)
	}
	for _, name := range slices.Sorted(maps.Keys(d.Rows.Columns)) {
		fmt.Fprintf(t, "differs\t%s\tin %s\n", name, count(d.Rows.Columns[name], "row"))
	}
	r := d.Rows
	fmt.Fprintf(t, "rows\t%d the same, %d added, %d removed, %d changed\n", r.Same, r.Added, r.Removed, r.Changed)
	return t.Flush()
}
