package rules

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"orchard/datasets/columns"
)

// fields is where a column is in columns.Columns.
var fields = func() map[string]int {
	m := map[string]int{}
	for i := range reflect.TypeFor[columns.Columns]().NumField() {
		m[reflect.TypeFor[columns.Columns]().Field(i).Tag.Get("expr")] = i
	}
	return m
}()

// values is the row's values of the columns that the rule asks about, short enough for a
// line of the list of dropped rows.
func (s *Step) values(r *Row) []string {
	var out []string
	for _, name := range s.columns {
		i, ok := fields[name]
		if !ok {
			continue // raw: the rule's expression says which part
		}
		switch v := reflect.ValueOf(r.env.Columns).Field(i).Interface().(type) {
		case string:
			out = append(out, fmt.Sprintf("%s = %s", name, shown(v)))
		case []string:
			out = append(out, fmt.Sprintf("%s: %d", name, len(v)))
		case time.Time:
			out = append(out, fmt.Sprintf("%s = %s", name, v.Format(time.RFC3339)))
		default:
			out = append(out, fmt.Sprintf("%s = %v", name, v))
		}
	}
	for _, path := range s.cond.paths() {
		at := make([]any, len(path))
		for i, p := range path {
			at[i] = p
		}
		v := lookup(r.env.Raw, at)
		text := fmt.Sprint(v)
		if _, ok := v.(string); ok || len(text) > 120 {
			text = shown(text)
		}
		out = append(out, fmt.Sprintf("raw.%s = %s", strings.Join(path, "."), text))
	}
	return out
}

// paths is the paths into raw of all leaves.
func (c *cond) paths() [][]string {
	if c.leaf != nil {
		return c.leaf.raw
	}
	var out [][]string
	for _, k := range c.kids {
		out = append(out, k.paths()...)
	}
	return out
}

// shown is a value in quotes, or its length when it is long.
func shown(s string) string {
	if len(s) > 120 {
		return fmt.Sprintf("(%d bytes)", len(s))
	}
	return fmt.Sprintf("%q", s)
}
