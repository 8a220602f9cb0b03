// Package query is a choice of rows and columns of a version as people write it: which
// columns an export, a look or a count sees, and which rows. It works on rows of any
// type; what the reader of datasets can do by itself is left to it.
package query

import (
	"context"
	"iter"
	"slices"
	"strings"

	"orchard/datasets"
	"orchard/datasets/arrowio"
	"orchard/internal/exit"
	"orchard/internal/seal"
)

// Query is a checked choice of columns and rows. Safe for concurrent use.
type Query struct {
	schema  arrowio.Schema // of the chosen rows
	id      string         // the first column, which has the rows' ids
	columns []string
	where   []string
	tree    tree
	options []datasets.Option // what the reader does
	rest    []condition       // what is left to do
}

// tree is the chosen columns by name; a nil subtree is the whole column.
type tree map[string]tree

// New checks columns (dotted paths; none are all) and conditions against a schema. All
// conditions must hold. The error is an exit.Config.
func New(s arrowio.Schema, columns, where []string) (*Query, error) {
	if err := s.Check(columns); err != nil {
		return nil, exit.Configf("--columns: %w", err)
	}
	if len(s.Fields) == 0 {
		return nil, exit.Inputf("%s rows have no columns", s.Name)
	}
	if id := s.Fields[0]; id.Type != "string" { // another program's: where to go on after a stop would not be known
		return nil, exit.Inputf("%s rows: the first column, %s, is %s and so no id", s.Name, id.Name, id.Type)
	}
	q := &Query{schema: s, id: s.Fields[0].Name, columns: slices.Clone(columns), where: slices.Clone(where)}
	read := append([]string{q.id}, columns...)
	for _, text := range where {
		c, err := parse(s, text)
		if err != nil {
			return nil, exit.Configf("--where %q: %w", text, err)
		}
		if option, ok := c.option(); ok {
			q.options = append(q.options, option)
			continue
		}
		q.rest = append(q.rest, c)
		read = append(read, strings.Join(c.path, "."))
	}
	if len(columns) > 0 {
		q.options = append(q.options, datasets.WithColumns(read...))
		q.tree = tree{}
		for _, path := range columns {
			q.tree.add(strings.Split(path, "."))
		}
		q.schema.Fields = q.tree.fields(s.Fields)
		var err error
		q.schema.Fingerprint, err = seal.Sum([]any{s.Name, s.Version, q.schema.Fields})
		if err != nil {
			return nil, err
		}
	}
	return q, nil
}

// Schema is that of the chosen rows; nested columns stay nested.
func (q *Query) Schema() arrowio.Schema { return q.schema }

// Columns and Where are what New was given.
func (q *Query) Columns() []string { return q.columns }
func (q *Query) Where() []string   { return q.where }

// Row is a chosen row with its id, which need not be among the chosen columns.
type Row struct {
	ID string
	arrowio.Object
}

// Scan yields the chosen rows by id; from is the id after which it begins, "" for the
// first.
func (q *Query) Scan(ctx context.Context, v *datasets.Version, from string) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		options := slices.Clone(q.options)
		if from != "" {
			options = append(options, datasets.Where(q.id, ">", from))
		}
		for o, err := range datasets.Objects(ctx, v, options...) {
			if err != nil {
				yield(Row{}, err)
				return
			}
			if slices.ContainsFunc(q.rest, func(c condition) bool { return !c.holds(o) }) {
				continue
			}
			id, _ := Reach(o, q.id).(string)
			if q.tree != nil {
				o = q.tree.pick(o)
			}
			if !yield(Row{id, o}, nil) {
				return
			}
		}
	}
}

// add puts a path into the tree; the whole of a column outweighs parts of it.
func (t tree) add(path []string) {
	sub, there := t[path[0]]
	switch {
	case len(path) == 1:
		t[path[0]] = nil
	case there && sub == nil:
	case there:
		sub.add(path[1:])
	default:
		sub = tree{}
		sub.add(path[1:])
		t[path[0]] = sub
	}
}

func (t tree) fields(all []arrowio.Field) []arrowio.Field {
	var out []arrowio.Field
	for _, f := range all {
		if sub, ok := t[f.Name]; ok {
			out = append(out, sub.field(f))
		}
	}
	return out
}

func (t tree) field(f arrowio.Field) arrowio.Field {
	switch {
	case t == nil:
	case f.Type == "list":
		f.Fields = []arrowio.Field{t.field(f.Fields[0])}
	default:
		f.Fields = t.fields(f.Fields)
	}
	return f
}

func (t tree) pick(o arrowio.Object) arrowio.Object {
	out := make(arrowio.Object, 0, len(t))
	for _, m := range o {
		if sub, ok := t[m.Name]; ok {
			out = append(out, arrowio.Member{Name: m.Name, Value: sub.value(m.Value)})
		}
	}
	return out
}

func (t tree) value(v any) any {
	if t == nil {
		return v
	}
	switch v := v.(type) {
	case arrowio.Object:
		return t.pick(v)
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = t.value(e)
		}
		return out
	}
	return v // null
}

// Reach follows a path into structs, and into every element of a list.
func Reach(v any, path ...string) any {
	if len(path) == 0 {
		return v
	}
	switch v := v.(type) {
	case arrowio.Object:
		for _, m := range v {
			if m.Name == path[0] {
				return Reach(m.Value, path[1:]...)
			}
		}
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = Reach(e, path...)
		}
		return out
	}
	return nil
}
