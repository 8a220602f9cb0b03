package dedup

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"orchard/datasets/columns"
	"orchard/datasets/record"
)

// rowPrefix begins the names of columns of the row as it was imported.
const rowPrefix = "row."

// value is a column's value in one task, to be compared with that of others.
type value struct {
	known  bool
	number float64
	text   string // of what is no number
}

// column takes a value out of a task. raw is the imported row, nil unless needsRaw.
type column struct {
	name     string
	needsRaw bool
	kind     reflect.Kind // Invalid for one of the imported row, which may hold anything
	take     func(c *columns.Columns, raw map[string]any) any
}

// findColumn is the column of a name: one that expressions know, or row.NAME.
func findColumn(name string) (column, error) {
	if own, ok := strings.CutPrefix(name, rowPrefix); ok && own != "" {
		return column{name, true, reflect.Invalid, func(_ *columns.Columns, raw map[string]any) any { return raw[own] }}, nil
	}
	if slices.Contains(columns.OfTasks(), name) {
		for f := range reflect.TypeFor[columns.Columns]().Fields() {
			if f.Tag.Get("expr") != name {
				continue
			}
			return column{name, false, f.Type.Kind(), func(c *columns.Columns, _ map[string]any) any {
				if c.Absent(name) {
					return nil
				}
				return reflect.ValueOf(*c).FieldByIndex(f.Index).Interface()
			}}, nil
		}
	}
	return column{}, fmt.Errorf("there is no column %q; there are %s, and row.NAME for a column of the imported row", name, strings.Join(columns.OfTasks(), ", "))
}

// raw is the imported row of a task.
func raw(t *record.Task) (map[string]any, error) {
	if t.Raw == "" {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader([]byte(t.Raw)))
	d.UseNumber()
	var row map[string]any
	if err := d.Decode(&row); err != nil {
		return nil, fmt.Errorf("its imported row (column raw) is no JSON object: %w", err)
	}
	return row, nil
}

// term is a part of --order.
type term struct {
	column
	down bool
}

// parseOrder reads a list of columns; each may have a minus before it.
func parseOrder(s string) ([]term, error) {
	var terms []term
	for part := range strings.SplitSeq(s, ",") {
		name, down := strings.CutPrefix(strings.TrimSpace(part), "-")
		c, err := findColumn(name)
		if err != nil {
			return nil, err
		}
		if c.kind == reflect.Slice {
			return nil, fmt.Errorf("%s is a list, which has no order", name)
		}
		terms = append(terms, term{c, down})
	}
	return terms, nil
}

// valueOf makes what a column holds comparable; ok is false for lists and objects.
func valueOf(v any) (out value, ok bool) {
	switch v := v.(type) {
	case nil:
		return value{}, true
	case bool:
		if v {
			return value{known: true, number: 1}, true
		}
		return value{known: true}, true
	case json.Number:
		f, err := v.Float64()
		return value{known: true, number: f}, err == nil
	case int64:
		return value{known: true, number: float64(v)}, true
	case string:
		return value{known: true, text: v}, true
	case time.Time:
		return value{known: true, text: v.UTC().Format("2006-01-02T15:04:05.000000")}, true
	}
	return value{}, false
}

// compare orders two tasks by the terms, then by id. A value that is not known comes
// last, whichever way a term goes.
func compare(terms []term, a, b *entry) int {
	for i, t := range terms {
		x, y := a.order[i], b.order[i]
		switch {
		case x.known != y.known && x.known:
			return -1
		case x.known != y.known:
			return 1
		}
		c := cmp.Or(cmp.Compare(x.number, y.number), cmp.Compare(x.text, y.text))
		if t.down {
			c = -c
		}
		if c != 0 {
			return c
		}
	}
	return cmp.Compare(a.id, b.id)
}
