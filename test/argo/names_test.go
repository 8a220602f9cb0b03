package argo

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	wfv1 "github.com/argoproj/argo-workflows/v3/pkg/apis/workflow/v1alpha1"
	"github.com/argoproj/argo-workflows/v3/util/expr/argoexpr"
	"github.com/argoproj/argo-workflows/v3/util/expr/env"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"
)

// retryNames are what a retry expression may speak of.
var retryNames = []string{"retries", "lastRetry.exitCode", "lastRetry.status", "lastRetry.duration", "lastRetry.message"}

// cronNames are what the conditions of a CronWorkflow may speak of.
var cronNames = []string{"cronworkflow.name", "cronworkflow.namespace", "cronworkflow.failed", "cronworkflow.succeeded", "cronworkflow.lastScheduledTime"}

var tag = regexp.MustCompile(`(?s)\{\{(.*?)\}\}`)

// references is every name that a text with {{tags}} speaks of. The error says what
// cannot be understood.
func references(text string) ([]string, error) {
	var names []string
	for _, m := range tag.FindAllStringSubmatch(text, -1) {
		inside := strings.TrimSpace(m[1])
		code, ok := strings.CutPrefix(inside, "=")
		if !ok {
			names = append(names, inside)
			continue
		}
		more, err := spoken(code)
		if err != nil {
			return names, err
		}
		names = append(names, more...)
	}
	if rest := tag.ReplaceAllString(text, ""); strings.Contains(rest, "{{") || strings.Contains(rest, "}}") {
		return names, fmt.Errorf("%q: a tag does not end or begin", text)
	}
	return names, nil
}

// spoken is the dotted names that an expression speaks of, functions among them: what
// is in every language that evaluates it is left out.
func spoken(code string) ([]string, error) {
	tree, err := parser.Parse(code)
	if err != nil {
		return nil, fmt.Errorf("expression %s: %w", strings.TrimSpace(code), err)
	}
	v := &speech{chains: map[ast.Node]string{}}
	ast.Walk(&tree.Node, v)
	var names []string
	for _, name := range v.chains {
		root, _, _ := strings.Cut(name, ".")
		if !slices.Contains(v.own, root) && !slices.Contains(shared, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// shared are the functions that both Argo and `orchard run` add to the language.
var shared = []string{"asInt", "asFloat", "toJson"}

// speech collects chains such as tasks['sft-export'].status, the longest only.
type speech struct {
	chains map[ast.Node]string
	own    []string // names that the expression itself declares
}

func (s *speech) Visit(n *ast.Node) {
	switch n := (*n).(type) {
	case *ast.IdentifierNode:
		s.chains[n] = n.Value
	case *ast.MemberNode:
		property, text := n.Property.(*ast.StringNode)
		if inner, ok := s.chains[n.Node]; ok && text {
			delete(s.chains, n.Node)
			s.chains[n] = inner + "." + property.Value
		}
	case *ast.ChainNode:
		if inner, ok := s.chains[n.Node]; ok {
			delete(s.chains, n.Node)
			s.chains[n] = inner
		}
	case *ast.VariableDeclaratorNode:
		s.own = append(s.own, n.Name)
	}
}

// compiles reports what is wrong with a condition over names: what Argo says of it, and
// names that are not known, which Argo takes for nil.
func compiles(code string, names []string) error {
	vars := map[string]any{}
	for _, name := range names {
		vars[name] = "0"
	}
	if _, err := argoexpr.EvalBool(code, env.GetFuncMap(vars)); err != nil {
		return err
	}
	said, err := spoken(code)
	if err != nil {
		return err
	}
	for _, name := range said {
		if !slices.Contains(names, name) {
			return fmt.Errorf("%s is not known there; known are %s and the functions %s", name, strings.Join(names, ", "), strings.Join(shared, ", "))
		}
	}
	return nil
}

// known is what the tags of a template may speak of. In its metrics it may also say how
// the step ended.
func (s *set) known(w *wfv1.WorkflowTemplate, t *wfv1.Template, metrics bool) []string {
	names := append([]string{"item"}, s.knownGlobals()...)
	for _, p := range t.Inputs.Parameters {
		names = append(names, "inputs.parameters."+p.Name)
	}
	if t.IsPodType() {
		names = append(append(names, "pod.name"), retryNames...)
	}
	if metrics {
		names = append(names, "status", "duration", "exitCode", "resourcesDuration.cpu", "resourcesDuration.memory")
		for _, p := range t.Outputs.Parameters {
			names = append(names, "outputs.parameters."+p.Name)
		}
	}
	if t.DAG == nil {
		return names
	}
	for _, k := range t.DAG.Tasks {
		names = append(names, "tasks."+k.Name+".status")
		if _, callee := s.callee(w, k); callee != nil {
			for _, p := range callee.Outputs.Parameters {
				names = append(names, "tasks."+k.Name+".outputs.parameters."+p.Name)
			}
		}
	}
	return names
}

// knownGlobals is what any place may speak of. Which pipeline has which parameter is
// seen when it is resolved.
func (s *set) knownGlobals() []string {
	names := []string{"workflow.status", "workflow.duration"}
	for _, name := range workflowNames {
		names = append(names, "workflow."+name)
	}
	for _, w := range s.pipelines() {
		for _, p := range w.Spec.Arguments.Parameters {
			names = append(names, "workflow.parameters."+p.Name)
		}
	}
	return names
}
