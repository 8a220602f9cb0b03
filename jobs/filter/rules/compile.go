package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/vm"

	"orchard/datasets/columns"
)

// counter is a count_by of a rule: how many rows that came as far as the rule have the
// same key.
type counter struct {
	leaf    leaf // its key
	program *vm.Program
	text    string // as written
	counts  map[string]int64
}

// compiler makes a rule's expression runnable.
type compiler struct {
	options  []expr.Option
	sets     map[string]members
	counters []*counter
	columns  []string // that the expression uses
}

// compile checks an expression as a whole and takes it apart.
func (c *compiler) compile(source string) (*cond, error) {
	tree, err := parser.Parse(source)
	if err != nil {
		return nil, err
	}
	if err := c.names(tree.Node); err != nil {
		return nil, err
	}
	if _, err := expr.Compile(source, append([]expr.Option{expr.AsBool()}, c.options...)...); err != nil {
		return nil, err
	}
	if len(c.columns) == 0 {
		return nil, fmt.Errorf("%s names no column of a task, so it says the same of every row; columns are %s, raw",
			source, strings.Join(columns.OfTasks(), ", "))
	}
	return c.split(tree.Node)
}

// names checks every name of an expression, and remembers the columns.
func (c *compiler) names(root ast.Node) error {
	var err error
	bad := func(format string, a ...any) {
		if err == nil {
			err = fmt.Errorf(format, a...)
		}
	}
	own := map[string]bool{}
	visit(root, func(n *ast.Node) {
		if v, ok := (*n).(*ast.VariableDeclaratorNode); ok {
			own[v.Name] = true
		}
	})
	known := append(columns.OfTasks(), "raw")
	callees := map[ast.Node]bool{}
	visit(root, func(n *ast.Node) {
		if call, ok := (*n).(*ast.CallNode); ok {
			c.call(call, bad)
			callees[call.Callee] = true
		}
	})
	visit(root, func(n *ast.Node) {
		switch n := (*n).(type) {
		case *ast.BuiltinNode:
			if n.Name == "now" {
				bad("now() is not there: a rule says the same of a row on every day; write a date, such as date(\"2025-01-31\")")
			}
		case *ast.IdentifierNode:
			switch {
			case own[n.Value] || callees[n]:
			case n.Value == "row": // as import and dedup call it
				bad("there is no column \"row\"; columns of the imported row are raw.NAME here")
			case !slices.Contains(known, n.Value):
				bad("there is no column %q%s", n.Value, didYouMean(n.Value, known))
			case !slices.Contains(c.columns, n.Value):
				c.columns = append(c.columns, n.Value)
			}
		}
	})
	return err
}

// call checks what only we know about a function.
func (c *compiler) call(n *ast.CallNode, bad func(string, ...any)) {
	callee, ok := n.Callee.(*ast.IdentifierNode)
	if !ok {
		return
	}
	switch name := callee.Value; {
	case !slices.Contains(functions, name):
		bad("there is no function %q%s", name, didYouMean(name, functions))
	case name == "in_set" && len(n.Arguments) == 2:
		set, ok := n.Arguments[0].(*ast.StringNode)
		names := slices.Sorted(maps.Keys(c.sets))
		if !ok {
			bad("in_set takes the name of a set in quotes first, such as in_set(\"sites\", start_url)")
		} else if _, ok := c.sets[set.Value]; !ok {
			bad("there is no set %q under sets:%s", set.Value, didYouMean(set.Value, names))
		}
	case name == "has" && len(n.Arguments) == 1:
		switch n.Arguments[0].(type) {
		case *ast.IdentifierNode, *ast.MemberNode, *ast.ChainNode:
		default:
			bad("has takes a column, such as has(created_at) or has(raw.meta.score)")
		}
	case name == countBy && len(n.Arguments) == 1:
		visit(n.Arguments[0], func(inner *ast.Node) {
			if call, ok := (*inner).(*ast.CallNode); ok && fmt.Sprint(call.Callee) == countBy {
				bad("count_by inside count_by")
			}
		})
	}
}

// split takes an expression apart at its logical operators.
func (c *compiler) split(n ast.Node) (*cond, error) {
	op, kids := "", []ast.Node{}
	switch n := n.(type) {
	case *ast.UnaryNode:
		if n.Operator == "!" || n.Operator == "not" {
			op, kids = "!", []ast.Node{n.Node}
		}
	case *ast.BinaryNode:
		switch n.Operator {
		case "&&", "and":
			op, kids = "&&", []ast.Node{n.Left, n.Right}
		case "||", "or":
			op, kids = "||", []ast.Node{n.Left, n.Right}
		}
	}
	if op == "" {
		l, err := c.leaf(n)
		return &cond{leaf: l}, err
	}
	out := &cond{op: op}
	for _, kid := range kids {
		k, err := c.split(kid)
		if err != nil {
			return nil, err
		}
		out.kids = append(out.kids, k)
	}
	return out, nil
}

// leaf rewrites an expression so that it can be run: paths into raw become calls that do
// not fail, count_by the count, and what may be absent is noted.
func (c *compiler) leaf(n ast.Node) (*leaf, error) {
	whole := ast.Node(&ast.SequenceNode{Nodes: []ast.Node{n}}) // so that n itself can be replaced
	visit(whole, rawPaths)
	guarded := guards(whole)
	l := needs(whole, guarded)
	var err error
	visit(whole, func(n *ast.Node) {
		call, ok := (*n).(*ast.CallNode)
		if !ok || fmt.Sprint(call.Callee) != countBy || err != nil {
			return
		}
		k := &counter{leaf: *needs(call.Arguments[0], guarded), text: call.String(), counts: map[string]int64{}}
		if k.program, err = expr.Compile(call.Arguments[0].String(), c.options...); err != nil {
			err = fmt.Errorf("count_by: %w", err)
		}
		ast.Patch(n, &ast.MemberNode{Node: &ast.IdentifierNode{Value: "counts_"}, Property: &ast.IntegerNode{Value: len(c.counters)}})
		c.counters = append(c.counters, k)
	})
	if err == nil {
		l.program, err = expr.Compile(whole.String(), c.options...)
	}
	return l, err
}
