package rules

import (
	"fmt"
	"slices"

	"github.com/expr-lang/expr/ast"

	"orchard/datasets/columns"
)

type visitor func(*ast.Node)

func (v visitor) Visit(n *ast.Node) { v(n) }

// visit calls f on every node, the parts of a node before itself.
func visit(n ast.Node, f func(*ast.Node)) { ast.Walk(&n, visitor(f)) }

func call(name string, args ...ast.Node) *ast.CallNode {
	return &ast.CallNode{Callee: &ast.IdentifierNode{Value: name}, Arguments: args}
}

// calls is n as a call of the function, or nil.
func calls(n ast.Node, name string) *ast.CallNode {
	c, ok := n.(*ast.CallNode)
	if !ok || fmt.Sprint(c.Callee) != name {
		return nil
	}
	return c
}

// rawPaths turns raw.a.b, however it is written, into raw_at_(raw, "a", "b").
func rawPaths(n *ast.Node) {
	if chain, ok := (*n).(*ast.ChainNode); ok && calls(chain.Node, rawAt) != nil {
		*n = chain.Node
		return
	}
	m, ok := (*n).(*ast.MemberNode)
	if !ok {
		return
	}
	key, ok := m.Property.(*ast.StringNode)
	if !ok {
		return
	}
	if id, ok := m.Node.(*ast.IdentifierNode); ok && id.Value == "raw" {
		ast.Patch(n, call(rawAt, id, key))
	} else if c := calls(m.Node, rawAt); c != nil {
		ast.Patch(n, call(rawAt, append(slices.Clone(c.Arguments), key)...))
	}
}

// guards is the nodes that may be absent without harm: what has(…) asks about, and what
// has an alternative after ??. It makes both work on columns, which are never nil.
func guards(root ast.Node) map[ast.Node]bool {
	guarded := map[ast.Node]bool{}
	guard := func(n ast.Node) { visit(n, func(n *ast.Node) { guarded[*n] = true }) }
	visit(root, func(n *ast.Node) {
		if c := calls(*n, "has"); c != nil && len(c.Arguments) == 1 {
			guard(c.Arguments[0])
			if path := calls(c.Arguments[0], rawAt); path != nil {
				ast.Patch(n, call(rawHas, path.Arguments...))
			}
			return
		}
		b, ok := (*n).(*ast.BinaryNode)
		if !ok || b.Operator != "??" {
			return
		}
		guard(b.Left)
		if id, ok := b.Left.(*ast.IdentifierNode); ok && columns.MayBeAbsent(id.Value) {
			ast.Patch(n, &ast.ConditionalNode{Ternary: true, Cond: call("has", id), Exp1: id, Exp2: b.Right})
		}
	})
	return guarded
}

// needs is a leaf with what must be there for it.
func needs(root ast.Node, guarded map[ast.Node]bool) *leaf {
	l := &leaf{}
	visit(root, func(n *ast.Node) {
		if id, ok := (*n).(*ast.IdentifierNode); ok {
			l.usesRaw = l.usesRaw || id.Value == "raw"
			if columns.MayBeAbsent(id.Value) && !guarded[id] && !slices.Contains(l.needs, id.Value) {
				l.needs = append(l.needs, id.Value)
			}
		}
		c := calls(*n, rawAt)
		if c == nil || guarded[c] {
			return
		}
		var path []string
		for _, a := range c.Arguments[1:] {
			path = append(path, a.(*ast.StringNode).Value)
		}
		l.raw = append(l.raw, path)
	})
	return l
}
