package simulate

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"
	"slices"
	"strings"
)

// The picture: what a group costs over all, and by pass rate what it costs and how many
// prompts give one. It is plain SVG: no script, no style sheet, nothing from elsewhere.

const (
	chartWidth = 920.0
	left       = 90.0 // of every plot
	right      = 690.0
	legend     = 712.0
	barHeight  = 22.0
	plotHeight = 250.0
	ink, faint = "#222", "#ddd"
)

// colours are told apart by nearly everybody (Okabe and Ito).
var colours = []string{"#555555", "#e69f00", "#0072b2", "#009e73", "#56b4e9", "#cc79a7", "#d55e00", "#000000"}

func colour(i int) string { return colours[i%len(colours)] }

// canvas is an SVG being written.
type canvas struct {
	bytes.Buffer
}

func (c *canvas) line(x1, y1, x2, y2 float64, stroke string, width float64) {
	fmt.Fprintf(c, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" stroke-width=\"%.1f\"/>\n", x1, y1, x2, y2, stroke, width)
}

// text puts s at x and y; anchor is start, middle or end.
func (c *canvas) text(x, y float64, anchor, weight, s string) {
	fmt.Fprintf(c, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" font-weight=\"%s\" fill=\"%s\">", x, y, anchor, weight, ink)
	_ = xml.EscapeText(c, []byte(s)) // into memory
	c.WriteString("</text>\n")
}

// svg is the picture.
func (r *Report) svg() []byte {
	var body canvas
	y := 34.0
	body.text(20, y, "start", "bold", fmt.Sprintf("Groups of %d from %d prompts of pass rates %s", r.Settings.BAR.N, r.Settings.Prompts, shorten(r.Settings.Rates, 60)))
	if c := r.Settings; c.Infra > 0 || c.Truncated > 0 {
		y += 20
		body.text(20, y, "start", "normal", fmt.Sprintf("%s of rollouts end without a reward, %s are truncated", c.Infra, c.Truncated))
	}
	y = r.bars(&body, y+40)
	cost := func(m Measures) *float64 { return m.RolloutsGroup }
	y = r.plot(&body, y+46, "Rollouts a usable group, by pass rate", cost, costScale(r, cost))
	accepted := func(m Measures) *float64 { return percent(m.Acceptance) }
	y = r.plot(&body, y+46, "Prompts that give a usable group, by pass rate", accepted, scale{lo: 0, hi: 100, ticks: []float64{0, 25, 50, 75, 100}, unit: "%"})
	var out bytes.Buffer
	fmt.Fprintf(&out, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\" font-family=\"sans-serif\" font-size=\"13\">\n", chartWidth, y+24, chartWidth, y+24)
	fmt.Fprintf(&out, "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n")
	body.WriteTo(&out) //nolint:errcheck // into memory
	out.WriteString("</svg>\n")
	return out.Bytes()
}

func shorten(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}

// bars is the cost of a group over all prompts, with two standard errors.
func (r *Report) bars(c *canvas, y float64) float64 {
	c.text(20, y, "start", "bold", "Rollouts a usable group (with two standard errors)")
	most := 0.0
	for _, s := range r.Results {
		if s.RolloutsGroup != nil {
			most = math.Max(most, *s.RolloutsGroup+2**s.RolloutsGroupError)
		}
	}
	y += 14
	for i, s := range r.Results {
		c.text(left-8, y+barHeight/2+4, "end", "normal", s.Strategy)
		if s.RolloutsGroup == nil {
			c.text(left+4, y+barHeight/2+4, "start", "normal", "no groups")
			y += barHeight + 6
			continue
		}
		at := func(x float64) float64 { return left + (right-left)*math.Max(0, x)/most }
		v, e := *s.RolloutsGroup, 2**s.RolloutsGroupError
		fmt.Fprintf(c, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>\n", left, y, at(v)-left, barHeight, colour(i))
		c.line(at(v-e), y+barHeight/2, at(v+e), y+barHeight/2, ink, 2)
		c.text(legend, y+barHeight/2+4, "start", "normal", fmt.Sprintf("%.1f (%.1f%% of prompts)", v, 100*s.Acceptance))
		y += barHeight + 6
	}
	return y
}

// scale is a vertical axis.
type scale struct {
	lo, hi float64
	log    bool
	ticks  []float64
	unit   string
}

func (s scale) at(x float64) float64 {
	if s.log {
		return (math.Log(x) - math.Log(s.lo)) / (math.Log(s.hi) - math.Log(s.lo))
	}
	return (x - s.lo) / (s.hi - s.lo)
}

// costScale is logarithmic, from a step below the least to a step above the most: rare passes
// cost many times what others do.
func costScale(r *Report, figure func(Measures) *float64) scale {
	lo, hi := math.Inf(1), 0.0
	for _, s := range r.Results {
		for _, at := range s.ByRate {
			if v := figure(at.Measures); v != nil {
				lo, hi = math.Min(lo, *v), math.Max(hi, *v)
			}
		}
	}
	steps := []float64{1}
	for unit := 1.0; steps[len(steps)-1] < math.Max(hi, 2); unit *= 10 {
		steps = append(steps, 2*unit, 5*unit, 10*unit)
	}
	if hi == 0 {
		lo, hi = 1, 10
	}
	first, last := 0, 0
	for i, x := range steps {
		if x <= lo {
			first = i
		}
		if last = i; x >= hi {
			break
		}
	}
	last = max(last, first+1)
	return scale{lo: steps[first], hi: steps[last], log: true, ticks: steps[first : last+1]}
}

// series is one line of a plot: strategies that have it in common.
type series struct {
	names  []string
	colour string
	values []*float64
}

// seriesOf puts strategies with the same values on one line.
func (r *Report) seriesOf(figure func(Measures) *float64) (list []series) {
	for i, s := range r.Results {
		var values []*float64
		for _, at := range s.ByRate {
			values = append(values, figure(at.Measures))
		}
		at := slices.IndexFunc(list, func(o series) bool {
			return slices.EqualFunc(o.values, values, func(a, b *float64) bool { return number(a, 9) == number(b, 9) })
		})
		if at < 0 {
			list = append(list, series{colour: colour(i), values: values})
			at = len(list) - 1
		}
		list[at].names = append(list[at].names, s.Strategy)
	}
	return list
}

// plot is a figure against the pass rate.
func (r *Report) plot(c *canvas, y float64, title string, figure func(Measures) *float64, s scale) float64 {
	c.text(20, y, "start", "bold", title)
	top := y + 16
	bottom := top + plotHeight
	px := func(p float64) float64 { return left + (right-left)*p }
	py := func(v float64) float64 { return bottom - plotHeight*s.at(v) }
	for _, tick := range s.ticks {
		c.line(left, py(tick), right, py(tick), faint, 1)
		c.text(left-8, py(tick)+4, "end", "normal", fmt.Sprintf("%g%s", tick, s.unit))
	}
	for i := range 6 {
		p := float64(i) / 5
		c.line(px(p), bottom, px(p), bottom+5, ink, 1)
		c.text(px(p), bottom+20, "middle", "normal", fmt.Sprintf("%g", p))
	}
	c.line(left, bottom, right, bottom, ink, 1)
	at := top + 12
	for _, line := range r.seriesOf(figure) {
		var points []string
		for j, v := range line.values {
			if v == nil {
				continue
			}
			x, y := px(r.Results[0].ByRate[j].mid()), py(*v)
			points = append(points, fmt.Sprintf("%.1f,%.1f", x, y))
			fmt.Fprintf(c, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", x, y, line.colour)
		}
		fmt.Fprintf(c, "<polyline points=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"/>\n", strings.Join(points, " "), line.colour)
		c.line(legend, at-4, legend+18, at-4, line.colour, 4)
		for names := range slices.Chunk(line.names, 3) {
			c.text(legend+26, at, "start", "normal", strings.Join(names, ", "))
			at += 16
		}
		at += 8
	}
	return bottom + 24
}
