package examples_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"orchard/examples"
	"orchard/internal/grade/parsers"
)

// task is a row as it is in the file.
type task struct {
	InstanceID       string   `json:"instance_id"`
	Repo             string   `json:"repo"`
	BaseCommit       string   `json:"base_commit"`
	Version          string   `json:"version"`
	CreatedAt        string   `json:"created_at"`
	ProblemStatement string   `json:"problem_statement"`
	HintsText        string   `json:"hints_text"`
	Patch            string   `json:"patch"`
	TestPatch        string   `json:"test_patch"`
	FailToPass       nameList `json:"FAIL_TO_PASS"`
	PassToPass       nameList `json:"PASS_TO_PASS"`
	Language         string   `json:"language"`
	TestCmds         []string `json:"test_cmds"`
	LogParser        string   `json:"log_parser"`
	PreCommands      []string `json:"pre_commands"`
	Workdir          string   `json:"workdir"`
	RepoFastImport   string   `json:"repo_fast_import"`
	TimeoutSeconds   int      `json:"timeout_seconds"`
}

// nameList is a list written as a JSON string, as in SWE-bench.
type nameList []string

func (l *nameList) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	return json.Unmarshal([]byte(s), (*[]string)(l))
}

// load reads all rows; a column that task does not know is an error.
func load(t *testing.T) []task {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(read(t, examples.Tasks)))
	d.DisallowUnknownFields()
	var tasks []task
	for d.More() {
		var row task
		if err := d.Decode(&row); err != nil {
			t.Fatalf("row %d of %s: %v", len(tasks)+1, examples.Tasks, err)
		}
		tasks = append(tasks, row)
	}
	return tasks
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := fs.ReadFile(examples.FS, name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// variant is one of the patches that lie beside the rows: "wrong" or "comment".
func (k task) variant(name string) string {
	return path.Join("tasks/patches", k.InstanceID+"."+name+".patch")
}

func (k task) repository() string { return path.Join("tasks", k.RepoFastImport) }

// files are the paths that a diff touches.
func files(diff string) []string {
	var names []string
	for line := range strings.Lines(diff) {
		if rest, ok := strings.CutPrefix(line, "diff --git a/"); ok {
			name, _, _ := strings.Cut(rest, " b/")
			names = append(names, name)
		}
	}
	return names
}

func isTest(name string) bool {
	return strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "tests/")
}

func TestThereAreEnough(t *testing.T) {
	t.Parallel()
	tasks := load(t)
	byLanguage := map[string]int{}
	several := 0 // whose solution is in more than one place
	for _, k := range tasks {
		byLanguage[k.Language]++
		if strings.Count(k.Patch, "\n@@ ") > 1 {
			several++
		}
	}
	if len(tasks) < 12 || several < 4 {
		t.Errorf("%d tasks, %d with several hunks, want at least 12 and 4", len(tasks), several)
	}
	for language, want := range map[string]int{"go": 7, "python": 3, "shell": 2, "c": 2} {
		if got := byLanguage[language]; got < want {
			t.Errorf("%d tasks in %s, want at least %d", got, language, want)
		}
	}
}

func TestRowsAreWhole(t *testing.T) {
	t.Parallel()
	used := map[string]string{} // what has to be unique, and by which task it is used
	for _, k := range load(t) {
		for what, value := range map[string]string{
			"instance_id": k.InstanceID, "problem_statement": strings.TrimSpace(k.ProblemStatement),
			"base_commit": k.BaseCommit, "repo_fast_import": k.RepoFastImport, "patch": k.Patch, "test_patch": k.TestPatch,
		} {
			if value == "" {
				t.Errorf("%s: no %s", k.InstanceID, what)
			}
			if other, ok := used[what+value]; ok {
				t.Errorf("%s and %s have the same %s", k.InstanceID, other, what)
			}
			used[what+value] = k.InstanceID
		}
		if _, err := time.Parse(time.RFC3339, k.CreatedAt); err != nil {
			t.Errorf("%s: created_at: %v", k.InstanceID, err)
		}
		if _, err := parsers.ByName(k.LogParser); err != nil {
			t.Errorf("%s: %v", k.InstanceID, err)
		}
		if k.Repo == "" || k.Version == "" || len(k.TestCmds) == 0 || k.PreCommands == nil || k.Workdir != "/testbed" || k.TimeoutSeconds <= 0 {
			t.Errorf("%s: a column is missing: %+v", k.InstanceID, k)
		}
		names := slices.Concat(k.FailToPass, k.PassToPass)
		slices.Sort(names)
		if len(k.FailToPass) == 0 || len(k.PassToPass) == 0 || len(slices.Compact(slices.Clone(names))) != len(names) {
			t.Errorf("%s: required tests are missing or named twice: %q", k.InstanceID, names)
		}
	}
}

func TestPatchesKeepToTheirFiles(t *testing.T) {
	t.Parallel()
	for _, k := range load(t) {
		sources := map[string]string{"patch": k.Patch}
		for _, v := range []string{"wrong", "comment"} {
			sources[v] = string(read(t, k.variant(v)))
		}
		for what, diff := range sources {
			names := files(diff)
			if len(names) == 0 || slices.ContainsFunc(names, isTest) {
				t.Errorf("%s: %s touches %q, want sources only", k.InstanceID, what, names)
			}
		}
		for _, name := range files(k.TestPatch) {
			if !isTest(name) {
				t.Errorf("%s: test_patch touches %s, which is no test", k.InstanceID, name)
			}
		}
	}
}

// Every repository and every patch belongs to a row.
func TestNothingIsLeftOver(t *testing.T) {
	t.Parallel()
	known := map[string]bool{examples.Tasks: true, "tasks/README.md": true}
	for _, k := range load(t) {
		known[k.repository()], known[k.variant("wrong")], known[k.variant("comment")] = true, true, true
	}
	err := fs.WalkDir(examples.FS, "tasks", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !known[name] {
			t.Errorf("%s belongs to no task", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
