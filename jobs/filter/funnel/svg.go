package funnel

import (
	"fmt"
	"html"
	"strings"
)

// Lengths of the picture, in pixels.
const (
	width  = 800
	left   = 230 // of the bars
	right  = 110 // beside them
	row    = 46
	bar    = 26
	head   = 64
	length = width - left - right
)

// SVG is the funnel as a picture: a bar for what came in and one for what each step left,
// in light what it removed. It asks for nothing from anywhere.
func (f *Funnel) SVG() string {
	var b strings.Builder
	height := head + row*(len(f.Steps)+1) + 16
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s" font-family="system-ui, sans-serif" font-size="13">`+"\n",
		width, height, width, height, html.EscapeString(fmt.Sprintf("%s: %s rows in, %s out", f.Title, Number(f.In), Number(f.Out))))
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", width, height)
	text(&b, 16, 30, "start", "#1b1f24", `font-size="17" font-weight="600"`, f.Title)
	text(&b, 16, 50, "start", "#57606a", "", fmt.Sprintf("%s rows in, %s out (%s)", Number(f.In), Number(f.Out), percent(f.Out, f.In)))
	f.line(&b, 0, "in", f.In, 0, "")
	for i, s := range f.Steps {
		note := ""
		if s.Sum() > 0 {
			note = fmt.Sprintf("−%s (%s)", Number(s.Sum()), percent(s.Sum(), s.In))
		}
		f.line(&b, i+1, s.Name, s.Out, s.Sum(), note)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// line is a bar with its label, what is left and what was removed.
func (f *Funnel) line(b *strings.Builder, i int, label string, n, removed int64, note string) {
	y := head + row*i
	full, gone := 0.0, 0.0
	if f.In > 0 {
		full = float64(n) / float64(f.In) * length
		gone = float64(removed) / float64(f.In) * length
	}
	text(b, left-12, y+18, "end", "#1b1f24", "", short(label))
	fmt.Fprintf(b, `<rect x="%d" y="%d" width="%d" height="%d" fill="#f3f4f6"/>`+"\n", left, y, length, bar)
	fmt.Fprintf(b, `<rect x="%d" y="%d" width="%.2f" height="%d" fill="#2f6f8f"/>`+"\n", left, y, full, bar)
	if removed > 0 {
		fmt.Fprintf(b, `<rect x="%.2f" y="%d" width="%.2f" height="%d" fill="#e2a08a"/>`+"\n", left+full, y, gone, bar)
	}
	text(b, width-16, y+18, "end", "#1b1f24", `font-variant-numeric="tabular-nums"`, Number(n))
	if note != "" {
		text(b, left, y+bar+13, "start", "#a04a2e", `font-size="11"`, note)
	}
}

func text(b *strings.Builder, x, y int, anchor, fill, more, s string) {
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="%s" fill="%s" %s>%s</text>`+"\n", x, y, anchor, fill, more, html.EscapeString(s))
}

// short is a label that fits beside the bars.
func short(s string) string {
	if r := []rune(s); len(r) > 26 {
		return string(r[:25]) + "…"
	}
	return s
}
