package pipeline

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

var reference = regexp.MustCompile(`\{\{\s*(inputs|workflow|tasks)\.([A-Za-z0-9_.-]+)\s*\}\}`)

// Check finds, before anything runs, what would go wrong in pipeline name: templates
// and tasks that are not there, arguments that are missing or unknown, parameters
// and outputs that nobody declares, circles in a DAG.
func (l Library) Check(name string) error {
	w := l[name]
	if w == nil {
		return fmt.Errorf("no WorkflowTemplate %q", name)
	}
	c := checker{lib: l, root: w, seen: map[*Template]bool{}}
	c.visit(w, w.Spec.Entrypoint, nil, "entrypoint")
	if w.Spec.OnExit != "" {
		c.visit(w, w.Spec.OnExit, nil, "onExit")
	}
	return errors.Join(c.problems...)
}

type checker struct {
	lib      Library
	root     *Workflow
	seen     map[*Template]bool
	problems []error
}

func (c *checker) problem(format string, a ...any) {
	c.problems = append(c.problems, fmt.Errorf(format, a...))
}

func (c *checker) visit(w *Workflow, name string, ref *TemplateRef, from string) {
	w, t, err := c.lib.template(w, name, ref)
	if err != nil {
		c.problem("%s: %w", from, err)
		return
	}
	if c.seen[t] {
		return
	}
	c.seen[t] = true
	at := w.Metadata.Name + "/" + t.Name
	switch {
	case t.Container != nil && t.DAG == nil:
		for _, text := range append(slices.Clone(t.Container.Args), envValues(t)...) {
			c.references(at, t, text, nil)
		}
	case t.DAG != nil && t.Container == nil:
		c.dag(w, t, at)
	default:
		c.problem("%s: must have exactly one of container and dag", at)
	}
}

func envValues(t *Template) []string {
	var values []string
	for _, e := range t.Container.Env {
		values = append(values, e.Value)
	}
	return values
}

func (c *checker) dag(w *Workflow, t *Template, at string) {
	byName := map[string]*Task{}
	for i := range t.DAG.Tasks {
		k := &t.DAG.Tasks[i]
		if byName[k.Name] != nil {
			c.problem("%s: task %q is there twice", at, k.Name)
		}
		byName[k.Name] = k
	}
	for _, k := range byName {
		where := at + "/" + k.Name
		for _, up := range dependsOn(k) {
			if byName[up] == nil {
				c.problem("%s: depends on %q, which is no task here", where, up)
			}
		}
		if above(byName, k, k.Name, map[string]bool{}) {
			c.problem("%s: depends on itself", where)
		}
		c.arguments(w, k, where)
		texts := []string{k.When, k.WithParam}
		for _, p := range k.Arguments.Parameters {
			if p.Value != nil {
				texts = append(texts, string(*p.Value))
			}
		}
		for _, text := range texts {
			c.references(where, t, text, func(task, output string) { c.produced(w, byName, k, where, task, output) })
		}
		c.visit(w, k.Template, k.TemplateRef, where)
	}
}

// arguments compares a task's arguments with what its template declares.
func (c *checker) arguments(w *Workflow, k *Task, where string) {
	_, callee, err := c.lib.template(w, k.Template, k.TemplateRef)
	if err != nil {
		return // visit reports it
	}
	given := map[string]bool{}
	for _, p := range k.Arguments.Parameters {
		given[p.Name] = true
		if !slices.ContainsFunc(callee.Inputs.Parameters, func(in Parameter) bool { return in.Name == p.Name }) {
			c.problem("%s: template %s has no input %q", where, callee.Name, p.Name)
		}
	}
	for _, in := range callee.Inputs.Parameters {
		if in.Value == nil && in.Default == nil && !given[in.Name] {
			c.problem("%s: template %s needs the argument %q", where, callee.Name, in.Name)
		}
	}
}

// produced checks that tasks.X.outputs.parameters.Y exists and that the reader waits for X.
func (c *checker) produced(w *Workflow, byName map[string]*Task, reader *Task, where, name, output string) {
	up := byName[name]
	if up == nil {
		c.problem("%s: reads task %q, which is not there", where, name)
		return
	}
	if !above(byName, reader, name, map[string]bool{}) {
		c.problem("%s: reads an output of %q without depending on it", where, name)
	}
	if output == "" {
		return
	}
	_, callee, err := c.lib.template(w, up.Template, up.TemplateRef)
	if err == nil && !slices.ContainsFunc(callee.Outputs.Parameters, func(p Parameter) bool { return p.Name == output }) {
		c.problem("%s: template %s has no output %q", where, callee.Name, output)
	}
}

// above reports whether k waits for the task name, at once or through others.
func above(byName map[string]*Task, k *Task, name string, seen map[string]bool) bool {
	for _, up := range dependsOn(k) {
		if up == name {
			return true
		}
		if byName[up] != nil && !seen[up] {
			seen[up] = true
			if above(byName, byName[up], name, seen) {
				return true
			}
		}
	}
	return false
}

// references checks the {{inputs.…}} and {{workflow.parameters.…}} of text, and hands
// every {{tasks.X.outputs.parameters.Y}} to task (Y is "" for a status).
func (c *checker) references(where string, t *Template, text string, task func(name, output string)) {
	for _, m := range reference.FindAllStringSubmatch(text, -1) {
		root, rest := m[1], m[2]
		param, isParam := strings.CutPrefix(rest, "parameters.")
		switch {
		case root == "inputs" && isParam:
			if !slices.ContainsFunc(t.Inputs.Parameters, func(p Parameter) bool { return p.Name == param }) {
				c.problem("%s: %s: the template has no such input", where, m[0])
			}
		case root == "workflow" && isParam:
			if !slices.ContainsFunc(c.root.Spec.Arguments.Parameters, func(p Parameter) bool { return p.Name == param }) {
				c.problem("%s: %s: pipeline %s has no such parameter", where, m[0], c.root.Metadata.Name)
			}
		case root == "tasks" && task != nil:
			name, what, _ := strings.Cut(rest, ".")
			output, _ := strings.CutPrefix(what, "outputs.parameters.")
			if what == "status" {
				output = ""
			}
			task(name, output)
		case root == "tasks":
			c.problem("%s: %s: only a DAG's tasks can read that", where, m[0])
		}
	}
}
