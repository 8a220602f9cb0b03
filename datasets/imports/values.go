package imports

import (
	"encoding/base64"
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

// rawBytes is the one member of an object that stands for bytes in a raw row.
const rawBytes = "$base64"

// asText is a column that should be text. Numbers keep the digits they were written with.
func asText(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	case []byte: // of a column of bytes that are not all text
		return string(v), nil
	case json.Number:
		return v.String(), nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case float64:
		if math.IsNaN(v) { // how pandas writes an absent value
			return "", nil
		}
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	case time.Time:
		return v.UTC().Format(time.RFC3339Nano), nil
	case map[string]any: // bytes in a raw row
		if s, ok := v[rawBytes].(string); ok && len(v) == 1 {
			b, err := base64.StdEncoding.DecodeString(s)
			return string(b), err
		}
	}
	return "", fmt.Errorf("must be text, not %s", kind(v))
}

// asList is a column of strings: a list, a JSON string that holds one, numpy's or
// Python's way of printing one ("['a' 'b']"), or, when plain is set, one plain string
// that is the only element.
func asList(v any, plain bool) ([]string, error) {
	if f, ok := v.(float64); ok && math.IsNaN(f) {
		v = nil
	}
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
		if t[0] == '[' || t[0] == '(' || strings.HasPrefix(t, "array(") {
			var inner any
			if err := decode([]byte(t), &inner); err == nil {
				return asList(inner, false)
			}
			inner, err := literal(t)
			if l, ok := inner.([]any); ok && err == nil {
				return asList(l, false)
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
		if t == "" || t == "NaT" {
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
		if math.IsNaN(v) {
			return nil, nil
		}
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

// asObject is a column that holds an object, or one as JSON or Python prints it.
func asObject(v any) (map[string]any, error) {
	if f, ok := v.(float64); ok && math.IsNaN(f) {
		return nil, nil
	}
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
		if err := decode([]byte(v), &o); err == nil {
			return o, nil
		}
		l, err := literal(v)
		if o, ok := l.(map[string]any); ok && err == nil {
			return o, nil
		}
		return nil, fmt.Errorf("must be an object or its JSON, not %s", shown(v))
	}
	return nil, fmt.Errorf("must be an object, not %s", kind(v))
}

// asItems is a column that holds a list of anything, or one as JSON or Python prints it.
func asItems(v any) ([]any, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case []any:
		return v, nil
	case float64:
		if math.IsNaN(v) {
			return nil, nil
		}
	case string:
		if strings.TrimSpace(v) == "" {
			return nil, nil
		}
		var l []any
		if err := decode([]byte(v), &l); err == nil {
			return l, nil
		}
		p, err := literal(v)
		if l, ok := p.([]any); ok && err == nil {
			return l, nil
		}
		return nil, fmt.Errorf("must be a list or its JSON, not %s", shown(v))
	}
	return nil, fmt.Errorf("must be a list, not %s", kind(v))
}

// asOutcome is whether a rollout solved its task: true and false, 1 and 0 in any type;
// nil when it is not known, which null, "" and -1 say.
func asOutcome(v any) (*bool, error) {
	if b, ok := v.(bool); ok {
		return &b, nil
	}
	s, err := asText(v)
	if err != nil {
		return nil, err
	}
	yes, no := true, false
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "", "-1", "-1.0", "none", "null", "nan":
		return nil, nil
	case "1", "1.0", "true":
		return &yes, nil
	case "0", "0.0", "false":
		return &no, nil
	}
	return nil, fmt.Errorf("%s must be 1, 0, or -1 for not known", shown(s))
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
	case []byte:
		return "bytes"
	case time.Time:
		return "a time"
	}
	return fmt.Sprintf("%T", v)
}
