package report

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
)

// bar is one bar of a chart.
type bar struct {
	label string
	value float64
	text  string // beside the bar
	class string // of the colour
}

// bars draws horizontal bars as SVG that takes its colours and fonts from the page.
// Labels may come from a task set, so they are escaped.
func bars(list []bar) template.HTML {
	const height, gap, left, width = 18, 6, 190, 640
	most := 0.0
	for _, b := range list {
		most = math.Max(most, b.value)
	}
	var s strings.Builder
	fmt.Fprintf(&s, `<svg viewBox="0 0 %d %d" role="img">`, width, len(list)*(height+gap))
	for i, b := range list {
		y, w := i*(height+gap), 0.0
		if most > 0 {
			w = b.value / most * (width - left - 110)
		}
		fmt.Fprintf(&s, `<text x="%d" y="%d" text-anchor="end">%s</text>`, left-8, y+13, template.HTMLEscapeString(clip(b.label, 28)))
		fmt.Fprintf(&s, `<rect class="%s" x="%d" y="%d" width="%.1f" height="%d" rx="2"><title>%s</title></rect>`,
			b.class, left, y, math.Max(w, 1), height, template.HTMLEscapeString(b.label+": "+b.text))
		fmt.Fprintf(&s, `<text x="%.1f" y="%d">%s</text>`, left+w+6, y+13, template.HTMLEscapeString(b.text))
	}
	s.WriteString("</svg>")
	return template.HTML(s.String())
}

// histogram draws the distribution of values in at most 16 equal bins.
func histogram(values []int64, unit string) template.HTML {
	if len(values) == 0 {
		return template.HTML("<p class=none>not known</p>")
	}
	const width, height, floor, most = 640, 170, 140, 16
	lo, hi := slices.Min(values), slices.Max(values)
	size := max(1, int64(math.Ceil(float64(hi-lo+1)/most)))
	n := int((hi-lo)/size) + 1
	counts := make([]int, n)
	for _, v := range values {
		counts[(v-lo)/size]++
	}
	top := slices.Max(counts)
	step := float64(width) / float64(n)
	var s strings.Builder
	fmt.Fprintf(&s, `<svg viewBox="0 0 %d %d" role="img">`, width, height)
	for i, c := range counts {
		h := float64(c) / float64(top) * (floor - 18)
		from := lo + int64(i)*size
		label := fmt.Sprint(from)
		if size > 1 {
			label = fmt.Sprintf("%d–%d", from, from+size-1)
		}
		x := float64(i) * step
		fmt.Fprintf(&s, `<rect class="plain" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="2"><title>%s %s: %d</title></rect>`,
			x+1, floor-h, step-2, h, label, unit, c)
		if c > 0 {
			fmt.Fprintf(&s, `<text class="small" x="%.1f" y="%.1f" text-anchor="middle">%d</text>`, x+step/2, floor-h-4, c)
		}
		if n <= 8 || i%2 == 0 {
			fmt.Fprintf(&s, `<text class="small" x="%.1f" y="%d" text-anchor="middle">%s</text>`, x+step/2, floor+16, short(from))
		}
	}
	fmt.Fprintf(&s, `<text class="small" x="%d" y="%d" text-anchor="end">%s</text></svg>`, width, height, unit)
	return template.HTML(s.String())
}

// short writes 12345 as 12k.
func short(n int64) string {
	switch {
	case n >= 10_000_000:
		return fmt.Sprintf("%dM", n/1_000_000)
	case n >= 10_000:
		return fmt.Sprintf("%dk", n/1000)
	}
	return fmt.Sprint(n)
}

func clip(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}
