package calibration

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Markdown is the report for people.
func (r *Report) Markdown() []byte {
	var b strings.Builder
	line := func(format string, a ...any) { fmt.Fprintf(&b, format+"\n", a...) }
	line("# Calibration of step values\n")
	line("%d rollouts with a reward: %s.", r.Rows, orNone(counts(r.Statuses)))
	if len(r.Dropped) > 0 {
		line("Without a row: %s.", counts(r.Dropped))
	}
	line("\n| | |\n|---|---|")
	line("| curves that are an inverted U | %s |", r.InvertedU)
	line("| smooth ones | %s |", r.Smooth)
	line("| curves that rise nowhere | %s |", r.NoRise)
	line("| steps trained, of rollouts with a curve | %s |", r.Trained)
	line("\nAn inverted U has its highest point above its first and its last; a smooth one, besides, never falls before that point and never rises after it.")

	if r.Asked > 0 {
		line("\n## Answers\n")
		line("%d rollouts were asked about.\n\n| | |\n|---|---|", r.Asked)
		for i, n := range r.Accepted {
			line("| answer %d was taken | %d |", i+1, n)
		}
		for _, reason := range order(r.Rejected) {
			line("| rejected: `%s` | %d |", reason, r.Rejected[reason])
		}
	}

	line("\n## Length of what rises, in steps\n")
	line("| | count | median | mean | most |\n|---|---|---|---|---|")
	for _, l := range []struct {
		name string
		Lengths
	}{{"as it rises", r.Rises}, {"joined and padded: trained", r.Segments}} {
		line("| %s | %d | %s | %s | %s |", l.name, l.Count, number(l.Median), number(l.Mean), whole(l.Most))
	}
	line("\n| steps | as it rises | trained |\n|---|---|---|")
	for _, steps := range union(r.rises, r.segments) {
		line("| %d | %d | %d |", steps, r.rises[steps], r.segments[steps])
	}

	line("\n## Probability at the first and the last point\n")
	line("| from | to | first | last |\n|---|---|---|---|")
	for i, s := range r.Start {
		if s.Count+r.Last[i].Count > 0 {
			line("| %.2f | %.2f | %d | %d |", s.From, s.To, s.Count, r.Last[i].Count)
		}
	}
	if c := r.Compared; c != nil {
		line("\n## Compared with %s\n", c.With)
		line("| | |\n|---|---|")
		line("| rollouts and states with both values | %d, %d |", c.Rollouts, c.States)
		line("| mean absolute difference | %s |", number(c.MeanDifference))
		line("| rank correlation (Spearman, mean of %d rollouts) | %s |", c.Ranked, number(c.RankCorrelation))
		if c.Others > 0 {
			line("| rollouts of the same id with another trajectory, left out | %d |", c.Others)
		}
	}
	return []byte(b.String())
}

func (s Share) String() string {
	if s.Share == nil {
		return "– (of none)"
	}
	return fmt.Sprintf("%.1f %% (%d of %d)", 100**s.Share, s.Count, s.Of)
}

func number(v *float64) string {
	if v == nil {
		return "–"
	}
	return fmt.Sprintf("%.3g", *v)
}

func whole(v *int64) string {
	if v == nil {
		return "–"
	}
	return fmt.Sprint(*v)
}

// order is names by count, the largest first.
func order(m map[string]int64) []string {
	return slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		return cmp.Or(cmp.Compare(m[b], m[a]), cmp.Compare(a, b))
	})
}

func counts(m map[string]int64) string {
	names := order(m)
	for i, n := range names {
		names[i] = fmt.Sprintf("%d %s", m[n], n)
	}
	return strings.Join(names, ", ")
}

func orNone(s string) string { return cmp.Or(s, "none") }

func union(a, b map[int64]int64) []int64 {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}
