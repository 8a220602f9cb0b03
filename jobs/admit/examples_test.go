package admit

import (
	"os"
	"path/filepath"
	"testing"

	"orchard/datasets"
	"orchard/datasets/imports"
	"orchard/datasets/record"
	"orchard/examples"
)

// Every example task is admitted. By default one that needs no compiler, once; all of them,
// three times, where there is time.
func TestExamplesAreAdmitted(t *testing.T) {
	t.Parallel()
	s, m := newService(t), newMaker(t)
	store, _ := m.store()
	soak := os.Getenv("ORCHARD_SOAK") != ""
	folder := t.TempDir()
	if err := os.CopyFS(folder, examples.FS); err != nil {
		t.Fatal(err)
	}
	var tasks []record.Task
	err := imports.Read(t.Context(), filepath.Join(folder, examples.Tasks), func(row imports.Row, problem *imports.Problem) error {
		if problem != nil {
			return problem
		}
		p, problem := imports.Parse(row, "examples")
		if problem != nil {
			return problem
		}
		if id := p.Task.TaskID; !soak && id != "examples__calc-14" {
			return nil
		}
		path, problem := p.Repo.Locate(p.File, false)
		if problem != nil {
			return problem
		}
		source, err := imports.OpenSource(t.Context(), p.Repo.Kind, path, t.TempDir())
		if err != nil {
			return err
		}
		bundle, err := source.Bundle(t.Context(), p.Task.BaseCommit)
		if err != nil {
			return err
		}
		body, err := os.ReadFile(bundle)
		if err != nil {
			return err
		}
		if p.Task.RepoBlob, err = datasets.PutBlob(t.Context(), store, body); err != nil {
			return err
		}
		tasks = append(tasks, p.Task)
		return nil
	})
	if err != nil || len(tasks) < 1 || soak && len(tasks) < 14 {
		t.Fatalf("%d tasks, %v", len(tasks), err)
	}
	c := s.config(m.dataset(store, "", "tasks", tasks...), "admission")
	c.Memory = "2Gi"
	if !soak {
		c.Repeats = 1
	}
	res, err := Run(t.Context(), c, quiet())
	if err != nil {
		t.Fatal(err)
	}
	for id, a := range rows(t, res.URI) {
		if !a.Admitted || len(a.GoldRuns) != c.Repeats || len(a.EmptyRuns) != c.Repeats {
			t.Errorf("%s: %s: %s", id, a.Reason, a.Detail)
		}
		if a.FlakyCount > 0 {
			t.Logf("%s: flaky: %+v", id, a.Flaky)
		}
	}
}
