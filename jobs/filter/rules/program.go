package rules

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/vm"

	"orchard/internal/exit"
	"orchard/internal/seal"
)

// Program is a rule file that can be run.
type Program struct {
	Name  string // of the rule file
	About string
	Steps []*Step
	// Sum is the hash of the rules and of what their sets hold, whatever the files are called
	// and however they are laid out.
	Sum     string
	SetSums map[string]string // of each set by its name

	machine vm.VM
}

// Step is one rule. A rule against evaluation sets has no expression: Decide is not for it.
type Step struct {
	Rule
	file     string
	keep     bool
	cond     *cond
	counters []*counter
	columns  []string
}

// Decision is what a rule says of a row.
type Decision struct {
	Drop    bool
	Unknown bool   // the rule did not know, and its `absent` decided
	Detail  string // of a drop, and of Unknown
}

// Load reads a rule file. name is for messages, given are files that stand in for sets.
func Load(name string, content []byte, given map[string][]string, beside, anywhere ReadFile) (*Program, error) {
	f, err := parse(name, content)
	if err != nil {
		return nil, err
	}
	sets, err := load(name, f.Sets, given, beside, anywhere)
	if err != nil {
		return nil, err
	}
	p := &Program{Name: name, About: f.About, SetSums: map[string]string{}}
	var errs []error
	for i := range f.Rules {
		s := &Step{Rule: f.Rules[i], file: name, keep: f.Rules[i].Keep != ""}
		if len(s.Contaminated) == 0 {
			c := &compiler{options: append(helpers(sets), expr.Env(env{})), sets: sets}
			if s.cond, err = c.compile(s.Keep + s.Drop); err != nil {
				errs = append(errs, s.bad(err))
			}
			s.counters, s.columns = c.counters, c.columns
		}
		p.Steps = append(p.Steps, s)
	}
	if len(errs) > 0 {
		return nil, exit.With(exit.Config, errors.Join(errs...))
	}
	for set, m := range sets {
		if p.SetSums[set], err = m.sum(); err != nil {
			return nil, err
		}
	}
	p.Sum, err = seal.Sum(struct {
		File File
		Sets map[string]string
	}{*f, p.SetSums})
	return p, err
}

// bad is what is wrong with a rule's expression, on one line but for the place in it.
func (s *Step) bad(err error) error {
	var e *file.Error
	if errors.As(err, &e) {
		return fmt.Errorf("%s:%d: rule %s: %s%s", s.file, s.line, s.Name, e.Message, e.Snippet)
	}
	return fmt.Errorf("%s:%d: rule %s: %w", s.file, s.line, s.Name, err)
}

// Counts reports whether the rule needs to have seen all rows that reach it.
func (s *Step) Counts() bool { return len(s.counters) > 0 }

// Uses reports whether an expression reads the column.
func (p *Program) Uses(column string) bool {
	return slices.ContainsFunc(p.Steps, func(s *Step) bool { return slices.Contains(s.columns, column) })
}

// Tally adds a row that reached the rule to its counts.
func (s *Step) Tally(r *Row) error {
	for _, k := range s.counters {
		key, why, err := k.key(r)
		if err != nil {
			return s.failed(r, err)
		}
		if why == nil {
			k.counts[key]++
		}
	}
	return nil
}

// key is what the row is counted under, or why that is not known.
func (k *counter) key(r *Row) (key string, why, err error) {
	if why, err = k.leaf.missing(r); why != nil || err != nil {
		return "", why, err
	}
	v, err := r.run(k.program)
	if why = asUnknown(err); why != nil {
		return "", why, nil
	}
	if err != nil {
		return "", nil, err
	}
	switch v := v.(type) {
	case string:
		return v, nil, nil
	case int, int64, bool:
		return fmt.Sprint(v), nil, nil
	case nil:
		return "", fmt.Errorf("the key of %s is absent", k.text), nil
	}
	return "", nil, fmt.Errorf("%s counts by %s; it needs text or a number", k.text, typeName(v))
}

// Decide is what the rule says of a row. Its error names the rule and the task.
func (s *Step) Decide(r *Row) (Decision, error) {
	r.env.Counts = r.env.Counts[:0]
	var counted []string
	for _, k := range s.counters {
		key, why, err := k.key(r)
		if err != nil {
			return Decision{}, s.failed(r, err)
		}
		n := int64(0)
		if why == nil { // else its leaf does not know either
			n = k.counts[key]
			counted = append(counted, fmt.Sprintf("%s = %d for %s", k.text, n, shown(key)))
		}
		r.env.Counts = append(r.env.Counts, n)
	}
	a, why, err := s.cond.ask(r)
	switch {
	case err != nil:
		return Decision{}, s.failed(r, err)
	case a == dontKnow && s.Absent == AbsentError:
		return Decision{}, exit.Configf("%s:%d: rule %s: task %s: %w; say in the rule what becomes of such rows (absent: keep or absent: drop), or ask has(…) first",
			s.file, s.line, s.Name, r.Task.TaskID, why)
	case a == dontKnow:
		return Decision{Drop: s.Absent == AbsentDrop, Unknown: true, Detail: why.Error()}, nil
	case (a == yes) == s.keep:
		return Decision{}, nil
	}
	return Decision{Drop: true, Detail: strings.Join(append(counted, s.values(r)...), ", ")}, nil
}

// failed is an error of a rule on a row.
func (s *Step) failed(r *Row, err error) error {
	var e *file.Error
	if errors.As(err, &e) {
		err = errors.New(e.Message + e.Snippet)
	}
	code := exit.Config
	if exit.Code(err) == exit.Input {
		code = exit.Input
	}
	return exit.With(code, fmt.Errorf("%s:%d: rule %s: task %s: %w", s.file, s.line, s.Name, r.Task.TaskID, err))
}
