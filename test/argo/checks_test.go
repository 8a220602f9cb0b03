package argo

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/argoproj/argo-workflows/v3/workflow/validate"
	"sigs.k8s.io/yaml"

	"orchard/internal/pipeline"
)

// check is one thing that must hold of all workflow YAML.
type check struct {
	name string
	find func(s *set, bad report)
}

// report is told of everything that does not hold.
type report func(format string, a ...any)

var checks = []check{
	{"parse", func(s *set, bad report) {
		for _, p := range s.problems {
			bad("%s", p)
		}
	}},
	{"argo", argo},
	{"one machine", oneMachine},
	{"same steps", sameSteps},
	{"resolve", resolves},
	{"arguments", arguments},
	{"ancestors", ancestors},
	{"tags", tags},
	{"conditions", conditions},
	{"parameters", parameters},
	{"outputs", outputs},
	{"fan-out", fanOut},
	{"retry", retries},
	{"metrics", metrics},
	{"forbidden", forbidden},
	{"names", names},
	{"objects", objects},
	{"pipeline", pipelines},
	{"cron", crons},
	{"artifacts", artifacts},
	{"pod security", podSecurity},
	{"image", images},
	{"command", commands},
	{"resources", resources},
	{"deadline", deadlines},
	{"secrets", secrets},
}

// run is everything that one check finds.
func (c check) run(s *set) []string {
	var found []string
	c.find(s, func(format string, a ...any) {
		if text := fmt.Sprintf(format, a...); !slices.Contains(found, text) {
			found = append(found, text)
		}
	})
	return found
}

// The shipped files hold to all of it.
func TestWorkflows(t *testing.T) {
	s := read(shipped(t))
	if len(s.pipelines()) == 0 || len(s.docs) < 2 {
		t.Fatalf("only %v were read", keys(s.docs))
	}
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			for _, text := range c.run(s) {
				t.Error(text)
			}
		})
	}
}

// argo is Argo's own validation, as `argo lint` does it.
func argo(s *set, bad report) {
	for _, name := range keys(s.templates) {
		if err := validate.ValidateWorkflowTemplate(s, clusterWide{}, s.templates[name], nil, validate.ValidateOpts{Lint: true}); err != nil {
			bad("%s: %v", name, err)
		}
	}
	for _, name := range keys(s.crons) {
		if err := validate.ValidateCronWorkflow(context.Background(), s, clusterWide{}, s.crons[name], nil); err != nil {
			bad("%s: %v", name, err)
		}
	}
}

// library is what `orchard run` makes of the same documents.
func (s *set) library() (pipeline.Library, error) {
	lib := pipeline.Library{}
	for _, name := range keys(s.docs) {
		if s.docs[name]["kind"] == "CronWorkflow" {
			continue
		}
		raw, err := yaml.Marshal(s.docs[name])
		if err == nil {
			err = lib.Add(name+".yaml", raw)
		}
		if err != nil {
			return nil, err
		}
	}
	return lib, nil
}

// oneMachine is what `orchard run` says before it starts.
func oneMachine(s *set, bad report) {
	lib, err := s.library()
	if err != nil {
		bad("%v", err)
		return
	}
	for _, name := range lib.Pipelines() {
		if err := lib.Check(name); err != nil {
			bad("%s: %v", name, err)
		}
	}
}

// resolves: with every parameter filled in, nothing is left to fill in.
func resolves(s *set, bad report) {
	calls, problems := s.calls()
	for _, p := range problems {
		bad("%s", p)
	}
	for _, c := range calls {
		leaf := c.leaf.DeepCopy()
		leaf.Metrics = nil // filled in when the step ends
		leaf.Inputs.Parameters = nil
		raw, err := yaml.Marshal(leaf)
		if err != nil {
			bad("%s: %v", c.at, err)
		}
		for _, m := range tag.FindAllString(string(raw), -1) {
			bad("%s: %s stands for nothing there", c.at, m)
		}
	}
}

// arguments are those that are declared; Argo's validator takes any.
func arguments(s *set, bad report) {
	for _, name := range keys(s.templates) {
		w := s.templates[name]
		for i := range w.Spec.Templates {
			t := &w.Spec.Templates[i]
			if t.DAG == nil {
				continue
			}
			for _, k := range t.DAG.Tasks {
				where := name + "/" + t.Name + "/" + k.Name
				_, callee := s.callee(w, k)
				if callee == nil {
					bad("%s: calls a template that is not there", where)
					continue
				}
				for _, p := range k.Arguments.Parameters {
					if callee.Inputs.GetParameterByName(p.Name) == nil {
						bad("%s: argument %q is no input of template %s", where, p.Name, callee.Name)
					}
					if p.Value == nil {
						bad("%s: argument %q has no value", where, p.Name)
					}
				}
				for _, p := range callee.Inputs.Parameters {
					if p.Value == nil && p.Default == nil && k.Arguments.GetParameterByName(p.Name) == nil {
						bad("%s: input %q of template %s is not given", where, p.Name, callee.Name)
					}
				}
			}
		}
	}
	for _, name := range keys(s.crons) {
		spec := s.crons[name].Spec.WorkflowSpec
		if spec.WorkflowTemplateRef == nil {
			continue // the check of cron says so
		}
		w := s.templates[spec.WorkflowTemplateRef.Name]
		if w == nil {
			bad("%s: starts %q, which is not there", name, spec.WorkflowTemplateRef.Name)
			continue
		}
		for _, p := range spec.Arguments.Parameters {
			declared := w.Spec.Arguments.GetParameterByName(p.Name)
			switch {
			case declared == nil:
				bad("%s: argument %q is no parameter of %s", name, p.Name, w.Name)
			case p.Value != nil && declared.Enum != nil && !slices.Contains(declared.Enum, *p.Value):
				bad("%s: argument %q: %s is none of %v", name, p.Name, p.Value, declared.Enum)
			}
		}
		for _, p := range w.Spec.Arguments.Parameters {
			if p.Value == nil && p.ValueFrom == nil && spec.Arguments.GetParameterByName(p.Name) == nil {
				bad("%s: parameter %q of %s is not given", name, p.Name, w.Name)
			}
		}
	}
}
