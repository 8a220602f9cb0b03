package imports

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"orchard/datasets/record"
)

const goPatch = "diff --git a/add.go b/add.go\n--- a/add.go\n+++ b/add.go\n@@ -1,3 +1,3 @@\n package add\n \n-func Add(a, b int) int { return a - b }\n+func Add(a, b int) int { return a + b }\n"

// row is a complete row of a Go task; change changes it, a nil value removes a column.
func row(change map[string]any) map[string]any {
	r := map[string]any{
		"instance_id": "acme__add-1", "repo": "acme/add", "base_commit": strings.Repeat("a1", 20),
		"problem_statement": "Add subtracts.", "patch": goPatch, "test_patch": "",
		"FAIL_TO_PASS": []any{"TestAdd"}, "PASS_TO_PASS": []any{},
	}
	for k, v := range change {
		if v == nil {
			delete(r, k)
		} else {
			r[k] = v
		}
	}
	return r
}

func parse(t *testing.T, values map[string]any) (record.Task, *Problem) {
	t.Helper()
	b, err := json.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	r, problem := parseRow(b, "tasks.jsonl:7")
	if problem != nil {
		t.Fatal(problem)
	}
	p, problem := Parse(r, "set")
	return p.Task, problem
}

func TestParseDefaults(t *testing.T) {
	t.Parallel()
	got, problem := parse(t, row(nil))
	if problem != nil {
		t.Fatal(problem)
	}
	got.Raw = ""
	want := record.Task{
		TaskID: "acme__add-1", Source: "set", Repo: "acme/add", Language: "go", Statement: "Add subtracts.",
		BaseCommit: strings.Repeat("a1", 20), Workdir: "/testbed", PreCommands: []string{},
		GoldPatch: record.Text{Value: goPatch, Bytes: int64(len(goPatch))},
		TestCmds:  []string{"go test -json ./..."}, LogParser: "go-test-json",
		FailToPass: []string{"TestAdd"}, PassToPass: []string{},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestParseForms(t *testing.T) {
	t.Parallel()
	at := time.Date(2023, 5, 31, 12, 30, 0, 0, time.UTC)
	for _, c := range []struct {
		name   string
		change map[string]any
		get    func(record.Task) any
		want   any
	}{
		{"list as JSON string", map[string]any{"FAIL_TO_PASS": `["a b", "c"]`}, f2p, []string{"a b", "c"}},
		{"list as numpy prints it", map[string]any{"FAIL_TO_PASS": "['a[x]' \"it's\"\n 'c\\\\d']"}, f2p, []string{"a[x]", "it's", `c\d`}},
		{"list as Python prints it", map[string]any{"FAIL_TO_PASS": `['a', "b'c", 'd\'e']`}, f2p, []string{"a", "b'c", "d'e"}},
		{"null list", map[string]any{"PASS_TO_PASS": json.RawMessage("null")}, func(k record.Task) any { return k.PassToPass }, []string{}},
		{"empty string list", map[string]any{"PASS_TO_PASS": ""}, func(k record.Task) any { return k.PassToPass }, []string{}},
		{"lower-case name", map[string]any{"FAIL_TO_PASS": nil, "fail_to_pass": []any{"x"}}, f2p, []string{"x"}},
		{"time with zone", map[string]any{"created_at": "2023-05-31T14:30:00+02:00"}, created, at},
		{"time without zone", map[string]any{"created_at": "2023-05-31 12:30:00"}, created, at},
		{"time of pandas", map[string]any{"created_at": "2023-05-31 12:30:00+00:00"}, created, at},
		{"date", map[string]any{"created_at": "2023-05-31"}, created, at.Truncate(24 * time.Hour)},
		{"epoch seconds", map[string]any{"created_at": at.Unix()}, created, at},
		{"epoch milliseconds", map[string]any{"created_at": at.UnixMilli()}, created, at},
		{"epoch nanoseconds", map[string]any{"created_at": at.UnixNano()}, created, at},
		{"epoch as text", map[string]any{"created_at": fmt.Sprint(at.UnixMilli())}, created, at},
		{"version as number", map[string]any{"version": json.RawMessage("1.10")}, func(k record.Task) any { return k.Version }, "1.10"},
		{"version as integer", map[string]any{"version": 3}, func(k record.Task) any { return k.Version }, "3"},
		{"test_cmd as text", map[string]any{"test_cmd": "go test -json ./add"}, cmds, []string{"go test -json ./add"}},
		{"test_cmd that begins with a bracket", map[string]any{"test_cmd": "[ -f go.mod ] && go test -json ./..."}, cmds, []string{"[ -f go.mod ] && go test -json ./..."}},
		{"test_cmds as list", map[string]any{"test_cmds": []any{"make", "go test -json"}}, cmds, []string{"make", "go test -json"}},
		{"install_config as object", map[string]any{"install_config": map[string]any{"test_cmd": []any{"pytest -q"}, "pre_install": "make"}}, cmds, []string{"pytest -q"}},
		{"install_config as text", map[string]any{"install_config": `{"test_cmd": "pytest -rA", "log_parser": "parse_log_pytest"}`}, parser, "pytest-rA"},
		{"foreign parser, command without -rA", map[string]any{"test_cmd": "pytest", "log_parser": "parse_log_pytest"}, parser, "pytest-junit"},
		{"foreign parser, command that tells nothing", map[string]any{"test_cmd": "make check", "log_parser": "parse_log_pytest"}, parser, "pytest-rA"},
		{"pre_install without image", map[string]any{"install_config": map[string]any{"pre_install": []any{"make"}}}, pre, []string{"make"}},
		{"pre_install with image", map[string]any{"image_name": "x:1", "install_config": map[string]any{"pre_install": []any{"make"}}}, pre, []string{}},
		{"junit by command", map[string]any{"test_cmds": "pytest -q"}, parser, "pytest-junit"},
		{"tap by command", map[string]any{"test_cmds": "bats --tap test"}, parser, "tap"},
		{"docker_image", map[string]any{"docker_image": "x/y:1"}, func(k record.Task) any { return k.Image }, "x/y:1"},
		{"timeout in seconds", map[string]any{"timeout": 90}, func(k record.Task) any { return k.TimeoutMS }, int64(90000)},
		{"timeout as text", map[string]any{"timeout": "2m"}, func(k record.Task) any { return k.TimeoutMS }, int64(120000)},
		{"language by files", map[string]any{"patch": strings.ReplaceAll(goPatch, "add.go", "add.py")}, func(k record.Task) any { return k.Language }, "python"},
		{"language by another name", map[string]any{"language": "Golang"}, func(k record.Task) any { return k.Language }, "go"},
		{"upper-case commit", map[string]any{"base_commit": strings.Repeat("A1", 20)}, func(k record.Task) any { return k.BaseCommit }, strings.Repeat("a1", 20)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, problem := parse(t, row(c.change))
			if problem != nil {
				t.Fatal(problem)
			}
			if d := cmp.Diff(c.want, c.get(got)); d != "" {
				t.Error(d)
			}
		})
	}
}

func f2p(k record.Task) any     { return k.FailToPass }
func cmds(k record.Task) any    { return k.TestCmds }
func pre(k record.Task) any     { return k.PreCommands }
func parser(k record.Task) any  { return k.LogParser }
func created(k record.Task) any { return *k.CreatedAt }

func TestParseProblems(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change map[string]any
		field  string
		what   string
	}{
		{"missing id", map[string]any{"instance_id": nil}, "instance_id", "the column is missing"},
		{"empty statement", map[string]any{"problem_statement": ""}, "problem_statement", "is empty"},
		{"id with a control character", map[string]any{"instance_id": "a\x07b"}, "instance_id", "printable"},
		{"list where text belongs", map[string]any{"repo": []any{"x"}}, "repo", "must be text, not a list"},
		{"patch that is no diff", map[string]any{"patch": "fix it"}, "patch", "changes no file"},
		{"broken patch", map[string]any{"patch": goPatch + "@@ -1,9 +1 @@\n x\n"}, "patch", "does not parse as a diff"},
		{"broken test patch", map[string]any{"test_patch": "see PR"}, "test_patch", "changes no file"},
		{"commit that is a branch", map[string]any{"base_commit": "main"}, "base_commit", "7 to 40 hex digits"},
		{"no fail to pass", map[string]any{"FAIL_TO_PASS": "[]"}, "FAIL_TO_PASS", "missing or empty"},
		{"list that is text", map[string]any{"FAIL_TO_PASS": "TestAdd"}, "FAIL_TO_PASS", "must be a list"},
		{"list cut by numpy", map[string]any{"FAIL_TO_PASS": "['a' ... 'z']"}, "FAIL_TO_PASS", "numpy left elements out"},
		{"list of numbers", map[string]any{"PASS_TO_PASS": []any{1}}, "PASS_TO_PASS", "element 0 must be text"},
		{"time in words", map[string]any{"created_at": "yesterday"}, "created_at", "is no time"},
		{"unknown parser", map[string]any{"log_parser": "parse_log_gradle"}, "log_parser", "none of go-test-json"},
		{"no test command", map[string]any{"language": "cobol"}, "test_cmds", "no usual test command"},
		{"parser not told", map[string]any{"test_cmds": "make check"}, "log_parser", "does not tell it"},
		{"relative workdir", map[string]any{"workdir": "src"}, "workdir", "absolute"},
		{"two repositories", map[string]any{"repo_dir": "a", "repo_bundle": "b"}, "repo_dir", "keep one"},
		{"install_config that is a list", map[string]any{"install_config": []any{}}, "install_config", "must be an object"},
		{"bad test_cmd in install_config", map[string]any{"install_config": `{"test_cmd": 3}`}, "install_config", "test_cmd"},
		{"negative timeout", map[string]any{"timeout": -1}, "timeout", "must be a number"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, problem := parse(t, row(c.change))
			if problem == nil {
				t.Fatal("no problem found")
			}
			if problem.Field != c.field || !strings.Contains(problem.What, c.what) || problem.Place != "tasks.jsonl:7" {
				t.Errorf("got %v, want field %s and %q", problem, c.field, c.what)
			}
		})
	}
}

// TestListForms: every way of writing the same task gives the same row.
func TestListForms(t *testing.T) {
	t.Parallel()
	name := rapid.StringMatching(`[a-zA-Z0-9_./:'" \[\]\\-]{1,30}`)
	rapid.Check(t, func(rt *rapid.T) {
		tests := rapid.SliceOfN(name, 1, 6).Draw(rt, "tests")
		config := map[string]any{"test_cmd": rapid.SampledFrom([]string{"pytest -q", "go test -json ./..."}).Draw(rt, "cmd")}
		asJSON := func(v any) string {
			b, err := json.Marshal(v)
			if err != nil {
				rt.Fatal(err)
			}
			return string(b)
		}
		forms := []map[string]any{
			row(map[string]any{"FAIL_TO_PASS": tests, "install_config": config}),
			row(map[string]any{"FAIL_TO_PASS": asJSON(tests), "install_config": asJSON(config)}),
			row(map[string]any{"FAIL_TO_PASS": numpyRepr(tests), "install_config": config}),
		}
		var first record.Task
		for i, form := range forms {
			task, problem := parse(t, form)
			if problem != nil {
				rt.Fatalf("form %d: %v", i, problem)
			}
			if err := Seal(&task); err != nil {
				rt.Fatal(err)
			}
			task.Raw = ""
			if i == 0 {
				first = task
			} else if d := cmp.Diff(first, task); d != "" {
				rt.Fatalf("form %d: %s", i, d)
			}
		}
	})
}

// numpyRepr prints strings as numpy prints an array of them.
func numpyRepr(list []string) string {
	var out []string
	for _, s := range list {
		quote := "'"
		if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
			quote = `"`
		}
		s = strings.ReplaceAll(s, `\`, `\\`)
		out = append(out, quote+strings.ReplaceAll(s, quote, `\`+quote)+quote)
	}
	return "[" + strings.Join(out, " ") + "]"
}

func FuzzParse(f *testing.F) {
	for _, seed := range []map[string]any{row(nil), row(map[string]any{"FAIL_TO_PASS": "['a' 'b']", "created_at": 1.7e12}), {"instance_id": 3}} {
		b, err := json.Marshal(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r, problem := parseRow(text, "f:1")
		if problem != nil {
			return
		}
		p, problem := Parse(r, "fuzz")
		switch {
		case problem != nil && (problem.Place == "" || problem.Field == "" || problem.What == ""):
			t.Errorf("a problem that does not say all: %#v", problem)
		case problem == nil && (p.Task.TaskID == "" || len(p.Task.FailToPass) == 0 || p.Task.PassToPass == nil || p.Task.PreCommands == nil):
			t.Errorf("an incomplete task: %+v", p.Task)
		}
	})
}
