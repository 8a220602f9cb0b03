package rules

import (
	"errors"
	"fmt"
	"strings"

	"github.com/expr-lang/expr/vm"
)

// answer is one of three: a rule of a row that lacks what it asks for has none.
type answer int

const (
	no answer = iota
	yes
	dontKnow
)

// cond is a rule's expression, taken apart at &&, || and !, so that what is unknown about
// one side need not be so of the whole.
type cond struct {
	op   string // "&&", "||", "!"; "" for a leaf
	kids []*cond
	leaf *leaf
}

// leaf is an expression without &&, || and ! on top.
type leaf struct {
	program *vm.Program
	needs   []string   // columns that must be there, or the answer is unknown
	raw     [][]string // and paths into raw
	usesRaw bool
}

// ask is the answer for a row, and what was missing when it is dontKnow.
func (c *cond) ask(r *Row) (a answer, why error, err error) {
	switch c.op {
	case "":
		return c.leaf.ask(r)
	case "!":
		a, why, err = c.kids[0].ask(r)
		switch a {
		case yes:
			a = no
		case no:
			a = yes
		}
		return a, why, err
	}
	decides := no // one of these settles it
	if c.op == "||" {
		decides = yes
	}
	out := yes + no - decides
	for _, kid := range c.kids {
		a, w, err := kid.ask(r)
		switch {
		case err != nil:
			return a, nil, err
		case a == decides:
			return a, nil, nil
		case a == dontKnow && out != dontKnow:
			out, why = dontKnow, w
		}
	}
	return out, why, nil
}

func (l *leaf) ask(r *Row) (a answer, why error, err error) {
	if why, err = l.missing(r); why != nil || err != nil {
		return dontKnow, why, err
	}
	out, err := r.run(l.program)
	if why = asUnknown(err); why != nil {
		return dontKnow, why, nil
	}
	if err != nil {
		return dontKnow, nil, err
	}
	switch out {
	case true:
		return yes, nil, nil
	case false:
		return no, nil, nil
	}
	return dontKnow, nil, fmt.Errorf("%s is %s, neither true nor false", l.program.Source(), typeName(out))
}

// missing is what the row lacks of what the leaf needs, or nil.
func (l *leaf) missing(r *Row) (why, err error) {
	for _, name := range l.needs {
		if r.env.Absent(name) {
			return fmt.Errorf("%s is absent", name), nil
		}
	}
	if !l.usesRaw {
		return nil, nil
	}
	if err := r.decode(); err != nil {
		return nil, err
	}
	for _, path := range l.raw {
		at := make([]any, len(path))
		for i, p := range path {
			at[i] = p
		}
		if lookup(r.env.Raw, at) == nil {
			return fmt.Errorf("raw.%s is absent%s", strings.Join(path, "."), nearRaw(r.env.Raw, path)), nil
		}
	}
	return nil, nil
}

// asUnknown is why an error means that something is not known of the row, or nil.
func asUnknown(err error) error {
	var u unknown
	if errors.As(err, &u) {
		return u.error
	}
	return nil
}
