package pipeline

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"

	"github.com/expr-lang/expr"
)

// scope is what {{name}} stands for at one place of a workflow, by dotted name:
// "inputs.parameters.x", "workflow.name", "tasks.a.outputs.parameters.y", "item".
type scope map[string]string

// with is the scope plus more names; the receiver is left as it is.
func (s scope) with(more scope) scope {
	out := maps.Clone(s)
	maps.Copy(out, more)
	return out
}

// expand replaces every {{name}} and {{= expression}}; an unknown name is an error.
func (s scope) expand(text string) (string, error) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "{{")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		tag, after, found := strings.Cut(rest, "}}")
		if !found {
			return "", fmt.Errorf("%q: {{ without }}", text)
		}
		v, err := s.tag(strings.TrimSpace(tag))
		if err != nil {
			return "", err
		}
		b.WriteString(v)
		text = after
	}
}

func (s scope) tag(tag string) (string, error) {
	if code, ok := strings.CutPrefix(tag, "="); ok {
		v, err := s.eval(code)
		if err != nil {
			return "", err
		}
		if text, ok := v.(string); ok {
			return text, nil
		}
		raw, err := json.Marshal(v)
		return string(raw), err
	}
	if v, ok := s[tag]; ok {
		return v, nil
	}
	return "", fmt.Errorf("{{%s}} is not known here", tag)
}

// eval runs an expr-lang expression over the scope, where dotted names are nested
// maps of strings, as Argo's own evaluator has them.
func (s scope) eval(code string) (any, error) {
	env := map[string]any{"asInt": asInt, "asFloat": asFloat, "string": fmt.Sprint, "toJson": toJSON}
	for name, v := range s {
		nest(env, strings.Split(name, "."), v)
	}
	v, err := expr.Eval(code, env)
	if err != nil {
		return nil, fmt.Errorf("expression %s: %w", strings.TrimSpace(code), err)
	}
	return v, nil
}

// evalBool is eval for a condition.
func (s scope) evalBool(code string) (bool, error) {
	v, err := s.eval(code)
	if err != nil {
		return false, err
	}
	b, ok := v.(bool)
	if !ok {
		return false, fmt.Errorf("expression %s: gives %v, not true or false", strings.TrimSpace(code), v)
	}
	return b, nil
}

func nest(env map[string]any, path []string, v string) {
	for _, p := range path[:len(path)-1] {
		next, ok := env[p].(map[string]any)
		if !ok {
			next = map[string]any{}
			env[p] = next
		}
		env = next
	}
	last := path[len(path)-1]
	if _, taken := env[last].(map[string]any); !taken {
		env[last] = v
	}
}

// asInt fails on fractions, as Argo's does.
func asInt(v any) (int, error) {
	f, err := asFloat(v)
	if err != nil {
		return 0, err
	}
	if f != math.Trunc(f) {
		return 0, fmt.Errorf("asInt: %v is no integer", v)
	}
	return int(f), nil
}

func asFloat(v any) (float64, error) {
	return strconv.ParseFloat(strings.TrimSpace(fmt.Sprint(v)), 64)
}

func toJSON(v any) (string, error) {
	raw, err := json.Marshal(v)
	return string(raw), err
}

// items are the values that withItems or withParam run a task for, as text, plus the
// fields of values that are objects ({{item.name}}).
func (s scope) items(t *Task) ([]scope, error) {
	var raw []json.RawMessage
	switch {
	case t.WithParam != "":
		text, err := s.expand(t.WithParam)
		if err != nil {
			return nil, fmt.Errorf("withParam: %w", err)
		}
		if err := json.Unmarshal([]byte(text), &raw); err != nil {
			return nil, fmt.Errorf("withParam: %.100q is no JSON list: %w", text, err)
		}
	default:
		for _, item := range t.WithItems {
			if json.Valid([]byte(item)) {
				raw = append(raw, json.RawMessage(item))
			} else {
				quoted, _ := json.Marshal(string(item))
				raw = append(raw, quoted)
			}
		}
	}
	list := make([]scope, 0, len(raw))
	for _, r := range raw {
		var v Scalar
		_ = v.UnmarshalJSON(r) // never fails
		text, err := s.expand(string(v))
		if err != nil {
			return nil, err
		}
		one := scope{"item": text}
		var fields map[string]Scalar
		if json.Unmarshal([]byte(text), &fields) == nil {
			for k, f := range fields {
				one["item."+k] = string(f)
			}
		}
		list = append(list, one)
	}
	return list, nil
}
