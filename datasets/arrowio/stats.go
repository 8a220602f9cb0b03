package arrowio

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
)

// Stat is what is known of a scalar column's values in one file. Without Min and Max
// nothing is known of them but how many are null.
type Stat struct {
	Nulls int64 `json:"nulls,omitempty"`
	// Min and Max are a JSON bool, number or string; a timestamp is its microseconds
	// since 1970. Both are there or none is.
	Min json.RawMessage `json:"min,omitempty"`
	Max json.RawMessage `json:"max,omitempty"`
}

// maxStat is the longest text that is a bound; a column with a longer one has none, as
// statistics are for ids, names and numbers.
const maxStat = 64

// bounds is Min and Max as compare takes them.
func (s Stat) bounds(kind string) (least, most any, ok bool) {
	least, ok1 := parseBound(kind, s.Min)
	most, ok2 := parseBound(kind, s.Max)
	return least, most, ok1 && ok2
}

// SameBounds says whether two statistics have the same Min and Max, however these are
// written.
func (s Stat) SameBounds(t Stat) bool {
	same := func(a, b json.RawMessage) bool {
		var v, w any
		for raw, to := range map[*json.RawMessage]*any{&a: &v, &b: &w} {
			d := json.NewDecoder(bytes.NewReader(*raw))
			d.UseNumber()
			if d.Decode(to) != nil {
				return false
			}
		}
		return v == w
	}
	return same(s.Min, t.Min) && same(s.Max, t.Max)
}

func parseBound(kind string, raw json.RawMessage) (any, bool) {
	var err error
	switch kind {
	case "bool":
		var b bool
		err = json.Unmarshal(raw, &b)
		return b, err == nil
	case "string":
		var s string
		err = json.Unmarshal(raw, &s)
		return s, err == nil
	case "float32", "float64":
		var f float64
		err = json.Unmarshal(raw, &f)
		return f, err == nil
	case "bytes":
		return nil, false
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		u, err := strconv.ParseUint(string(raw), 10, 64)
		return u, err == nil && kind == "uint64"
	}
	if kind == "timestamp" {
		return time.UnixMicro(n).UTC(), true
	}
	return n, true
}

func formatBound(v any) json.RawMessage {
	if t, ok := v.(time.Time); ok {
		v = t.UnixMicro()
	}
	if f, ok := v.(float64); ok {
		v = f + 0 // one zero
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return nil // infinite
	}
	return raw
}

// tracker gathers the statistics of a file's batches.
type tracker struct {
	paths []string
	cols  []tracked
}

type tracked struct {
	stat        Stat
	least, most any
	unknown     bool // bounds cannot be given
}

// track is a tracker for the columns of a schema that have statistics: scalars that no
// list is above of, and that neither are volatile nor part of what is.
func track(s Schema) *tracker {
	t := &tracker{}
	t.find("", s.Fields)
	t.cols = make([]tracked, len(t.paths))
	return t
}

func (t *tracker) find(path string, fields []Field) {
	for _, f := range fields {
		switch {
		case f.Volatile || f.Type == "list":
		case f.Type == "struct":
			t.find(path+f.Name+".", f.Fields)
		default:
			t.paths = append(t.paths, path+f.Name)
		}
	}
}

// add counts a batch in.
func (t *tracker) add(batch *array.Struct) {
	for c := range t.cols {
		col, get := &t.cols[c], leaf(batch, t.paths[c])
		for i := range batch.Len() {
			v := get(i)
			if v == nil {
				col.stat.Nulls++
			} else if !col.unknown {
				col.see(v)
			}
		}
	}
}

func (c *tracked) see(v any) {
	switch w := v.(type) {
	case []byte:
		c.unknown = true
		return
	case string:
		if len(w) > maxStat {
			c.unknown = true
			return
		}
	case float64:
		if math.IsNaN(w) || math.IsInf(w, 0) {
			c.unknown = true
			return
		}
	}
	if c.least == nil {
		c.least, c.most = kept(v), kept(v)
		return
	}
	if o, _ := compare(v, c.least); o < 0 {
		c.least = kept(v)
	}
	if o, _ := compare(v, c.most); o > 0 {
		c.most = kept(v)
	}
}

// kept is a value that outlives its batch.
func kept(v any) any {
	if s, ok := v.(string); ok {
		return strings.Clone(s)
	}
	return v
}

// stats is what was gathered, by path; columns of which nothing is known are left out.
func (t *tracker) stats() map[string]Stat {
	out := map[string]Stat{}
	for i, c := range t.cols {
		if !c.unknown && c.least != nil {
			c.stat.Min, c.stat.Max = formatBound(c.least), formatBound(c.most)
		}
		if c.stat.Nulls > 0 || c.stat.Min != nil {
			out[t.paths[i]] = c.stat
		}
	}
	return out
}

func fieldIndex(t arrow.DataType, name string) (int, bool) {
	return t.(*arrow.StructType).FieldIdx(name)
}

// scalarAt reads one value of a column as compare takes it: like value, but all floats
// are float64, and text is not copied.
func scalarAt(a arrow.Array) func(i int) any {
	return func(i int) any {
		if a.IsNull(i) {
			return nil
		}
		switch a := a.(type) {
		case *array.LargeString:
			return a.Value(i)
		case *array.LargeBinary:
			return a.Value(i)
		case *array.Uint64:
			if v := a.Value(i); v > math.MaxInt64 {
				return v
			}
			return int64(a.Value(i))
		case *array.Float32:
			return float64(a.Value(i))
		}
		v, _ := value(a, i)
		return v
	}
}
