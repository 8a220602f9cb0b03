package stats

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"orchard/datasets"
	"orchard/datasets/arrowio"
	"orchard/datasets/query"
)

// any counts each column by itself: how often it is null, the values of short text and
// of booleans, the sizes of numbers, texts and lists.
func (s *Stats) any(ctx context.Context, v *datasets.Version) error {
	columns := leaves(v.Manifest().Schema.Fields, "")
	counts := make([]column, len(columns))
	for i, c := range columns {
		counts[i] = column{field: c, values: newCounter(c.path), sizes: Histogram{Name: c.size()}}
	}
	nulls := newCounter("columns")
	for o, err := range datasets.Objects(ctx, v) {
		if err != nil {
			return err
		}
		s.Rows++
		for i := range counts {
			counts[i].add(query.Reach(o, counts[i].field.steps...), nulls)
		}
	}
	s.Tables = append(s.Tables, nulls.table())
	for i := range counts {
		c := &counts[i]
		if len(c.values.lines) > 0 && !c.many {
			s.Tables = append(s.Tables, c.values.table())
		}
		if c.sizes.Values > 0 {
			s.Histograms = append(s.Histograms, c.sizes)
		}
	}
	return nil
}

// leafColumn is a column that has one value a row, or a list.
type leafColumn struct {
	path  string
	steps []string
	kind  string
}

func (c leafColumn) size() string {
	switch c.kind {
	case "string", "bytes":
		return "bytes of " + c.path
	case "list":
		return "length of " + c.path
	case "float32", "float64":
		return "thousandths of " + c.path
	}
	return c.path
}

func leaves(fields []arrowio.Field, path string) []leafColumn {
	var out []leafColumn
	for _, f := range fields {
		name := path + f.Name
		if f.Type == "struct" {
			out = append(out, leaves(f.Fields, name+".")...)
			continue
		}
		out = append(out, leafColumn{name, strings.Split(name, "."), f.Type})
	}
	return out
}

// column is what is known of one.
type column struct {
	field  leafColumn
	values *counter
	many   bool // too many values, or too long ones, to list
	sizes  Histogram
}

// Most values of a column that are listed, and the longest.
const (
	mostValues = 20
	longest    = 40
)

func (c *column) add(v any, nulls *counter) {
	if v == nil {
		nulls.add(c.field.path, "null")
		return
	}
	nulls.add(c.field.path, "there")
	switch v := v.(type) {
	case string:
		c.sizes.add(int64(len(v)))
		c.value(v)
	case []byte:
		c.sizes.add(int64(len(v)))
	case bool:
		c.value(fmt.Sprint(v))
	case int64:
		c.sizes.add(v)
	case uint64:
		c.sizes.add(int64(min(v, math.MaxInt64)))
	case float32:
		c.float(float64(v))
	case float64:
		c.float(v)
	case time.Time:
		c.value(v.UTC().Format(time.DateOnly))
	case []any:
		c.sizes.add(int64(len(v)))
	}
}

func (c *column) float(f float64) {
	if f-f != 0 { // NaN and the infinities have no size
		c.sizes.Unknown++
		return
	}
	c.sizes.add(int64(math.Round(min(max(1000*f, -1e18), 1e18)))) // mostly it is a share
}

func (c *column) value(s string) {
	if c.many {
		return
	}
	c.values.add(s, "rows")
	if len(c.values.lines) > mostValues || len(s) > longest {
		c.many, c.values.lines = true, nil
	}
}
