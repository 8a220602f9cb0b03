package evaluation

import (
	"fmt"
	"strconv"
	"strings"

	"orchard/internal/stats"
)

// Percent writes a share for people: 54.3 %, and 2 % for an even one.
func Percent(share float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(100*share, 'f', 1, 64), ".0") + " %"
}

// Points writes a share as a percentage without its sign, always with one digit, for
// tables and intervals.
func Points(share float64) string { return strconv.FormatFloat(100*share, 'f', 1, 64) }

// Range writes an interval in percent.
func Range(i stats.Interval) string { return Points(i.Lo) + " to " + Points(i.Hi) }

// Sentence is the resolve rate, or why there is none; either way with the bounds that hold
// whatever the unknown rollouts are.
func (s Score) Sentence() string {
	if s.Headline == nil {
		text := "no headline: " + s.Withheld
		if s.Rollouts > 0 {
			text += fmt.Sprintf("; the rate is %s %% at worst and %s %% at best", Points(s.Bounds.Lo), Points(s.Bounds.Hi))
		}
		return text
	}
	i, method := s.Interval()
	return fmt.Sprintf("%d of %d rollouts resolved: %s %% (95 %% interval %s, %s); with %d of %d rollouts unknown %s %% at worst and %s %% at best",
		s.Resolved, s.Known, Points(s.Headline.Rate), Range(i), method, s.Unknown, s.Rollouts, Points(s.Bounds.Lo), Points(s.Bounds.Hi))
}

// Short is the sentence for one of several systems.
func (s Score) Short() string {
	if s.Headline == nil {
		return s.Sentence()
	}
	i, _ := s.Interval()
	return fmt.Sprintf("%s %% resolved (%s); %s at worst, %s at best", Points(s.Headline.Rate), Range(i), Points(s.Bounds.Lo), Points(s.Bounds.Hi))
}

// Systems names what is compared: one name where both have it.
func (c Change) Systems() string {
	if c.Before == c.After {
		return c.After.String()
	}
	return c.Before.String() + ", then " + c.After.String()
}

// Sentence is the comparison in one line.
func (c Change) Sentence() string {
	text := fmt.Sprintf("%d tasks newly resolved, %d newly failed, of %d that both know", len(c.NewlyResolved), len(c.NewlyFailed), c.Common)
	if c.P == nil {
		return text + "; no test: " + c.Withheld
	}
	text += fmt.Sprintf("; McNemar p %s", P(*c.P))
	if d := c.Difference; d != nil {
		text += fmt.Sprintf("; difference %+.1f points", 100*d.Mean)
		if d.Bootstrap != nil {
			text += fmt.Sprintf(" (%+.1f to %+.1f)", 100*d.Bootstrap.Percentile.Lo, 100*d.Bootstrap.Percentile.Hi)
		}
	}
	return text
}

// P writes what a probability is: = .052, or < .001.
func P(p float64) string {
	if p < .001 {
		return "< .001"
	}
	return "= " + strings.TrimPrefix(strconv.FormatFloat(p, 'f', 3, 64), "0")
}
