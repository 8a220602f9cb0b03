package query

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"orchard/datasets"
	"orchard/datasets/arrowio"
)

// condition is one comparison, such as verdict.outcome=resolved. In a list it holds
// when it holds for any element; != is the opposite of =.
type condition struct {
	path []string
	op   string
	null bool           // the value is null
	test func(any) int  // compares a value that is not null with the condition's
	has  func(any) bool // of ~
	want any            // the value, when the reader can compare it as well
	flat bool           // no list is at the path or above
}

var conditionPattern = regexp.MustCompile(`^\s*([A-Za-z0-9_.-]+?)\s*(!=|<=|>=|=|<|>|~)\s*(.*?)\s*$`)

func parse(s arrowio.Schema, text string) (condition, error) {
	m := conditionPattern.FindStringSubmatch(text)
	if m == nil {
		return condition{}, fmt.Errorf("must look like column=value; the operators are = != < <= > >= and ~ (contains)")
	}
	if err := s.Check([]string{m[1]}); err != nil {
		return condition{}, err
	}
	c := condition{path: strings.Split(m[1], "."), op: m[2]}
	var field arrowio.Field
	field, c.flat = leaf(s.Fields, c.path)
	value := m[3]
	if value == "null" {
		c.null = true
		if c.op != "=" && c.op != "!=" {
			return c, fmt.Errorf("null can be compared by = and != only")
		}
		return c, nil
	}
	if strings.HasPrefix(value, `"`) {
		var err error
		if value, err = strconv.Unquote(value); err != nil {
			return c, fmt.Errorf("value %s is no quoted text", m[3])
		}
	}
	if c.op == "~" {
		if field.Type != "string" {
			return c, fmt.Errorf("%s is no text but %s, so it has nothing to contain", m[1], field.Type)
		}
		c.has = func(v any) bool { s, ok := v.(string); return ok && strings.Contains(s, value) }
		return c, nil
	}
	var err error
	c.test, c.want, err = comparison(field, value)
	return c, err
}

// option is the condition as the reader takes it, which skips what cannot match.
func (c condition) option() (datasets.Option, bool) {
	if !c.flat || !c.null && c.want == nil {
		return nil, false
	}
	op := c.op
	if op == "=" {
		op = "=="
	}
	return datasets.Where(strings.Join(c.path, "."), op, c.want), true
}

// leaf is the field of a path that Check has passed; of a list its element. flat says
// that there is one value a row.
func leaf(fields []arrowio.Field, path []string) (f arrowio.Field, flat bool) {
	f = fields[slices.IndexFunc(fields, func(f arrowio.Field) bool { return f.Name == path[0] })]
	flat = true
	for f.Type == "list" {
		f, flat = f.Fields[0], false
	}
	if len(path) > 1 {
		inner, single := leaf(f.Fields, path[1:])
		return inner, flat && single
	}
	return f, flat && f.Type != "struct"
}

// comparison makes a value of the column's type of value. want is that, or nil when only
// test can compare it.
func comparison(f arrowio.Field, value string) (test func(any) int, want any, err error) {
	bad := func(want string, err error) error {
		if errors.Is(err, strconv.ErrRange) {
			return fmt.Errorf("value %q is too large a number for %s", value, f.Type)
		}
		return fmt.Errorf("value %q is no %s", value, want)
	}
	switch f.Type {
	case "string":
		return func(v any) int { return strings.Compare(v.(string), value) }, value, nil
	case "bool":
		want, err := strconv.ParseBool(value)
		if err != nil {
			return nil, nil, fmt.Errorf("value %q is neither true nor false", value)
		}
		return func(v any) int { return number(v.(bool)) - number(want) }, want, nil
	case "uint64":
		want, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			return nil, nil, bad("number", err)
		}
		return func(v any) int { return cmp.Compare(v.(uint64), want) }, want, nil
	case "float32", "float64":
		want, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return nil, nil, bad("number", err)
		}
		if f.Type == "float32" { // the reader compares as float64, where 0.1 would not be 0.1
			return func(v any) int { return cmp.Compare(v.(float32), float32(want)) }, nil, nil
		}
		return func(v any) int { return cmp.Compare(v.(float64), want) }, want, nil
	case "timestamp":
		want, err := parseTime(value)
		if err != nil {
			return nil, nil, err
		}
		return func(v any) int { return v.(time.Time).Compare(want) }, want, nil
	case "bytes", "struct", "list":
		return nil, nil, fmt.Errorf("is of type %s, which can be compared with null only", f.Type)
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return nil, nil, bad("whole number", err)
	}
	return func(v any) int { return cmp.Compare(v.(int64), n) }, n, nil
}

func parseTime(s string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", time.DateTime, time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("value %q is no time; write 2026-01-31 or 2026-01-31T12:00:00Z", s)
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (c condition) holds(row arrowio.Object) bool {
	if c.op == "!=" {
		equal := c
		equal.op = "="
		return !equal.holds(row)
	}
	return c.any(Reach(row, c.path...))
}

func (c condition) any(v any) bool {
	if list, ok := v.([]any); ok {
		return slices.ContainsFunc(list, c.any)
	}
	switch {
	case v == nil || c.null:
		return v == nil && c.null
	case c.has != nil:
		return c.has(v)
	}
	n := c.test(v)
	switch c.op {
	case "<":
		return n < 0
	case "<=":
		return n <= 0
	case ">":
		return n > 0
	case ">=":
		return n >= 0
	}
	return n == 0
}
