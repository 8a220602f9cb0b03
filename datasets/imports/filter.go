package imports

import (
	"fmt"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/vm"

	"orchard/datasets/columns"
	"orchard/internal/exit"
)

// Filter is an expression over a task or rollout that says whether to keep it, such as
//
//	language == "go" && len(fail_to_pass) > 0
//
// The names are those of the fields of columns.Columns, empty for what the row does not have;
// row has every column of the file.
// The zero value keeps all. Safe for concurrent use.
type Filter struct{ program *vm.Program }

// visible is what a filter sees of a row.
type visible struct {
	columns.Columns
	Row map[string]any `expr:"row"` // every column of the file
}

// NewFilter compiles an expression; "" keeps all. A bad one is an error marked
// exit.Config that shows where it is bad.
func NewFilter(s string) (Filter, error) {
	if s == "" {
		return Filter{}, nil
	}
	p, err := expr.Compile(s, expr.Env(visible{}), expr.AsBool())
	if err != nil {
		return Filter{}, exit.Configf("--filter: %w", err)
	}
	return Filter{p}, nil
}

// Keep says whether the filter keeps a row.
func (f Filter) Keep(p Parsed) (bool, error) {
	if f.program == nil {
		return true, nil
	}
	out, err := expr.Run(f.program, see(p))
	if err != nil {
		return false, exit.With(exit.Config, fmt.Errorf("--filter: %s: %s: %w", p.Place, p.Name(), err))
	}
	return out.(bool), nil
}

// see is what a filter sees of a row.
func see(p Parsed) visible {
	row := columns.Numbers(p.Row).(map[string]any)
	if p.Rollout != nil {
		return visible{columns.Rollout(p.Rollout), row}
	}
	return visible{columns.Task(&p.Task), row}
}
