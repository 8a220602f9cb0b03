package arrowio

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow/go/v17/arrow/array"
)

// Predicate is a condition on one column: a dotted path to a scalar that no list is
// above of. A nil Value stands for null, which equals itself only and is neither less
// nor more than anything; so Op "!=" holds for null unless Value is nil.
type Predicate struct {
	Column string
	Op     string // ==, !=, <, <=, >, >=
	Value  any    // bool, any integer or float, string, []byte, time.Time or nil

	kind string // of the column, a Field.Type
}

var operators = map[string]func(order int) bool{
	"==": func(o int) bool { return o == 0 },
	"!=": func(o int) bool { return o != 0 },
	"<":  func(o int) bool { return o < 0 },
	"<=": func(o int) bool { return o <= 0 },
	">":  func(o int) bool { return o > 0 },
	">=": func(o int) bool { return o >= 0 },
}

// Resolve compares a predicate with a schema and makes its value one of the column's
// type.
func (p Predicate) Resolve(s Schema) (Predicate, error) {
	if _, ok := operators[p.Op]; !ok {
		return p, fmt.Errorf("filter on %s: operator %q; there is == != < <= > >=", p.Column, p.Op)
	}
	if err := s.Check([]string{p.Column}); err != nil {
		return p, fmt.Errorf("filter: %w", err)
	}
	fields := s.Fields
	var f Field
	for name := range strings.SplitSeq(p.Column, ".") {
		if f.Type == "list" {
			break
		}
		f = fields[slices.IndexFunc(fields, func(f Field) bool { return f.Name == name })]
		fields = f.Fields
	}
	if f.Type == "list" || f.Type == "struct" {
		return p, fmt.Errorf("filter on %s: it is a %s or in one; only single values are compared", p.Column, f.Type)
	}
	p.kind = f.Type
	if p.Value == nil {
		if p.Op != "==" && p.Op != "!=" {
			return p, fmt.Errorf("filter on %s: null is only compared by == and !=", p.Column)
		}
		return p, nil
	}
	v, ok := coerce(f.Type, p.Value)
	if !ok {
		return p, fmt.Errorf("filter on %s: %v (%T) is no %s", p.Column, p.Value, p.Value, f.Type)
	}
	p.Value = v
	return p, nil
}

// coerce is a Go value as the one that value gives for a column of a type.
func coerce(typ string, v any) (any, bool) {
	if t, ok := v.(time.Time); ok {
		return t.Truncate(time.Microsecond).UTC(), typ == "timestamp"
	}
	r := reflect.ValueOf(v)
	switch {
	case typ == "bool":
		return r.Kind() == reflect.Bool && r.Bool(), r.Kind() == reflect.Bool
	case typ == "string" && r.Kind() == reflect.String:
		return r.String(), true
	case typ == "bytes" && r.Kind() == reflect.Slice && r.Type().Elem().Kind() == reflect.Uint8:
		return r.Bytes(), true
	case typ == "float32" || typ == "float64":
		switch {
		case r.CanFloat():
			return r.Float(), true
		case r.CanInt() && r.Int() == int64(float64(r.Int())):
			return float64(r.Int()), true
		}
	case strings.HasPrefix(typ, "int") || strings.HasPrefix(typ, "uint"):
		switch {
		case r.CanInt():
			return r.Int(), true
		case r.CanUint() && r.Uint() <= math.MaxInt64:
			return int64(r.Uint()), true
		case r.CanUint():
			return r.Uint(), true
		}
	}
	return nil, false
}

// compare orders two values of one column; ok is false when one is NaN, which is not
// equal, less or more.
func compare(a, b any) (order int, ok bool) {
	switch a := a.(type) {
	case bool:
		return cmp.Compare(b2i(a), b2i(b.(bool))), true
	case string:
		return strings.Compare(a, b.(string)), true
	case []byte:
		return bytes.Compare(a, b.([]byte)), true
	case time.Time:
		return a.Compare(b.(time.Time)), true
	case float64:
		b := b.(float64)
		return cmp.Compare(a, b), a == a && b == b
	case uint64: // beyond int64
		if b, ok := b.(uint64); ok {
			return cmp.Compare(a, b), true
		}
		return 1, true
	case int64:
		if b, ok := b.(int64); ok {
			return cmp.Compare(a, b), true
		}
		return -1, true
	}
	return 0, false
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// holds says whether a value, nil for null, passes.
func (p Predicate) holds(v any) bool {
	if v == nil || p.Value == nil {
		return (v == nil && p.Value == nil) == (p.Op == "==") && (p.Op == "==" || p.Op == "!=")
	}
	order, ok := compare(v, p.Value)
	if !ok {
		return p.Op == "!="
	}
	return operators[p.Op](order)
}

// May says whether a row of a file with these statistics can pass. What they do not
// know, may.
func (p Predicate) May(s Stat, rows int64) bool {
	if p.Value == nil {
		if p.Op == "==" {
			return s.Nulls > 0
		}
		return s.Nulls < rows
	}
	if p.Op == "!=" {
		if s.Nulls > 0 || s.Min == nil {
			return true
		}
	}
	if s.Nulls == rows {
		return false
	}
	least, most, ok := s.bounds(p.kind)
	if !ok {
		return true
	}
	low, ok1 := compare(least, p.Value)
	high, ok2 := compare(most, p.Value)
	if !ok1 || !ok2 {
		return p.Op == "!=" // the value is NaN
	}
	switch p.Op {
	case "==":
		return low <= 0 && high >= 0
	case "!=":
		return low != 0 || high != 0
	case "<":
		return low < 0
	case "<=":
		return low <= 0
	case ">":
		return high > 0
	}
	return high >= 0
}

// leaf is the column at a path of a batch; a struct above it that is null makes it null.
// nil when the file lacks the column, which then is null in all rows.
func leaf(batch *array.Struct, path string) func(i int) any {
	var above []*array.Struct
	s := batch
	for {
		name, rest, deeper := strings.Cut(path, ".")
		t := s.DataType()
		j, ok := fieldIndex(t, name)
		if !ok {
			return func(int) any { return nil }
		}
		if deeper {
			s, path = s.Field(j).(*array.Struct), rest
			above = append(above, s)
			continue
		}
		get := scalarAt(s.Field(j))
		return func(i int) any {
			for _, a := range above {
				if a.IsNull(i) {
					return nil
				}
			}
			return get(i)
		}
	}
}
