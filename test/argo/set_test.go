package argo

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"

	wfv1 "github.com/argoproj/argo-workflows/v3/pkg/apis/workflow/v1alpha1"
	"github.com/argoproj/argo-workflows/v3/workflow/common"
	apierr "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"orchard/workflows"
)

// document is one YAML document, as anything can be written in it.
type document = map[string]any

// set is all workflow YAML, read twice: as Argo's types and as it stands there.
type set struct {
	docs      map[string]document // by metadata.name
	templates map[string]*wfv1.WorkflowTemplate
	crons     map[string]*wfv1.CronWorkflow
	problems  []string // of reading
}

var separator = regexp.MustCompile(`(?m)^---\s*$`)

// shipped is the documents of every file that a cluster's Argo gets, by name.
func shipped(t testing.TB) map[string]document {
	t.Helper()
	docs := map[string]document{}
	for _, folder := range []string{"templates", "pipelines", "cron"} {
		err := fs.WalkDir(workflows.FS, folder, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			if path.Ext(name) != ".yaml" {
				t.Errorf("%s: only .yaml files are read", name)
				return nil
			}
			raw, err := fs.ReadFile(workflows.FS, name)
			if err != nil {
				return err
			}
			for i, text := range separator.Split(string(raw), -1) {
				var doc document
				if err := yaml.UnmarshalStrict([]byte(text), &doc); err != nil {
					return fmt.Errorf("%s, document %d: %w", name, i+1, err)
				}
				if doc == nil {
					continue
				}
				id, _ := at(doc, "metadata/name").(string)
				if id == "" || docs[id] != nil {
					return fmt.Errorf("%s, document %d: metadata.name %q is missing or taken", name, i+1, id)
				}
				docs[id] = doc
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return docs
}

// read parses documents as Argo does, strictly.
func read(docs map[string]document) *set {
	s := &set{docs: docs, templates: map[string]*wfv1.WorkflowTemplate{}, crons: map[string]*wfv1.CronWorkflow{}}
	for _, name := range keys(docs) {
		raw, err := yaml.Marshal(docs[name])
		if err != nil {
			s.problems = append(s.problems, err.Error())
			continue
		}
		found := common.ParseObjects(raw, true)
		if len(found) != 1 { // what Argo does not know, it skips
			s.problems = append(s.problems, fmt.Sprintf("%s: Argo sees %d objects, want 1: is kind %v one of Argo's?", name, len(found), docs[name]["kind"]))
			continue
		}
		if found[0].Err != nil {
			s.problems = append(s.problems, fmt.Sprintf("%s: %v", name, found[0].Err))
			continue
		}
		switch o := found[0].Object.(type) {
		case *wfv1.WorkflowTemplate:
			s.templates[o.Name] = o
		case *wfv1.CronWorkflow:
			s.crons[o.Name] = o
		default:
			s.problems = append(s.problems, fmt.Sprintf("%s: kind %v: only WorkflowTemplate and CronWorkflow, which need no rights beyond the namespace", name, docs[name]["kind"]))
		}
	}
	return s
}

// pipelines are the workflows that are submitted, in order of their names.
func (s *set) pipelines() []*wfv1.WorkflowTemplate {
	var list []*wfv1.WorkflowTemplate
	for _, name := range keys(s.templates) {
		if s.templates[name].Spec.Entrypoint != "" {
			list = append(list, s.templates[name])
		}
	}
	return list
}

// each calls f for every template of every WorkflowTemplate.
func (s *set) each(f func(at string, w *wfv1.WorkflowTemplate, t *wfv1.Template)) {
	for _, name := range keys(s.templates) {
		w := s.templates[name]
		for i := range w.Spec.Templates {
			f(name+"/"+w.Spec.Templates[i].Name, w, &w.Spec.Templates[i])
		}
	}
}

// callee is the template that a task of w calls, and whose it is; nil when there is none.
func (s *set) callee(w *wfv1.WorkflowTemplate, k wfv1.DAGTask) (*wfv1.WorkflowTemplate, *wfv1.Template) {
	name := k.Template
	if k.TemplateRef != nil {
		name = k.TemplateRef.Template
		if w = s.templates[k.TemplateRef.Name]; w == nil {
			return nil, nil
		}
	}
	return w, w.GetTemplateByName(name)
}

// Get makes a set what Argo's validator asks for templates.
func (s *set) Get(name string) (*wfv1.WorkflowTemplate, error) {
	if t, ok := s.templates[name]; ok {
		return t, nil
	}
	return nil, apierr.NewNotFound(schema.GroupResource{Group: "argoproj.io", Resource: "workflowtemplates"}, name)
}

// clusterWide is the ClusterWorkflowTemplates, of which there are none.
type clusterWide struct{}

func (clusterWide) Get(name string) (*wfv1.ClusterWorkflowTemplate, error) {
	return nil, apierr.NewNotFound(schema.GroupResource{Group: "argoproj.io", Resource: "clusterworkflowtemplates"}, name)
}

// at is the value at a path such as spec/templates/stage/container/command: elements of
// lists are found by their name, or by their number. nil when there is none.
func at(v any, where string) any {
	for _, p := range strings.Split(where, "/") {
		switch in := v.(type) {
		case map[string]any:
			v = in[p]
		case []any:
			i := index(in, p)
			if i < 0 {
				return nil
			}
			v = in[i]
		default:
			return nil
		}
	}
	return v
}

func index(list []any, name string) int {
	return slices.IndexFunc(list, func(e any) bool {
		m, ok := e.(map[string]any)
		return ok && m["name"] == name
	})
}

// walk calls f for every value below v with its path and, in a mapping, its key.
func walk(where string, v any, f func(where, key string, v any)) {
	switch in := v.(type) {
	case map[string]any:
		for _, k := range keys(in) {
			f(where+"."+k, k, in[k])
			walk(where+"."+k, in[k], f)
		}
	case []any:
		for i, e := range in {
			name := fmt.Sprint(i)
			if m, ok := e.(map[string]any); ok && m["name"] != nil {
				name = fmt.Sprint(m["name"])
			}
			f(where+"["+name+"]", "", e)
			walk(where+"["+name+"]", e, f)
		}
	}
}

func keys[V any](m map[string]V) []string {
	var list []string
	for k := range m {
		list = append(list, k)
	}
	sort.Strings(list)
	return list
}

// clone is a deep copy of documents.
func clone(t testing.TB, docs map[string]document) map[string]document {
	t.Helper()
	raw, err := json.Marshal(docs)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]document
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}
