package rules

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/expr-lang/expr/vm"

	"orchard/datasets/columns"
	"orchard/datasets/record"
	"orchard/internal/exit"
)

// env is the names of an expression.
type env struct {
	columns.Columns
	Raw    map[string]any `expr:"raw"`     // the source's row
	Counts []int64        `expr:"counts_"` // of the rule's count_by, in their order
}

// Row is a task as rules see it.
type Row struct {
	Task    *record.Task
	env     env
	decoded bool
	machine *vm.VM
}

// Row is a task for this program's rules. Its patches must be whole, not shortened.
func (p *Program) Row(t *record.Task) *Row {
	return &Row{Task: t, env: env{Columns: columns.Task(t)}, machine: &p.machine}
}

func (r *Row) run(p *vm.Program) (any, error) { return r.machine.Run(p, r.env) }

// decode makes the source's row readable. A task that came without one has an empty one.
func (r *Row) decode() error {
	if r.decoded {
		return nil
	}
	r.decoded, r.env.Raw = true, map[string]any{}
	if r.Task.Raw == "" {
		return nil
	}
	v, err := decodeJSON(r.Task.Raw)
	if err != nil {
		return exit.Inputf("raw is no JSON object: %w", err)
	}
	object, ok := v.(map[string]any)
	if !ok {
		return exit.Inputf("raw is %s, not a JSON object", typeName(v))
	}
	r.env.Raw = object
	return nil
}

func decodeJSON(s string) (any, error) {
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("something follows the JSON value")
	}
	return columns.Numbers(v), nil
}

// lookup is the value at a path of an object, nil when it ends before. Published sets hold
// the same struct once as an object and once as a JSON string of it: both are followed.
func lookup(object map[string]any, path []any) any {
	var v any = object
	for _, key := range path {
		if s, ok := v.(string); ok {
			v, _ = decodeJSON(s) // no JSON: there is nothing below it
		}
		o, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = o[key.(string)]
	}
	return v
}

// nearRaw names what the row has instead of a path.
func nearRaw(object map[string]any, path []string) string {
	for i, key := range path {
		at := make([]any, i)
		for j := range at {
			at[j] = path[j]
		}
		o, ok := lookup(object, at).(map[string]any)
		if !ok {
			return ""
		}
		if _, there := o[key]; there {
			continue
		}
		prefix := strings.Join(append([]string{"raw"}, path[:i]...), ".") + "."
		near := nearest(key, slices.Sorted(maps.Keys(o)))
		if len(near) == 0 {
			return ""
		}
		for j := range near {
			near[j] = prefix + near[j]
		}
		return "; nearest are " + strings.Join(near, ", ")
	}
	return ""
}
