package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"

	"orchard/datasets/record"
)

// WriteTable writes the funnel and the outcomes for a terminal.
func (s *Summary) WriteTable(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	if s.TasksIn > 0 {
		fmt.Fprintf(tw, "tasks\t%d\n", s.TasksIn)
	}
	fmt.Fprintf(tw, "rollouts\t%d\t%s\n", s.Rollouts, s.tasksSplit())
	for _, o := range s.occurred() {
		fmt.Fprintf(tw, "  %s\t%d\t%s\n", printable(string(o)), s.Outcomes[o], reward(o))
	}
	if s.Missing > 0 {
		fmt.Fprintf(tw, "  (not finished)\t%d\tno reward, left out of the version\n", s.Missing)
	}
	if s.SFTRows >= 0 {
		fmt.Fprintf(tw, "SFT rows\t%d\n", s.SFTRows)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(w, s.Analysis().Text())
	return err
}

// tasksSplit says how often tasks are resolved: those resolved sometimes are the ones
// that tell policies apart.
func (s *Summary) tasksSplit() string {
	always, sometimes, never, unknown := s.split()
	if len(s.tasks) == 0 {
		return ""
	}
	text := fmt.Sprintf("of %d tasks", len(s.tasks))
	sep := ": "
	for _, c := range []struct {
		n    int64
		what string
	}{{always, "always resolved"}, {sometimes, "sometimes"}, {never, "never"}, {unknown, "without a reward"}} {
		if c.n > 0 {
			text += fmt.Sprintf("%s%d %s", sep, c.n, c.what)
			sep = ", "
		}
	}
	return text
}

func reward(o record.Outcome) string {
	switch r := o.Reward(); {
	case r != nil:
		return fmt.Sprintf("reward %g", *r)
	case slices.Contains(record.Outcomes, o):
		return "no reward"
	}
	return "not an outcome that this program knows"
}

// names is the values of a dimension.
func (s *Summary) names(dimension string) string {
	return strings.Join(slices.Sorted(maps.Keys(s.groups[dimension])), ", ")
}

// printable keeps what a dataset says from steering a terminal, or from turning round
// the text beside it.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}
