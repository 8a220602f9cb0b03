package history

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"orchard/datasets/record"
	"orchard/internal/evaluation"
	"orchard/internal/stats"
)

// Sentence is a system's numbers in one line.
func Sentence(e record.Evaluation, alpha float64) string {
	text := e.Policy + " in " + e.Harness + ": "
	if e.Rate == nil {
		return text + "no headline: " + e.Withheld + fmt.Sprintf("; %s %% at worst and %s %% at best", evaluation.Points(e.Worst), evaluation.Points(e.Best))
	}
	text += fmt.Sprintf("%s %% resolved, %d of %d", evaluation.Points(*e.Rate), e.Resolved, e.Known)
	if e.Low != nil && e.High != nil {
		text += fmt.Sprintf(" (95 %% interval %s)", evaluation.Range(stats.Interval{Lo: *e.Low, Hi: *e.High}))
	}
	if e.Common == nil {
		return text + "; nothing to compare with"
	}
	text += fmt.Sprintf("; %d tasks newly resolved, %d newly failed, of %d", *e.NewlyResolved, *e.NewlyFailed, *e.Common)
	if e.McNemarP == nil {
		return text + "; no test"
	}
	text += "; McNemar p " + evaluation.P(*e.McNemarP)
	if Regressed(e, alpha) {
		text += ": a regression"
	}
	return text
}

// Headlines is a run's numbers, a line a system.
func (r Run) Headlines(alpha float64) string {
	if len(r.Systems) == 0 {
		return "no headline: nothing was evaluated"
	}
	var lines []string
	for _, e := range r.Systems {
		lines = append(lines, Sentence(e, alpha))
	}
	return strings.Join(lines, "\n")
}

// Table writes the last n runs of a list, the newest first.
func Table(w io.Writer, list []Run, n int, alpha float64) error {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "RUN\tTIME\tSYSTEM\tRATE\tINTERVAL\tP\tREGRESSION")
	for i := len(list) - 1; i >= max(0, len(list)-n); i-- {
		r := list[i]
		for _, e := range r.Systems {
			rate, interval, p, worse := "-", "-", "-", "-"
			if e.Rate != nil {
				rate = evaluation.Points(*e.Rate) + " %"
			}
			if e.Low != nil && e.High != nil {
				interval = evaluation.Range(stats.Interval{Lo: *e.Low, Hi: *e.High})
			}
			if e.McNemarP != nil {
				p, worse = strings.TrimPrefix(evaluation.P(*e.McNemarP), "= "), "no"
			}
			if Regressed(e, alpha) {
				worse = "yes"
			}
			fmt.Fprintf(tw, "%s\t%s\t%s, %s\t%s\t%s\t%s\t%s\n", r.ID, r.At.UTC().Format("2006-01-02 15:04"), e.Policy, e.Harness, rate, interval, p, worse)
		}
	}
	return tw.Flush()
}
