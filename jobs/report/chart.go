package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"orchard/datasets/record"
)

// The charts are numbers only; page/report.html draws them. Lengths are percentages.

// bar is a line of a bar chart.
type bar struct {
	Label, Text string  // before and after the bar
	Class       string  // of the colour
	Length      float64 // of the bar
	Lo, Hi      float64 // an interval drawn over it; none when Hi is 0
	value       float64
}

// relative makes the longest bar fill the chart.
func relative(list []bar) []bar {
	most := 0.0
	for _, b := range list {
		most = math.Max(most, b.value)
	}
	for i := range list {
		if most > 0 {
			list[i].Length = 100 * list[i].value / most
		}
	}
	return list
}

// histogram is the distribution of a number over rollouts, stacked by what they were worth.
type histogram struct {
	Bins []bin
	Note string // median and the like
}

type bin struct {
	Label string // below it
	Title string // in full
	Count int64
	Top   float64 // where the highest part begins
	Parts []part  // from the bottom up
}

// part is a stretch of a bin, from the top.
type part struct {
	Class     string
	Y, Height float64
}

// classes is the order of the parts.
var classes = []string{"good", "some", "bad", "none"}

// class is the colour of an outcome.
func class(o record.Outcome) string {
	switch {
	case o == record.Resolved:
		return "good"
	case o == record.Partial:
		return "some"
	case o.Reward() == nil:
		return "none"
	}
	return "bad"
}

// spread puts values into about a dozen bins of a round width. A few values far above
// the rest would leave nearly all bins empty, so what lies beyond the 95th percentile
// may share one bin without an end.
func spread(values []measure, unit string) histogram {
	if len(values) == 0 {
		return histogram{}
	}
	values = slices.Clone(values)
	slices.SortFunc(values, func(a, b measure) int { return cmp.Compare(a.value, b.value) })
	at := func(q float64) int64 { return values[max(0, int(math.Ceil(q*float64(len(values))))-1)].value }
	lowest, usual, highest := values[0].value, at(.95), at(1)
	width := roundUp(float64(usual-lowest+1) / 12)
	from := lowest / width * width
	n := int((usual-from)/width) + 1
	end := from + int64(n)*width
	bins := make([]bin, n)
	for i := range bins {
		a := from + int64(i)*width
		bins[i].Label = short(a)
		bins[i].Title = fmt.Sprintf("%d to %d %s", a, a+width-1, unit)
		if width == 1 {
			bins[i].Title = fmt.Sprintf("%d %s", a, unit)
		}
	}
	if highest >= end {
		bins = append(bins, bin{Label: short(end) + "+", Title: fmt.Sprintf("%d %s or more", end, unit)})
	}
	counts := make([]map[string]int64, len(bins))
	var top int64
	for _, v := range values {
		i := min(len(bins)-1, int((v.value-from)/width))
		if counts[i] == nil {
			counts[i] = map[string]int64{}
		}
		counts[i][class(v.outcome)]++
		bins[i].Count++
		top = max(top, bins[i].Count)
	}
	for i := range bins {
		bins[i].stack(counts[i], top)
	}
	return histogram{Bins: bins, Note: fmt.Sprintf("median %s · 90 %% up to %s · most %s", short(at(.5)), short(at(.9)), short(highest))}
}

// stack lays the parts of a bin upon one another; top is the count of the highest bin.
func (b *bin) stack(counts map[string]int64, top int64) {
	b.Top = 100
	for _, c := range classes {
		if n := counts[c]; n > 0 {
			h := 100 * float64(n) / float64(top)
			b.Top = math.Max(0, b.Top-h)
			b.Parts = append(b.Parts, part{Class: c, Y: b.Top, Height: h})
		}
	}
}

// roundUp is the least of 1, 2, 5, 10, 20, … that is not below x.
func roundUp(x float64) int64 {
	for unit := int64(1); ; unit *= 10 {
		for _, n := range []int64{1, 2, 5} {
			if float64(n*unit) >= x {
				return n * unit
			}
		}
	}
}

// short writes 12345 as 12.3k: three digits are enough for a chart.
func short(n int64) string {
	f, unit := float64(n), ""
	switch {
	case n < 10_000:
		return fmt.Sprint(n)
	case n < 999_500:
		f, unit = f/1e3, "k"
	case n < 999_500_000:
		f, unit = f/1e6, "M"
	default:
		f, unit = f/1e9, "G"
	}
	digits := 0
	switch {
	case f < 9.995:
		digits = 2
	case f < 99.95:
		digits = 1
	}
	s := fmt.Sprintf("%.*f", digits, f)
	if digits > 0 {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s + unit
}
