package command

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"orchard/datasets"
	"orchard/datasets/arrowio"
	"orchard/datasets/query"
	"orchard/internal/exit"
	"orchard/internal/seal"
)

const aboutHead = `EXAMPLES
   orchard dataset head --columns task_id,verdict.outcome out/rollouts
   orchard dataset head --where 'verdict.outcome=resolved' --where 'index<2' out/rollouts
   orchard dataset head -n 1 --json --where 'trajectory.messages.content~timeout' out/rollouts

` + aboutWhere

func head(c *cli.Context, open datasets.Opener, args []string) error {
	n := c.Int("n")
	if n < 1 {
		return exit.Configf("-n: %d must be at least 1", n)
	}
	v, err := datasets.Open(c.Context, open, args[0])
	if err != nil {
		return err
	}
	columns := columnsOf(c)
	q, err := query.New(v.Manifest().Schema, columns, whereOf(c))
	if err != nil {
		return err
	}
	var print printer = &blocks{w: c.App.Writer}
	switch {
	case c.Bool("json"):
		print = &lines{json.NewEncoder(c.App.Writer)}
	case len(columns) > 0:
		print = newTable(c.App.Writer, columns)
	}
	for row, err := range q.Scan(c.Context, v, "") {
		if err != nil {
			return err
		}
		o := row.Object
		if len(columns) > 0 {
			o = flat(o, columns)
		}
		if err := print.row(o); err != nil {
			return err
		}
		if n--; n == 0 {
			break
		}
	}
	return print.end()
}

// flat is the chosen columns, each under its dotted name.
func flat(row arrowio.Object, columns []string) arrowio.Object {
	out := make(arrowio.Object, len(columns))
	for i, c := range columns {
		out[i] = arrowio.Member{Name: c, Value: query.Reach(row, strings.Split(c, ".")...)}
	}
	return out
}

type printer interface {
	row(arrowio.Object) error
	end() error
}

// lines is a JSON object a line.
type lines struct{ enc *json.Encoder }

func (l *lines) row(o arrowio.Object) error {
	l.enc.SetEscapeHTML(false)
	return l.enc.Encode(o)
}
func (l *lines) end() error { return nil }

// table is a line a row, cells shortened.
type table struct{ *tabwriter.Writer }

func newTable(w io.Writer, columns []string) table {
	t := table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	fmt.Fprintln(t, strings.ToUpper(strings.Join(columns, "\t")))
	return t
}

func (t table) row(o arrowio.Object) error {
	cells := make([]string, len(o))
	for i, m := range o {
		cells[i] = short(m.Value, 60)
	}
	_, err := fmt.Fprintln(t, strings.Join(cells, "\t"))
	return err
}

func (t table) end() error { return t.Flush() }

// blocks is a row in full height: a field a line, structs indented.
type blocks struct {
	w io.Writer
	n int
}

func (b *blocks) row(o arrowio.Object) error {
	b.n++
	_, err := fmt.Fprintf(b.w, "row %d\n", b.n)
	if err != nil {
		return err
	}
	return b.object(o, "  ")
}

func (b *blocks) end() error {
	if b.n == 0 {
		_, err := fmt.Fprintln(b.w, "no rows")
		return err
	}
	return nil
}

func (b *blocks) object(o arrowio.Object, indent string) error {
	for _, m := range o {
		if inner, ok := m.Value.(arrowio.Object); ok {
			fmt.Fprintf(b.w, "%s%s:\n", indent, m.Name)
			if err := b.object(inner, indent+"  "); err != nil {
				return err
			}
			continue
		}
		if _, err := fmt.Fprintf(b.w, "%s%s: %s\n", indent, m.Name, short(m.Value, 200)); err != nil {
			return err
		}
	}
	return nil
}

// short is a value on one line of at most limit characters.
func short(v any, limit int) string {
	if list, ok := v.([]any); ok && len(list) > 0 {
		if _, structs := list[0].(arrowio.Object); structs {
			return fmt.Sprintf("%d of {%s}", len(list), strings.Join(names(list[0].(arrowio.Object)), ", "))
		}
	}
	s, ok := v.(string)
	if !ok || s == "" || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		b, err := seal.JSON(v)
		if err != nil {
			return err.Error()
		}
		s = string(b)
	}
	if utf8.RuneCountInString(s) > limit {
		r := []rune(s)
		s = fmt.Sprintf("%s… (%d characters)", string(r[:limit-1]), len(r))
	}
	return s
}

func names(o arrowio.Object) []string {
	out := make([]string, len(o))
	for i, m := range o {
		out[i] = m.Name
	}
	return out
}
