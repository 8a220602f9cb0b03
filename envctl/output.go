package envctl

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// json reports whether programs read what is printed.
func (p *Program) json() bool { return p.flags.output == "json" }

// print writes v as JSON on one line, or what people write.
func (p *Program) print(v any, people func(io.Writer)) error {
	if !p.json() {
		people(p.Out)
		return nil
	}
	e := json.NewEncoder(p.Out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// listed is list, which JSON then shows as [] and not as null.
func listed[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// table writes rows in columns under a header.
func table(w io.Writer, header string, rows [][]string) {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, strings.ReplaceAll(header, " ", "\t"))
	for _, r := range rows {
		for i, cell := range r {
			if cell == "" {
				cell = "-"
			}
			r[i] = oneLine(cell)
		}
		fmt.Fprintln(t, strings.Join(r, "\t"))
	}
	_ = t.Flush() // an error of the output shows in the next write
}

// oneLine is s without what would break a table or move a terminal's cursor.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, s)
}

// age is how long ago t was, in its two largest units.
func age(t time.Time, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return short(now.Sub(t))
}

// short is d in one or two units: 45s, 3m20s, 5h10m, 2d4h.
func short(d time.Duration) string {
	s := int(max(d, 0).Seconds())
	switch {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm%ds", s/60, s%60)
	case s < 86400:
		return fmt.Sprintf("%dh%dm", s/3600, s/60%60)
	}
	return fmt.Sprintf("%dd%dh", s/86400, s/3600%24)
}
