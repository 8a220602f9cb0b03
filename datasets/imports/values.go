package imports

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// The coercions from what a column holds in the wild to what it means. Values are as
// encoding/json gives them with UseNumber; from Parquet also int64, float64 and
// time.Time. nil is an absent value everywhere.

// asText is a column that should be text. Numbers keep the digits they were written with.
func asText(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	case json.Number:
		return v.String(), nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	}
	return "", fmt.Errorf("must be text, not %s", kind(v))
}

// asList is a column of strings: a list, a JSON string that holds one, numpy's or
// Python's way of printing one ("['a' 'b']"), or, when plain is set, one plain string
// that is the only element.
func asList(v any, plain bool) ([]string, error) {
	switch v := v.(type) {
	case nil:
		return []string{}, nil
	case []any:
		out := make([]string, 0, len(v))
		for i, e := range v {
			s, ok := e.(string)
			if !ok {
				return nil, fmt.Errorf("element %d must be text, not %s", i, kind(e))
			}
			out = append(out, s)
		}
		return out, nil
	case string:
		t := strings.TrimSpace(v)
		if t == "" {
			return []string{}, nil
		}
		if strings.HasPrefix(t, "[") {
			var inner any
			if err := decode([]byte(t), &inner); err == nil {
				return asList(inner, false)
			}
			if out, err := reprList(t); err == nil {
				return out, nil
			} else if !plain {
				return nil, fmt.Errorf("%s is no list: %w", shown(t), err)
			}
		}
		if plain {
			return []string{v}, nil
		}
		return nil, fmt.Errorf("must be a list, or a JSON string that holds one, not %s", shown(t))
	}
	return nil, fmt.Errorf("must be a list, not %s", kind(v))
}

// reprList reads a list as Python or numpy prints it: quoted strings between brackets,
// separated by commas or white space.
func reprList(s string) ([]string, error) {
	out := []string{}
	rest := strings.TrimSpace(strings.TrimPrefix(s, "["))
	for {
		switch {
		case rest == "]":
			return out, nil
		case rest == "":
			return nil, fmt.Errorf("the closing ] is missing")
		case strings.HasPrefix(rest, "..."):
			return nil, fmt.Errorf("numpy left elements out (...) when it printed the list")
		case rest[0] != '\'' && rest[0] != '"':
			return nil, fmt.Errorf("expected a quoted string at %s", shown(rest))
		}
		e, tail, err := pyString(rest)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
		next := strings.TrimLeft(tail, " \t\r\n")
		if after, ok := strings.CutPrefix(next, ","); ok {
			next = strings.TrimLeft(after, " \t\r\n")
		} else if next == tail && next != "]" {
			return nil, fmt.Errorf("expected a comma or a space at %s", shown(next))
		}
		rest = next
	}
}

// pyString reads a Python string literal at the start of s. Python escapes by
// backslash and quotes with " when the string holds a '.
func pyString(s string) (value, rest string, err error) {
	quote := s[0]
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; c {
		case quote:
			return b.String(), s[i+1:], nil
		case '\\':
			r, _, tail, err := strconv.UnquoteChar(s[i:], quote)
			if err != nil {
				// Python leaves an escape that it does not know as it is; \' and \"
				// are valid under either quote.
				if i+1 < len(s) && (s[i+1] == '\'' || s[i+1] == '"') {
					b.WriteByte(s[i+1])
					i++
				} else {
					b.WriteByte(c)
				}
				continue
			}
			b.WriteRune(r)
			i = len(s) - len(tail) - 1
		default:
			b.WriteByte(c)
		}
	}
	return "", "", fmt.Errorf("the string %s is not closed", shown(s))
}

// asTime is a moment: ISO text with or without zone (then UTC), a date, or an epoch
// number of seconds, milliseconds, microseconds or nanoseconds, told apart by size.
func asTime(v any) (*time.Time, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case time.Time:
		return micro(v)
	case string:
		t := strings.TrimSpace(v)
		if t == "" {
			return nil, nil
		}
		for _, layout := range timeLayouts {
			if at, err := time.Parse(layout, t); err == nil {
				return micro(at)
			}
		}
		if n, err := strconv.ParseFloat(t, 64); err == nil {
			return epoch(n)
		}
		return nil, fmt.Errorf("%s is no time; write it as 2024-05-31T12:00:00Z or as epoch milliseconds", shown(t))
	case json.Number:
		n, err := v.Float64()
		if err != nil {
			return nil, fmt.Errorf("%s is no time", v)
		}
		return epoch(n)
	case int64:
		return epoch(float64(v))
	case float64:
		return epoch(v)
	}
	return nil, fmt.Errorf("must be a time, not %s", kind(v))
}

var timeLayouts = []string{
	time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999Z07:00",
	"2006-01-02 15:04:05.999999999 -0700 MST", "2006-01-02 15:04:05.999999999", "2006-01-02T15:04Z07:00", time.DateOnly,
}

func epoch(n float64) (*time.Time, error) {
	var us float64
	switch a := math.Abs(n); {
	case a < 1e11: // seconds until the year 5138
		us = n * 1e6
	case a < 1e14:
		us = n * 1e3
	case a < 1e17:
		us = n
	case a < 1e19:
		us = n / 1e3
	default:
		return nil, fmt.Errorf("%v is no epoch number", n)
	}
	return micro(time.UnixMicro(int64(math.Round(us))))
}

func micro(t time.Time) (*time.Time, error) {
	t = t.UTC().Truncate(time.Microsecond)
	if y := t.Year(); y < 1 || y > 9999 {
		return nil, fmt.Errorf("the year %d is out of range", y)
	}
	return &t, nil
}

// asObject is a column that holds an object or a JSON string of one.
func asObject(v any) (map[string]any, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case map[string]any:
		return v, nil
	case string:
		if strings.TrimSpace(v) == "" {
			return nil, nil
		}
		var o map[string]any
		if err := decode([]byte(v), &o); err != nil {
			return nil, fmt.Errorf("must be an object or its JSON, not %s", shown(v))
		}
		return o, nil
	}
	return nil, fmt.Errorf("must be an object, not %s", kind(v))
}

// asDuration is a number of units, or text such as "10m".
func asDuration(v any, unit time.Duration) (time.Duration, error) {
	s, err := asText(v)
	if err != nil || s == "" {
		return 0, err
	}
	d, err := time.ParseDuration(s)
	if n, nerr := strconv.ParseFloat(s, 64); nerr == nil {
		d, err = time.Duration(n*float64(unit)), nil
		if !(math.Abs(n*float64(unit)) < math.MaxInt64) {
			err = fmt.Errorf("too large")
		}
	}
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%s must be a number or text such as 10m", shown(s))
	}
	return d, nil
}

func kind(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "text"
	case bool:
		return "true or false"
	case json.Number, int64, float64:
		return "a number"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return fmt.Sprintf("%T", v)
}
