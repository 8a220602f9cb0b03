package argo

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	wfv1 "github.com/argoproj/argo-workflows/v3/pkg/apis/workflow/v1alpha1"
	"github.com/argoproj/argo-workflows/v3/workflow/common"

	"orchard/internal/pipeline"
)

// dag is what Argo's own reading of `depends` asks for.
type dag map[string]*wfv1.DAGTask

func (d dag) GetTask(name string) *wfv1.DAGTask { return d[name] }

func (d dag) GetTaskDependencies(name string) []string {
	if d[name] == nil {
		return nil
	}
	found, _ := common.GetTaskDependencies(d[name], d)
	return keys(found)
}

func (d dag) GetTaskFinishedAtTime(string) time.Time { return time.Time{} }

func tasksOf(t *wfv1.Template) dag {
	d := dag{}
	for i := range t.DAG.Tasks {
		d[t.DAG.Tasks[i].Name] = &t.DAG.Tasks[i]
	}
	return d
}

// said is every name in the tags and output expressions of v, except in depends.
func said(v any, bad report, where string) []string {
	var all []string
	walk(where, v, func(at, key string, v any) {
		if text, ok := v.(string); ok && key != "depends" {
			names, err := references(text)
			if strings.HasSuffix(at, ".valueFrom.expression") {
				names, err = spoken(text)
			}
			if err != nil {
				bad("%s: %v", at, err)
			}
			all = append(all, names...)
		}
	})
	return all
}

// generic is v as it stands in YAML.
func generic(v any) any {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	var out any
	if json.Unmarshal(raw, &out) != nil {
		return nil
	}
	return out
}

// ancestors: a task that speaks of another waits for it; Argo's validator does not ask.
// It does not take a fan-out's outputs as a list, which leaves out what failed.
func ancestors(s *set, bad report) {
	s.each(func(at string, _ *wfv1.WorkflowTemplate, t *wfv1.Template) {
		if t.DAG == nil {
			return
		}
		tasks := tasksOf(t)
		about := func(where string, v any, above []string, within bool) {
			for _, name := range said(v, bad, where) {
				parts := strings.SplitN(name, ".", 3)
				if parts[0] != "tasks" || len(parts) < 3 {
					continue
				}
				switch up := tasks[parts[1]]; {
				case up == nil:
					bad("%s: speaks of task %q, which is not there", where, parts[1])
				case within && !slices.Contains(above, up.Name):
					bad("%s: speaks of task %q without waiting for it", where, up.Name)
				case fans(*up) && strings.HasPrefix(parts[2], "outputs"):
					bad("%s: takes the outputs of all items of %q, where failed ones are left out: read the store instead", where, up.Name)
				}
			}
		}
		for _, k := range t.DAG.Tasks {
			about(at+"/"+k.Name, generic(k), common.GetTaskAncestry(tasks, k.Name), true)
		}
		about(at+" outputs", generic(t.Outputs), nil, false)
	})
}

// tags speak of what is there, inside {{= }} too, which Argo's validator does not read.
func tags(s *set, bad report) {
	for _, name := range keys(s.templates) {
		w := s.templates[name]
		walk(name, s.docs[name], func(where, _ string, v any) {
			text, ok := v.(string)
			expression := strings.HasSuffix(where, ".valueFrom.expression")
			if !ok || !strings.Contains(text, "{{") && !strings.Contains(text, "}}") && !expression {
				return
			}
			known := append(s.knownGlobals(), "status", "duration") // in metrics of the workflow
			if rest, ok := strings.CutPrefix(where, name+".spec.templates["); ok {
				id, rest, _ := strings.Cut(rest, "]")
				if t := w.GetTemplateByName(id); t != nil {
					known = s.known(w, t, strings.HasPrefix(rest, ".metrics"))
				}
			}
			names, err := references(text)
			if expression {
				names, err = spoken(text)
			}
			if err != nil {
				bad("%s: %v", where, err)
			}
			for _, n := range names {
				if !slices.Contains(known, n) {
					bad("%s: %s is not known there", where, n)
				}
			}
		})
	}
}

// conditions compile; Argo's validator does not try.
func conditions(s *set, bad report) {
	s.each(func(at string, _ *wfv1.WorkflowTemplate, t *wfv1.Template) {
		if t.RetryStrategy != nil && t.RetryStrategy.Expression != "" {
			if err := compiles(t.RetryStrategy.Expression, retryNames); err != nil {
				bad("%s: retryStrategy: %v", at, err)
			}
		}
	})
	for _, name := range keys(s.crons) {
		spec := s.crons[name].Spec
		if stop := spec.StopStrategy; stop != nil {
			if err := compiles(stop.Expression, cronNames); err != nil {
				bad("%s: stopStrategy: %v", name, err)
			}
		}
		if spec.When != "" {
			code := strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(spec.When), "{{="), "}}")
			if err := compiles(code, cronNames); err != nil {
				bad("%s: when: %v", name, err)
			}
		}
	}
}

// sameSteps: `orchard run` takes every pipeline to its end, and gives every step the
// arguments and environment that Argo gives it.
func sameSteps(s *set, bad report) {
	lib, err := s.library()
	if err != nil {
		bad("%v", err)
		return
	}
	calls, _ := s.calls()
	wrote := map[string]string{} // by a step, for an output
	s.each(func(_ string, _ *wfv1.WorkflowTemplate, t *wfv1.Template) {
		for _, p := range t.Outputs.Parameters {
			if t.DAG == nil {
				wrote[p.Name] = sampleOutput(p)
			}
		}
	})
	for _, w := range s.pipelines() {
		params := map[string]string{}
		for _, p := range w.Spec.Arguments.Parameters {
			params[p.Name] = sample(p)
		}
		var mu sync.Mutex
		here := map[string][]string{}
		_, err := pipeline.Run(context.Background(), lib, w.Name, pipeline.Options{
			ID: runName, Params: params, Now: func() time.Time { return time.Unix(0, 0) },
			Step: func(_ context.Context, step pipeline.Step) (pipeline.StepResult, error) {
				mu.Lock()
				defer mu.Unlock()
				node, _, _ := strings.Cut(step.Node, "(")
				here[node] = append([]string{environment(step.Env)}, step.Args...)
				out := map[string]string{}
				for name := range step.Outputs {
					out[name] = wrote[name]
				}
				return pipeline.StepResult{Outputs: out}, nil
			},
		})
		if err != nil {
			bad("%s: %v", w.Name, err)
			continue
		}
		there := map[string][]string{}
		for _, c := range calls {
			if c.pipeline != w || c.leaf.Container == nil || c.when && here[c.at] == nil {
				continue
			}
			env := map[string]string{}
			for _, e := range c.leaf.Container.Env {
				if e.ValueFrom == nil {
					env[e.Name] = e.Value
				}
			}
			there[c.at] = append([]string{environment(env)}, c.leaf.Container.Args...)
		}
		for _, at := range slices.Compact(slices.Sorted(slices.Values(append(keys(here), keys(there)...)))) {
			if !reflect.DeepEqual(here[at], there[at]) {
				bad("%s: differs\n  on one machine: %q\n  in Argo:        %q", at, here[at], there[at])
			}
		}
	}
}

func environment(env map[string]string) string {
	var list []string
	for _, name := range keys(env) {
		list = append(list, fmt.Sprintf("%s=%s", name, env[name]))
	}
	return strings.Join(list, " ")
}

// parameters are described and used, and an enum has its default. A form in Argo's UI is
// made of them.
func parameters(s *set, bad report) {
	reach := map[string]map[string]bool{} // names of all workflow parameters that a WorkflowTemplate's tags speak of
	for name, doc := range s.docs {
		reach[name] = map[string]bool{}
		for _, n := range said(doc["spec"], func(string, ...any) {}, name) {
			reach[name][n] = true
		}
	}
	for _, w := range s.pipelines() {
		libraries := []string{w.Name}
		for i := range w.Spec.Templates {
			if d := w.Spec.Templates[i].DAG; d != nil {
				for _, k := range d.Tasks {
					if k.TemplateRef != nil {
						libraries = append(libraries, k.TemplateRef.Name)
					}
				}
			}
		}
		for _, p := range w.Spec.Arguments.Parameters {
			used := slices.ContainsFunc(libraries, func(l string) bool { return reach[l]["workflow.parameters."+p.Name] })
			declared(w.Name, "parameter", p, used, bad)
		}
	}
	s.each(func(at string, w *wfv1.WorkflowTemplate, t *wfv1.Template) {
		spoken := said(generic(t), func(string, ...any) {}, at)
		for _, p := range t.Inputs.Parameters {
			declared(at, "input", p, slices.Contains(spoken, "inputs.parameters."+p.Name), bad)
		}
	})
}

func declared(at, what string, p wfv1.Parameter, used bool, bad report) {
	if !used {
		bad("%s: %s %q is not used", at, what, p.Name)
	}
	if p.Description == nil || strings.TrimSpace(p.Description.String()) == "" {
		bad("%s: %s %q has no description", at, what, p.Name)
	}
	if p.Enum != nil && (p.Value == nil || !slices.Contains(p.Enum, *p.Value)) {
		bad("%s: %s %q: its value is none of %v", at, what, p.Name, p.Enum)
	}
}
