package rules

import (
	"fmt"
	"reflect"
	"strings"

	"orchard/internal/wording"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
	"github.com/expr-lang/expr"
)

// unknown is why something cannot be known of a row: the answer is neither true nor false.
type unknown struct{ error }

// helpers is the functions that a rule may call beside those of expr-lang.
func helpers(sets map[string]members) []expr.Option {
	return []expr.Option{
		// A clock would make two runs differ.
		expr.DisableBuiltin("now"),
		expr.Function("host", onText(func(s string) (any, error) { return Host(s) }), new(func(string) string)),
		expr.Function("site", onText(func(s string) (any, error) { return Site(s) }), new(func(string) string)),
		expr.Function("words", onText(func(s string) (any, error) { return Words(s), nil }), new(func(string) int)),
		expr.Function("lines", onText(func(s string) (any, error) { n, _, err := changed(s); return n, err }), new(func(string) int)),
		expr.Function("files", onText(func(s string) (any, error) { _, f, err := changed(s); return f, err }), new(func(string) []string)),
		expr.Function("in_set", func(p ...any) (any, error) {
			value, ok := p[1].(string)
			if !ok {
				return nil, fmt.Errorf("in_set(%q, …) is asked of %s; sets hold text", p[0], typeName(p[1]))
			}
			return sets[p[0].(string)].contains(value)
		}, new(func(string, any) bool)),
		expr.Function("has", func(p ...any) (any, error) { return !empty(p[0]), nil }, new(func(any) bool)),
		// What the compiler puts in the place of raw.a.b, has(raw.a.b) and count_by(…).
		expr.Function(rawAt, func(p ...any) (any, error) { return lookup(p[0].(map[string]any), p[1:]), nil }),
		expr.Function(rawHas, func(p ...any) (any, error) { return lookup(p[0].(map[string]any), p[1:]) != nil, nil }),
		expr.Function(countBy, func(...any) (any, error) { return nil, fmt.Errorf("count_by is out of place") }, new(func(any) int64)),
	}
}

// functions is the names of helpers, for messages.
var functions = []string{"host", "site", "words", "lines", "files", "in_set", "has", countBy}

const (
	rawAt   = "raw_at_"
	rawHas  = "raw_has_"
	countBy = "count_by"
)

// onText is a function of one text; what it cannot make of it is unknown.
func onText(f func(string) (any, error)) func(...any) (any, error) {
	return func(p ...any) (any, error) {
		s, ok := p[0].(string)
		if !ok {
			return nil, fmt.Errorf("expected text, got %s", typeName(p[0]))
		}
		out, err := f(s)
		if err != nil {
			return nil, unknown{err}
		}
		return out, nil
	}
}

// Words is how many words a text has: runs of letters and digits of any script.
func Words(s string) int {
	return len(wording.Runs(s))
}

// changed is how many lines a patch adds and removes, and the files it changes by their
// new names.
func changed(patch string) (lines int, files []string, err error) {
	files = []string{}
	if strings.TrimSpace(patch) == "" {
		return 0, files, nil
	}
	parsed, _, err := gitdiff.Parse(strings.NewReader(patch))
	if err == nil && len(parsed) == 0 {
		err = fmt.Errorf("it changes no file")
	}
	if err != nil {
		return 0, nil, fmt.Errorf("the patch cannot be read: %w", err)
	}
	for _, f := range parsed {
		name := f.NewName
		if f.IsDelete || name == "" {
			name = f.OldName
		}
		files = append(files, name)
		for _, t := range f.TextFragments {
			lines += int(t.LinesAdded + t.LinesDeleted)
		}
	}
	return lines, files, nil
}

func empty(v any) bool {
	if v == nil {
		return true
	}
	if t, ok := v.(interface{ IsZero() bool }); ok {
		return t.IsZero()
	}
	r := reflect.ValueOf(v)
	if r.Kind() == reflect.Slice || r.Kind() == reflect.Map {
		return r.Len() == 0
	}
	return r.IsZero()
}

// typeName is a value's type as people call it.
func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "nothing (null)"
	case bool:
		return "true or false"
	case string:
		return "text"
	case int, int64, float64:
		return "a number"
	case []any, []string:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return fmt.Sprintf("%T", v)
}
