package command

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"orchard/datasets"
	"orchard/datasets/stats"
	"orchard/internal/seal"
)

const aboutStats = `Of tasks, rollouts and SFT rows it counts what these are about; of any other rows each
column by itself. Numbers are counted by powers of two, those with a fraction in thousandths.

EXAMPLES
   orchard dataset stats out/rollouts
   orchard dataset stats --json out/sft`

// mostLines of a table are printed; JSON has all.
const mostLines = 20

func statistics(c *cli.Context, open datasets.Opener, args []string) error {
	v, err := datasets.Open(c.Context, open, args[0])
	if err != nil {
		return err
	}
	s, err := stats.Of(c.Context, v)
	if err != nil {
		return err
	}
	w := c.App.Writer
	if c.Bool("json") {
		raw, err := seal.JSON(s)
		if err == nil {
			_, err = w.Write(append(raw, '\n'))
		}
		return err
	}
	fmt.Fprintf(w, "%s@%s  %s of kind %s\n", s.Dataset, s.Version[:12], count(s.Rows, "row"), s.Kind)
	for _, t := range s.Tables {
		if err := printTable(w, t); err != nil {
			return err
		}
	}
	for _, h := range s.Histograms {
		printHistogram(w, h)
	}
	return nil
}

func printTable(w io.Writer, t stats.Table) error {
	if len(t.Rows) == 0 {
		return nil
	}
	fmt.Fprintf(w, "\n%s\n", t.Name)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if len(t.Columns) > 1 {
		fmt.Fprintf(tw, "  \tall\t%s\t\n", strings.Join(t.Columns, "\t"))
	}
	most := t.Rows[0].Total
	for i, l := range t.Rows {
		if i == mostLines {
			break
		}
		fmt.Fprintf(tw, "  %s\t%d\t", named(l.Name), l.Total)
		if len(t.Columns) > 1 {
			for _, n := range l.Counts {
				fmt.Fprintf(tw, "%d\t", n)
			}
		}
		fmt.Fprintf(tw, "%s\n", bar(l.Total, most))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	if n := len(t.Rows) - mostLines; n > 0 {
		fmt.Fprintf(w, "  … and %d more\n", n)
	}
	if t.Other > 0 {
		fmt.Fprintf(w, "  … and %s with further names\n", count(t.Other, "row"))
	}
	return nil
}

func named(s string) string {
	if s == "" {
		return `""`
	}
	return short(s, 40)
}

func printHistogram(w io.Writer, h stats.Histogram) {
	fmt.Fprintf(w, "\n%s\n", h.Name)
	unknown := ""
	if h.Unknown > 0 {
		unknown = fmt.Sprintf(", unknown of %s", count(h.Unknown, "row"))
	}
	if h.Values == 0 {
		fmt.Fprintf(w, "  no values%s\n", unknown)
		return
	}
	fmt.Fprintf(w, "  least %d, mean %.1f, most %d%s\n", h.Min, h.Mean(), h.Max, unknown)
	most, first := int64(0), -1
	for i, n := range h.Buckets {
		most = max(most, n)
		if n > 0 && first < 0 {
			first = i
		}
	}
	for i := first; i < len(h.Buckets); i++ {
		least, last := h.Bounds(i)
		label := fmt.Sprintf("%d–%d", least, last)
		switch {
		case i == 0:
			label = "≤0"
		case least == last:
			label = fmt.Sprint(least)
		}
		fmt.Fprintf(w, "  %20s  %9d  %s\n", label, h.Buckets[i], bar(h.Buckets[i], most))
	}
}

// bar is n of most as a line of blocks; what is more than nothing is seen.
func bar(n, most int64) string {
	const wide = 40
	if n == 0 || most == 0 {
		return ""
	}
	return strings.Repeat("█", max(1, int(wide*n/most)))
}
