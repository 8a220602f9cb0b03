package argo

import (
	"encoding/json"
	"fmt"
	"strings"

	wfv1 "github.com/argoproj/argo-workflows/v3/pkg/apis/workflow/v1alpha1"
	"github.com/argoproj/argo-workflows/v3/util/template"
	"github.com/argoproj/argo-workflows/v3/workflow/common"
)

// What the names of a run stand for in these tests, here and in `orchard run` alike.
const (
	runName     = "a-run-x7k2p"
	runDuration = "0.000000"
	someItem    = "1/2"
)

// call is one use of a leaf template by a pipeline, with everything filled in by Argo's
// own substitution.
type call struct {
	at       string // such as swe-sft/distill/run
	pipeline *wfv1.WorkflowTemplate
	when     bool // it, or what calls it, has a condition
	raw      *wfv1.Template
	leaf     *wfv1.Template
}

// awkward is what somebody may write into a parameter that is empty by itself.
const awkward = "a == \"b\" && c != 'd\\e' é\n$(f) %s {g}"

// sample is a parameter's own value, or some value.
func sample(p wfv1.Parameter) string {
	switch {
	case p.Value != nil && p.Value.String() == "":
		return awkward
	case p.Value != nil:
		return p.Value.String()
	case p.Default != nil:
		return p.Default.String()
	case len(p.Enum) > 0:
		return p.Enum[0].String()
	}
	return "sample-" + p.Name
}

// sampleOutput is what a step is taken to have written for an output.
func sampleOutput(p wfv1.Parameter) string {
	if p.ValueFrom != nil && p.ValueFrom.Default != nil && strings.HasPrefix(p.ValueFrom.Default.String(), "[") {
		return `["` + someItem + `"]`
	}
	return "sample-" + p.Name
}

// mostCalls is how deep templates may call each other here: some rounds of a recursion.
const mostCalls = 20

// resolver follows a pipeline from its entrypoint down to its leaves.
type resolver struct {
	*set
	pipeline *wfv1.WorkflowTemplate
	globals  common.Parameters
	seen     map[string]bool // "workflow/template"
	calls    []call
	problems []string
}

// calls is every leaf as every pipeline calls it; templates that no pipeline calls are
// called with their defaults.
func (s *set) calls() ([]call, []string) {
	var all resolver
	seen, every := map[string]bool{}, common.Parameters{}
	for _, w := range s.pipelines() {
		r := resolver{set: s, pipeline: w, globals: globals(w), seen: seen}
		r.visit(w.Name, w, w.GetTemplateByName(w.Spec.Entrypoint), wfv1.Arguments{}, nil, false)
		if w.Spec.OnExit != "" {
			r.globals["workflow.status"], r.globals["workflow.duration"] = "Succeeded", runDuration
			r.visit(w.Name+".onExit", w, w.GetTemplateByName(w.Spec.OnExit), wfv1.Arguments{}, nil, false)
		}
		every = every.Merge(r.globals)
		all.calls, all.problems = append(all.calls, r.calls...), append(all.problems, r.problems...)
	}
	s.each(func(at string, w *wfv1.WorkflowTemplate, t *wfv1.Template) {
		if seen[at] {
			return
		}
		r := resolver{set: s, pipeline: &wfv1.WorkflowTemplate{}, globals: every, seen: seen}
		var args wfv1.Arguments
		for _, p := range t.Inputs.Parameters {
			args.Parameters = append(args.Parameters, wfv1.Parameter{Name: p.Name, Value: wfv1.AnyStringPtr(sample(p))})
		}
		r.visit(at, w, t, args, nil, false)
		all.calls, all.problems = append(all.calls, r.calls...), append(all.problems, r.problems...)
	})
	return all.calls, all.problems
}

// globals is what {{workflow.…}} stands for in a run of w.
func globals(w *wfv1.WorkflowTemplate) common.Parameters {
	g := common.Parameters{}
	for _, name := range workflowNames {
		g["workflow."+name] = "sample-" + name
	}
	g["workflow.name"] = runName
	for _, p := range w.Spec.Arguments.Parameters {
		g["workflow.parameters."+p.Name] = sample(p)
	}
	return g
}

// workflowNames are Argo's own names below {{workflow.…}}; status and duration are only
// known when a run has ended.
var workflowNames = []string{"name", "namespace", "uid", "creationTimestamp", "serviceAccountName", "mainEntrypoint", "priority"}

func (r *resolver) visit(at string, w *wfv1.WorkflowTemplate, t *wfv1.Template, args wfv1.Arguments, above []string, when bool) {
	if t == nil {
		return // Argo's validator says which
	}
	id := w.Name + "/" + t.Name
	if len(above) > mostCalls {
		r.problems = append(r.problems, fmt.Sprintf("%s: templates call each other more than %d deep", at, mostCalls))
		return
	}
	for _, a := range above {
		if a == id && !when {
			return // it calls itself whatever happens; Argo's validator says so
		}
	}
	r.seen[id] = true
	locals := common.Parameters{}
	if t.IsPodType() {
		for _, name := range append([]string{"pod.name"}, retryNames...) {
			locals[name] = "sample"
		}
	}
	got, err := common.ProcessArgs(t, &args, r.globals, locals, false, "ns", nil)
	if err != nil {
		r.problems = append(r.problems, fmt.Sprintf("%s: %v", at, err))
		return
	}
	if got.DAG == nil {
		r.calls = append(r.calls, call{at, r.pipeline, when, t, got})
		return
	}
	scope := map[string]any{}
	for name, v := range r.globals {
		scope[name] = v
	}
	for _, k := range got.DAG.Tasks {
		skipped := k.When == "false" // an expression, of which nothing is left but what it says
		scope["tasks."+k.Name+".status"] = "Succeeded"
		if skipped {
			scope["tasks."+k.Name+".status"] = "Skipped"
		}
		if _, callee := r.callee(w, k); callee != nil {
			for _, p := range callee.Outputs.Parameters {
				scope["tasks."+k.Name+".outputs.parameters."+p.Name] = sampleOutput(p)
				if skipped {
					scope["tasks."+k.Name+".outputs.parameters."+p.Name] = nil
				}
			}
		}
	}
	for _, k := range got.DAG.Tasks {
		where := at + "/" + k.Name
		if fans(k) {
			scope["item"] = someItem
		}
		raw, err := json.Marshal(k)
		if err == nil {
			var text string
			if text, err = template.Replace(string(raw), scope, false); err == nil {
				err = json.Unmarshal([]byte(text), &k)
			}
		}
		delete(scope, "item")
		if err != nil {
			r.problems = append(r.problems, fmt.Sprintf("%s: %v", where, err))
			continue
		}
		if k.When == "false" {
			continue
		}
		owner, callee := r.callee(w, k)
		r.visit(where, owner, callee, k.Arguments, append(above[:len(above):len(above)], id), when || k.When != "")
	}
}

// fans reports whether a task runs once an item.
func fans(k wfv1.DAGTask) bool {
	return k.WithParam != "" || len(k.WithItems) > 0 || k.WithSequence != nil
}
