package pipeline

import (
	"fmt"
	"io/fs"
	"path"
	"sort"
	"strings"

	"sigs.k8s.io/yaml"
)

// Library is every WorkflowTemplate that a run may refer to, by name.
type Library map[string]*Workflow

// Load reads the .yaml files below each root of fsys, several documents a file. What a
// CronWorkflow starts must come before it.
func Load(fsys fs.FS, roots ...string) (Library, error) {
	lib := Library{}
	for _, root := range roots {
		err := fs.WalkDir(fsys, root, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || path.Ext(name) != ".yaml" {
				return err
			}
			raw, err := fs.ReadFile(fsys, name)
			if err != nil {
				return err
			}
			return lib.Add(name, raw)
		})
		if err != nil {
			return nil, err
		}
	}
	return lib, nil
}

// Add parses one file into the library; a name that is taken is an error.
func (l Library) Add(file string, raw []byte) error {
	for i, doc := range strings.Split("\n"+string(raw), "\n---") {
		if strings.TrimSpace(stripComments(doc)) == "" {
			continue
		}
		w, err := l.parse([]byte(doc))
		if err != nil {
			return fmt.Errorf("%s, document %d: %w", file, i+1, err)
		}
		if w.Metadata.Name == "" {
			return fmt.Errorf("%s, document %d: metadata.name is missing", file, i+1)
		}
		if l[w.Metadata.Name] != nil {
			return fmt.Errorf("%s: %s %q is defined twice", file, w.Kind, w.Metadata.Name)
		}
		l[w.Metadata.Name] = w
	}
	return nil
}

// parse reads a document of one of the kinds that run here.
func (l Library) parse(doc []byte) (*Workflow, error) {
	var head struct {
		Kind string `json:"kind"`
	}
	if err := yaml.Unmarshal(doc, &head); err != nil {
		return nil, err
	}
	switch head.Kind {
	case "CronWorkflow":
		return l.cron(doc)
	case "WorkflowTemplate":
		var w Workflow
		if err := yaml.UnmarshalStrict(doc, &w); err != nil {
			return nil, fmt.Errorf("not in the subset of Argo that runs here: %w", err)
		}
		return &w, nil
	}
	return nil, fmt.Errorf("kind %q: only WorkflowTemplate and CronWorkflow run here", head.Kind)
}

func stripComments(doc string) string {
	var b strings.Builder
	for line := range strings.Lines(doc) {
		if !strings.HasPrefix(strings.TrimSpace(line), "#") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// Pipelines are the names that can be run, sorted: the workflows with an entrypoint.
func (l Library) Pipelines() []string {
	var names []string
	for name, w := range l {
		if w.Spec.Entrypoint != "" {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	return names
}

// template finds a template by name in w, or by ref in the library, and returns the
// workflow it belongs to.
func (l Library) template(w *Workflow, name string, ref *TemplateRef) (*Workflow, *Template, error) {
	if ref != nil {
		name = ref.Template
		if w = l[ref.Name]; w == nil {
			return nil, nil, fmt.Errorf("templateRef: no WorkflowTemplate %q", ref.Name)
		}
	}
	for i := range w.Spec.Templates {
		if w.Spec.Templates[i].Name == name {
			return w, &w.Spec.Templates[i], nil
		}
	}
	return nil, nil, fmt.Errorf("WorkflowTemplate %s has no template %q", w.Metadata.Name, name)
}
