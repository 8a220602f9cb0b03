package command

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"fmt"
	"slices"
	"unicode/utf8"

	"orchard/datasets"
)

// Measures of the drawing, in pixels.
const (
	boxWide, boxHigh = 250, 58
	gapWide, gapHigh = 90, 22
	arcHigh          = 34
	margin           = 20
)

// box is a version or file in the drawing; each is there once.
type box struct {
	*origin
	layer, row int
	x, y       int
}

// arrow goes from what was read to what was made.
type arrow struct {
	from, to *box
	role     string
}

// drawing is a lineage as an SVG that needs nothing besides: what was there first is on
// the left.
func drawing(top *origin) []byte {
	boxes, arrows := layout(top)
	wide, high := 0, 0
	for _, b := range boxes {
		wide, high = max(wide, b.x+boxWide), max(high, b.y+boxHigh)
	}
	var s bytes.Buffer
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="13">`+"\n", wide+margin, high+margin)
	fmt.Fprintf(&s, "<title>%s</title>\n", text("lineage of "+top.Name+"@"+top.Digest[:12], 200))
	s.WriteString(`<defs><marker id="tip" markerWidth="9" markerHeight="8" refX="8" refY="4" orient="auto"><path d="M0,0 L9,4 L0,8 z" fill="#555"/></marker></defs>` + "\n")
	s.WriteString(`<rect width="100%" height="100%" fill="#fff"/>` + "\n")
	for _, a := range arrows {
		a.draw(&s)
	}
	for _, b := range boxes {
		fill, dash := "#e8f1fb", ""
		switch {
		case b.Problem != "":
			fill, dash = "#fbe9e7", ` stroke-dasharray="5 3"`
		case b.Kind == datasets.InputFile:
			fill = "#f4f4f4"
		}
		fmt.Fprintf(&s, `<g><title>%s</title><rect x="%d" y="%d" width="%d" height="%d" rx="6" fill="%s" stroke="#555"%s/>`, text(b.hover(), 2000), b.x, b.y, boxWide, boxHigh, fill, dash)
		fmt.Fprintf(&s, `<text x="%d" y="%d" font-weight="bold">%s</text>`, b.x+10, b.y+23, text(b.Name, 30))
		fmt.Fprintf(&s, `<text x="%d" y="%d" fill="#444">%s</text></g>`+"\n", b.x+10, b.y+44, text(b.below(), 36))
	}
	s.WriteString("</svg>\n")
	return s.Bytes()
}

// draw goes straight to the next column, and over the top of those between to a further one.
func (a arrow) draw(s *bytes.Buffer) {
	const path = `<path d="M%d,%d C%d,%d %d,%d %d,%d" fill="none" stroke="#555" marker-end="url(#tip)"/>` + "\n"
	const label = `<text x="%d" y="%d" fill="#555" font-size="11">%s</text>` + "\n"
	if over := a.span() - 1; over > 0 {
		x1, y1, x2, y2 := a.from.x+boxWide*2/3, a.from.y, a.to.x+boxWide/3, a.to.y
		top := y1 - over*arcHigh*4/3 // a curve comes to three quarters of its control points
		fmt.Fprintf(s, path, x1, y1, x1+gapWide, top, x2-gapWide, min(top, y2-arcHigh), x2, y2)
		fmt.Fprintf(s, label, x1+8, y1-5, text(a.role, 14))
		return
	}
	x1, y1, x2, y2 := a.from.x+boxWide, a.from.y+boxHigh/2, a.to.x, a.to.y+boxHigh/2
	mid := (x1 + x2) / 2
	fmt.Fprintf(s, path, x1, y1, mid, y1, mid, y2, x2, y2)
	fmt.Fprintf(s, label, x1+4, y1-5, text(a.role, 14))
}

// span is how many columns an arrow goes.
func (a arrow) span() int { return a.from.layer - a.to.layer }

func (b *box) below() string {
	digest := b.Digest[:min(12, len(b.Digest))]
	switch {
	case b.Problem != "":
		return digest + "  not read"
	case b.Kind == datasets.InputFile:
		return digest + "  file"
	}
	return fmt.Sprintf("%s  %s", digest, count(b.Rows, "row"))
}

func (b *box) hover() string {
	s := b.Name + "@" + b.Digest
	for _, more := range []string{b.Stage, b.URI, b.Problem} {
		if more != "" {
			s += "\n" + more
		}
	}
	return s
}

// text is at most limit characters, fit for XML.
func text(s string, limit int) string {
	if utf8.RuneCountInString(s) > limit {
		s = string([]rune(s)[:limit-1]) + "…"
	}
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(s)) // a buffer takes everything
	return b.String()
}

// layout gives each box a column, left of all that was made from it.
func layout(top *origin) ([]*box, []arrow) {
	boxes := map[string]*box{}
	var order []*box
	var arrows []arrow
	var visit func(o *origin) *box
	visit = func(o *origin) *box {
		id := o.Kind + o.Digest
		b, ok := boxes[id]
		if !ok {
			b = &box{origin: o}
			boxes[id] = b
			order = append(order, b)
		}
		for _, in := range o.Inputs {
			arrows = append(arrows, arrow{from: visit(in), to: b, role: in.Role})
		}
		return b
	}
	visit(top)
	for range order { // the longest way decides, and no way is longer than all boxes
		for _, a := range arrows {
			a.from.layer = max(a.from.layer, a.to.layer+1)
		}
	}
	last := 0
	for _, b := range order {
		last = max(last, b.layer)
	}
	head := 0 // room for the arrows that go over others
	for _, a := range arrows {
		head = max(head, (a.span()-1)*arcHigh)
	}
	rows := make([]int, last+1)
	for _, b := range order {
		b.row = rows[b.layer]
		rows[b.layer]++
		b.x = margin + (last-b.layer)*(boxWide+gapWide)
		b.y = margin + head + b.row*(boxHigh+gapHigh)
	}
	slices.SortStableFunc(order, func(a, b *box) int { return cmp.Or(cmp.Compare(a.x, b.x), cmp.Compare(a.y, b.y)) })
	return order, arrows
}
