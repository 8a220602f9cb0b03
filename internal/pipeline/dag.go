package pipeline

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"orchard/internal/exit"
)

// task is a task of a DAG that has ended, with the name it had there.
type task struct {
	name string
	ended
}

// dag runs the tasks of t, each as soon as what it depends on has ended. With
// failFast (the default) nothing new starts after the first failure.
func (r *run) dag(ctx context.Context, c call, w *Workflow, t *Template, in scope) ended {
	r.event(Event{Node: c.node, Phase: Running})
	var (
		done     = make(chan task)
		phases   = map[string]Phase{}
		started  = map[string]bool{}
		running  int
		failFast = t.DAG.FailFast == nil || *t.DAG.FailFast
		failed   Phase // the first failure
		cut      Phase // of the DAG, once failFast or a stop kept a task from starting
		fault    error
		slots    chan struct{}
	)
	if t.Parallelism > 0 {
		slots = make(chan struct{}, t.Parallelism)
	}
	for {
		for i := range t.DAG.Tasks {
			k := &t.DAG.Tasks[i]
			if started[k.Name] || !allEnded(k, phases) {
				continue
			}
			start, err := ready(k, phases)
			if err != nil && fault == nil {
				fault = exit.Configf("%s: task %s: %w", c.node, k.Name, err)
			}
			started[k.Name] = true
			running++
			switch {
			case start && ctx.Err() != nil && cut == "":
				cut = r.unbegun(c.node + "/" + k.Name).phase
			case start && failFast && cut == "":
				cut = failed
			}
			if !start || fault != nil || cut != "" {
				go func() { done <- task{k.Name, ended{phase: Omitted}} }()
				continue
			}
			// The scope is copied before the task starts: later tasks add to the original.
			here := in.with(nil)
			go func() { done <- task{k.Name, r.task(ctx, c, w, k, here, slots)} }()
		}
		if running == 0 {
			break
		}
		e := <-done
		running--
		phases[e.name] = e.phase
		if failed == "" && e.phase.Bad() {
			failed = e.phase
		}
		if e.err != nil && fault == nil {
			fault = e.err
		}
		in = in.with(r.outputsOf(w, t, e))
	}
	out := ended{phase: cut, err: fault}
	if cut == "" {
		out.phase = dagPhase(t, phases)
	}
	if fault == nil && out.phase == Succeeded {
		out.outputs, out.err = groupOutputs(t, in)
	}
	if out.err != nil {
		out.phase = Error
	}
	r.event(Event{Node: c.node, Phase: out.phase})
	return out
}

func allEnded(k *Task, phases map[string]Phase) bool {
	for _, name := range dependsOn(k) {
		if _, ok := phases[name]; !ok {
			return false
		}
	}
	return true
}

// dagPhase is Succeeded unless a branch ends badly: a leaf that failed, or one that
// was omitted because of a failure above it.
func dagPhase(t *Template, phases map[string]Phase) Phase {
	byName, hasChild := map[string]*Task{}, map[string]bool{}
	for i := range t.DAG.Tasks {
		k := &t.DAG.Tasks[i]
		byName[k.Name] = k
		for _, up := range dependsOn(k) {
			hasChild[up] = true
		}
	}
	var branch func(name string) Phase
	branch = func(name string) Phase {
		if phases[name] != Omitted {
			return phases[name]
		}
		for _, up := range dependsOn(byName[name]) {
			if p := branch(up); p.Bad() {
				return p
			}
		}
		return Omitted
	}
	targets := strings.Fields(t.DAG.Target)
	for name := range byName {
		if t.DAG.Target == "" && !hasChild[name] {
			targets = append(targets, name)
		}
	}
	worst := Succeeded
	for _, name := range targets {
		switch branch(name) {
		case Error:
			return Error
		case Failed:
			worst = Failed
		}
	}
	return worst
}

// task runs one task: once, or once for each item.
func (r *run) task(ctx context.Context, c call, w *Workflow, k *Task, in scope, slots chan struct{}) ended {
	node := c.node + "/" + k.Name
	fan := k.WithParam != "" || k.WithItems != nil
	if !fan {
		return r.one(ctx, c, w, k, node, in, slots)
	}
	items, err := in.items(k)
	if err != nil {
		return ended{phase: Error, err: exit.Configf("%s: %w", node, err)}
	}
	if len(items) == 0 {
		r.event(Event{Node: node, Phase: Skipped})
		return ended{phase: Skipped}
	}
	r.event(Event{Node: node, Phase: Running})
	results := make(chan ended)
	for i, item := range items {
		go func() {
			results <- r.one(ctx, c, w, k, node+"("+strconv.Itoa(i)+")", in.with(item), slots)
		}()
	}
	all := ended{phase: Succeeded}
	for range items {
		e := <-results
		if e.err != nil && all.err == nil {
			all.err = e.err
		}
		if e.phase.Bad() && all.phase != Error {
			all.phase = e.phase
		}
	}
	r.event(Event{Node: node, Phase: all.phase})
	return all
}

func (r *run) one(ctx context.Context, c call, w *Workflow, k *Task, node string, in scope, slots chan struct{}) ended {
	yes, err := in.when(k.When)
	if err != nil {
		return ended{phase: Error, err: exit.Configf("%s: %w", node, err)}
	}
	if !yes {
		r.event(Event{Node: node, Phase: Skipped})
		return ended{phase: Skipped}
	}
	args := scope{}
	for _, p := range k.Arguments.Parameters {
		if p.Value == nil {
			return ended{phase: Error, err: exit.Configf("%s: argument %q has no value", node, p.Name)}
		}
		if args[p.Name], err = in.expand(string(*p.Value)); err != nil {
			return ended{phase: Error, err: exit.Configf("%s: argument %q: %w", node, p.Name, err)}
		}
	}
	if slots != nil {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		case <-ctx.Done():
			return r.unbegun(node)
		}
	}
	return r.template(ctx, call{node: node, workflow: w, name: k.Template, ref: k.TemplateRef, args: args, depth: c.depth + 1})
}

// outputsOf is what later tasks may say of a task that ended: its status and outputs,
// or the defaults of the outputs when it did not run.
func (r *run) outputsOf(w *Workflow, t *Template, e task) scope {
	at := "tasks." + e.name + "."
	s := scope{at + "status": string(e.phase)}
	for name, v := range e.outputs {
		s[at+"outputs.parameters."+name] = v
	}
	if e.outputs != nil {
		return s
	}
	for i := range t.DAG.Tasks {
		if k := &t.DAG.Tasks[i]; k.Name == e.name {
			_, callee, err := r.lib.template(w, k.Template, k.TemplateRef)
			if err != nil {
				continue // the task itself reported it
			}
			for _, p := range callee.Outputs.Parameters {
				if p.ValueFrom != nil && p.ValueFrom.Default != nil {
					s[at+"outputs.parameters."+p.Name] = string(*p.ValueFrom.Default)
				}
			}
		}
	}
	return s
}

// groupOutputs are a DAG's output parameters, taken from its tasks' outputs.
func groupOutputs(t *Template, in scope) (map[string]string, error) {
	out := map[string]string{}
	for _, p := range t.Outputs.Parameters {
		switch from := p.ValueFrom; {
		case from == nil:
			return nil, fmt.Errorf("template %s: output %q has no valueFrom", t.Name, p.Name)
		case from.Parameter != "":
			v, err := in.expand(from.Parameter)
			if err != nil && from.Default == nil {
				return nil, fmt.Errorf("template %s: output %q: %w", t.Name, p.Name, err)
			}
			if err != nil {
				v = string(*from.Default)
			}
			out[p.Name] = v
		case from.Expression != "":
			v, err := in.tag("=" + from.Expression)
			if err != nil {
				return nil, fmt.Errorf("template %s: output %q: %w", t.Name, p.Name, err)
			}
			out[p.Name] = v
		default:
			return nil, fmt.Errorf("template %s: output %q: a DAG's output comes from a parameter or an expression", t.Name, p.Name)
		}
	}
	return out, nil
}
