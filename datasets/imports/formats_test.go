package imports

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orchard/datasets/record"
)

const (
	fixtures = "testdata/formats"
	pyPatch  = "diff --git a/acme/add.py b/acme/add.py\n--- a/acme/add.py\n+++ b/acme/add.py\n@@ -1,2 +1,2 @@\n def add(a, b):\n-    return a - b\n+    return a + b\n"
	f2pName  = "tests/test_add.py::test_add"
	p2pName  = "tests/test_add.py::test_zero"
)

// fixture is the file or folder of a format.
func fixture(f *Format) string {
	path := filepath.Join(fixtures, f.Name)
	if _, err := os.Stat(path + ".jsonl"); err == nil {
		return path + ".jsonl"
	}
	if f.Name == "webvoyager" {
		return filepath.Join(path, "tasks.jsonl")
	}
	return path
}

// parseFile is all rows of a file, which must have the format and no problem.
func parseFile(t *testing.T, path, format string) (out []Parsed) {
	t.Helper()
	f, err := Detect(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if f.Name != format {
		t.Fatalf("%s: told as %s, want %s", path, f.Name, format)
	}
	err = Read(t.Context(), path, func(r Row, problem *Problem) error {
		if problem == nil {
			var p Parsed
			if p, problem = f.Parse(r, "set"); problem == nil {
				out = append(out, p)
				return nil
			}
		}
		t.Fatal(problem)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestEveryFormatHasAFixture: each is told from all others by its columns, and is read.
func TestEveryFormatHasAFixture(t *testing.T) {
	t.Parallel()
	for _, f := range Formats() {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			for _, p := range parseFile(t, fixture(f), f.Name) {
				if p.ID() == "" || p.Name() == "" || (p.Rollout != nil) != f.Rollouts {
					t.Errorf("incomplete: %+v", p)
				}
			}
		})
	}
	entries, err := os.ReadDir(fixtures)
	if err != nil || len(entries) != len(Formats()) {
		t.Errorf("%d fixtures for %d formats, %v", len(entries), len(Formats()), err)
	}
}

func TestSWEFamily(t *testing.T) {
	t.Parallel()
	at := time.Date(2023, 5, 31, 12, 30, 0, 0, time.UTC)
	base := strings.Repeat("a1", 20)
	want := func(change func(*record.Task)) record.Task {
		k := record.Task{
			TaskID: "acme__calc-7", Source: "set", Repo: "acme/calc", Language: "python", Version: "1.10", CreatedAt: &at,
			Statement: "add subtracts.", BaseCommit: base, Workdir: "/testbed", PreCommands: []string{},
			TestCmds: []string{"python3 -m pytest"}, LogParser: "pytest-junit", FailToPass: []string{f2pName}, PassToPass: []string{p2pName},
		}
		change(&k)
		return k
	}
	for _, c := range []struct {
		format string
		change func(*record.Task)
	}{
		{"swe-bench", func(k *record.Task) { k.Image = "docker.io/swebench/sweb.eval.x86_64.acme_1776_calc-7:latest" }},
		{"swe-bench-v5", func(k *record.Task) {
			k.Image, k.TestCmds, k.LogParser = "registry.example.org/calc:7", []string{"pytest -rA tests/test_add.py"}, "pytest-rA"
		}},
		{"swe-bench-live", func(k *record.Task) {
			k.Image, k.TestCmds, k.LogParser = "docker.io/starryzhang/sweb.eval.x86_64.acme_1776_calc-7:latest", []string{"pytest -rA"}, "pytest-rA"
		}},
		{"swe-bench-extra", func(k *record.Task) { k.Version = "1" }},
		{"swe-rebench", func(k *record.Task) {
			k.Image, k.TestCmds, k.LogParser = "docker.io/swerebench/sweb.eval.x86_64.acme_1776_calc-7:latest", []string{"pytest --no-header -rA"}, "pytest-rA"
		}},
		{"swe-rebench-v2", func(k *record.Task) {
			k.Image, k.Workdir, k.Version = "docker.io/swerebenchv2/acme-calc:7-a1a1a1a", "/calc", ""
			k.TestCmds, k.LogParser = []string{"pytest -rA"}, "pytest-rA"
		}},
		{"swe-gym", func(k *record.Task) { k.Image = "docker.io/xingyaoww/sweb.eval.x86_64.acme_s_calc-7:latest" }},
		{"scale-swe", func(k *record.Task) {
			k.TaskID, k.Image, k.Version, k.CreatedAt = "acme_calc_pr7", "registry.example.org/scale/calc:7", "", nil
			k.FailToPass, k.PreCommands = []string{"test_fail_to_pass.py::test_fail"}, []string{"export A=1\ntrue"}
		}},
		{"swe-smith", func(k *record.Task) {
			k.TaskID, k.Image, k.Version, k.CreatedAt = "acme__calc.a1a1a1a1.func_pm_op_swap__x1", "docker.io/swesmith/swesmith.x86_64.acme_1776_calc.a1a1a1a1", "", nil
			k.BaseCommit = "a1a1a1a1"
		}},
		{"r2e-gym", func(k *record.Task) {
			k.TaskID, k.Repo, k.Image, k.Version, k.CreatedAt = "calc__"+strings.Repeat("c3", 20), "calc", "namanjain12/calc_final:c3c3", "", nil
			k.BaseCommit, k.PreCommands = strings.Repeat("c3", 20)+"^", []string{"rm -rf r2e_tests"}
			k.TestCmds = []string{".venv/bin/python -W ignore -m pytest r2e_tests"}
			k.FailToPass, k.PassToPass = []string{"r2e_tests/test_1.py::TestAdd::test_add"}, []string{"r2e_tests/test_1.py::test_zero"}
		}},
		{"orchard-rl", func(k *record.Task) {
			k.TaskID, k.Source, k.Image, k.Version, k.CreatedAt = "acme_calc_pr7", "scale-swe", "registry.example.org/scale/calc:7", "", nil
			k.PassToPass = []string{}
		}},
		{"swe-bench-task", func(k *record.Task) {
			k.Image, k.CreatedAt = "registry.example.org/calc:7", nil
			k.Statement, k.Hints = "add subtracts.\n", "see add.py\n"
		}},
	} {
		t.Run(c.format, func(t *testing.T) {
			t.Parallel()
			f, err := FormatByName(c.format)
			if err != nil {
				t.Fatal(err)
			}
			got := parseFile(t, fixture(f), c.format)[0].Task
			if got.Raw == "" || got.GoldPatch.Value != pyPatch || got.GoldPatch.Bytes != int64(len(pyPatch)) {
				t.Errorf("gold patch:\n%s", got.GoldPatch.Value)
			}
			got.Raw, got.GoldPatch, got.TestPatch = "", record.Text{}, record.Text{}
			if c.format == "swe-smith" {
				got.PreCommands = []string{} // TestSmith runs it
			}
			if d := cmp.Diff(want(c.change), got); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

// TestTestPatches: tests that come as files, or as a script, are a patch like any other.
func TestTestPatches(t *testing.T) {
	t.Parallel()
	for format, files := range map[string][]string{
		"scale-swe": {"tests/test_add.py", "test_fail_to_pass.py"}, "r2e-gym": {"r2e_tests/test_1.py"}, "swe-smith": nil,
	} {
		f, _ := FormatByName(format)
		k := parseFile(t, fixture(f), format)[0].Task
		r := &reader{}
		if got := r.patch(colTestPatch, k.TestPatch.Value); r.problem != nil || !slices.Equal(got.files, files) {
			t.Errorf("%s: %v, %v, want %v", format, got.files, r.problem, files)
		}
	}
}

func TestWebTasks(t *testing.T) {
	t.Parallel()
	none, noFiles := []record.Criterion{}, []record.File{}
	for _, c := range []struct {
		format    string
		row       int
		id, text  string
		want      record.Goal
		timeoutMS int64
	}{
		{"webgym", 0, "17", "Find the price of a pen.", record.Goal{Kind: "web", StartURL: "https://pens.example.org/all", Site: "https://pens.example.org",
			ParentID: "16", Answer: "3 EUR", Files: noFiles, Criteria: []record.Criterion{{ID: "1", Text: "names the price", Facts: []string{"3 EUR", "a pen"}}}}, 0},
		{"webgym", 1, "18", "Find the shop.", record.Goal{Kind: "web", StartURL: "https://pens.example.org", Site: "pens.example.org", Criteria: none, Files: noFiles}, 0},
		{"webvoyager", 0, "Pens--0", "Find a pen.", record.Goal{Kind: "web", StartURL: "https://pens.example.org/", Site: "Pens", Answer: "a blue pen",
			Judge: `{"notice":"prices change","type":"golden"}`, Criteria: none, Files: noFiles}, 0},
		{"webvoyager", 1, "Pens--1", "Buy a pen.", record.Goal{Kind: "web", StartURL: "https://pens.example.org/", Site: "Pens", Answer: "3 EUR",
			Judge:    `{"eval_types":["string_match"],"program_html":[],"reference_answer_raw_annotation":"3","reference_answers":{"exact_match":"3"},"reference_url":"","string_note":""}`,
			Criteria: none, Files: noFiles}, 0},
		{"gaia-web", 0, "GAIA--1", "How many?", record.Goal{Kind: "web", StartURL: "https://www.example.org/", Site: "https://www.example.org/", Answer: "42", Criteria: none, Files: noFiles}, 0},
		{"online-mind2web", 1, "d4f2", "Show red pens.", record.Goal{Kind: "web", StartURL: "https://pens.example.org/", Site: "https://pens.example.org/", Criteria: none, Files: noFiles}, 0},
		{"nemo-gym", 0, "3", "How many?", record.Goal{Kind: "prompt", Judge: "counter", Criteria: none, Files: noFiles}, 0},
	} {
		f, _ := FormatByName(c.format)
		got := parseFile(t, fixture(f), c.format)[c.row].Task
		if got.TaskID != c.id || got.Statement != c.text || got.FailToPass == nil || got.TestCmds == nil {
			t.Errorf("%s: %+v", c.format, got)
		}
		if d := cmp.Diff(c.want, *got.Goal); d != "" {
			t.Errorf("%s: -want +got:\n%s", c.format, d)
		}
	}
	insta, _ := FormatByName("insta")
	if k := parseFile(t, fixture(insta), "insta")[0].Task; !strings.HasPrefix(k.TaskID, "insta-") || k.Goal.Criteria[0].Text != "a pen is shown" || k.Goal.StartURL != "https://pens.example.org" {
		t.Errorf("%+v %+v", k, k.Goal)
	}
}

func TestFolderTasks(t *testing.T) {
	t.Parallel()
	k := parseFile(t, filepath.Join(fixtures, "harbor"), "harbor")[0].Task
	paths := map[string]record.File{}
	for _, f := range k.Goal.Files {
		paths[f.Path] = f
	}
	want := []string{"environment/Dockerfile", "environment/data.bin", "instruction.md", "solution/solve.sh", "task.toml", "tests/test.sh"}
	if got := slices.Sorted(maps.Keys(paths)); !slices.Equal(got, want) || k.TaskID != "acme/hello" || k.Statement != "Write hello into hello.txt.\n" ||
		k.Image != "registry.example.org/hello:1" || k.Workdir != "/app" || k.TimeoutMS != 120500 || k.Version != "1.0" || k.Goal.Kind != "terminal" {
		t.Errorf("%v %+v", got, k)
	}
	if b := paths["environment/data.bin"]; b.Content.Value != "\xff\x00\xfe" || b.Executable || !paths["tests/test.sh"].Executable {
		t.Errorf("%q, executable %v", b.Content.Value, paths["tests/test.sh"].Executable)
	}
	k = parseFile(t, filepath.Join(fixtures, "claw-eval"), "claw-eval")[0].Task
	w := func(f float64) *float64 { return &f }
	criteria := []record.Criterion{
		{ID: "lists", Text: `{"min_calls":1,"tool_name":"mail_list","type":"tool_called"}`, Facts: []string{}, Weight: w(0.4)},
		{ID: "says", Text: `{"field":"final_text","keywords":["urgent",2024,true],"type":"keywords_present"}`, Facts: []string{"urgent", "2024", "true"}, Weight: w(1)},
	}
	if d := cmp.Diff(criteria, k.Goal.Criteria); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if k.TaskID != "T01_mail" || k.Statement != "Sort my mail." || k.TimeoutMS != 300000 || k.Goal.Judge != "Is the mail sorted?" || k.Goal.Answer != "List it, then sort it." || k.Goal.Kind != "tools" {
		t.Errorf("%+v %+v", k, k.Goal)
	}
}
