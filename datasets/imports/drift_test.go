package imports

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orchard/internal/exit"
)

// rawRow is the first row of a format's fixture, to be changed.
func rawRow(t *testing.T, format string) map[string]any {
	t.Helper()
	f, err := FormatByName(format)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(fixture(f))
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(b), "\n")
	var o map[string]any
	if err := decode([]byte(line), &o); err != nil {
		t.Fatal(err)
	}
	return o
}

// changed parses the first row of a format with some columns changed; nil removes one.
func changed(t *testing.T, format string, change map[string]any) (Parsed, *Problem) {
	t.Helper()
	o := rawRow(t, format)
	for k, v := range change {
		if v == nil {
			delete(o, k)
		} else {
			o[k] = v
		}
	}
	row, problem := parseRow(mustJSON(o), "f:1")
	if problem != nil {
		t.Fatal(problem)
	}
	f, _ := FormatByName(format)
	return f.Parse(row, "set")
}

func TestDrift(t *testing.T) {
	t.Parallel()
	null := json.RawMessage("null")
	for _, c := range []struct {
		name, format string
		change       map[string]any
		get          func(Parsed) any
		want         any
	}{
		{"lists as Python prints them", "swe-rebench", map[string]any{"FAIL_TO_PASS": "['a', \"it's\"]"}, parsedF2P, []string{"a", "it's"}},
		{"lists as numpy's array", "swe-rebench", map[string]any{"FAIL_TO_PASS": "array(['a', 'b'], dtype=object)"}, parsedF2P, []string{"a", "b"}},
		{"lists as a tuple", "swe-rebench", map[string]any{"FAIL_TO_PASS": "('a', 'b')"}, parsedF2P, []string{"a", "b"}},
		{"a JSON list in JSON", "swe-bench", map[string]any{"FAIL_TO_PASS": []any{"a"}}, parsedF2P, []string{"a"}},
		{"null list", "swe-rebench", map[string]any{"PASS_TO_PASS": null}, func(p Parsed) any { return p.Task.PassToPass }, []string{}},
		{"null text", "swe-bench", map[string]any{"hints_text": null}, func(p Parsed) any { return p.Task.Hints }, ""},
		{"install_config as Python prints it", "swe-rebench", map[string]any{"install_config": "{'test_cmd': 'pytest -rA', 'no_use_env': None, 'python': 3.9}"}, func(p Parsed) any { return p.Task.TestCmds }, []string{"pytest -rA"}},
		{"install_config as JSON", "swe-rebench", map[string]any{"install_config": `{"test_cmd":["pytest -q"]}`}, func(p Parsed) any { return p.Task.TestCmds }, []string{"pytest -q"}},
		{"an image of its own", "swe-rebench", map[string]any{"docker_image": "X/y:1"}, image, "X/y:1"},
		{"image_name before docker_image", "swe-rebench", map[string]any{"docker_image": "b", "image_name": "a"}, image, "a"},
		{"image of mixed case", "swe-gym", map[string]any{"instance_id": "Project-MONAI__MONAI-1"}, image, "docker.io/xingyaoww/sweb.eval.x86_64.project-monai_s_monai-1:latest"},
		{"a repository needs no image", "swe-gym", map[string]any{"repo_dir": "r"}, image, ""},
		{"created_at in seconds as text", "swe-rebench-v2", map[string]any{"created_at": "1685536200"}, func(p Parsed) any { return p.Task.CreatedAt.UnixMilli() }, int64(1685536200000)},
		{"test_cmd as text", "swe-rebench-v2", map[string]any{"install_config": map[string]any{"test_cmd": "pytest -rA", "log_parser": "parse_log_pytest"}}, func(p Parsed) any { return p.Task.TestCmds }, []string{"pytest -rA"}},
		{"no script of tests", "scale-swe", map[string]any{"f2p_script": null}, func(p Parsed) any { return strings.Contains(p.Task.TestPatch.Value, f2pScript) }, false},
		{"pre_commands as a list", "scale-swe", map[string]any{"pre_commands": []any{`a\nb`, "c"}}, func(p Parsed) any { return p.Task.PreCommands }, []string{"a\nb", "c"}},
		{"pre_commands with a real line end", "scale-swe", map[string]any{"pre_commands": "printf 'a\\n'\ntrue"}, func(p Parsed) any { return p.Task.PreCommands }, []string{"printf 'a\\n'\ntrue"}},
		{"repo with its owner", "scale-swe", map[string]any{"repo": "acme/calc"}, func(p Parsed) any { return p.Task.Repo }, "acme/calc"},
		{"base_commit of the generator", "swe-smith", map[string]any{"base_commit": strings.Repeat("d4", 20)}, func(p Parsed) any { return p.Task.BaseCommit }, strings.Repeat("d4", 20)},
		{"an image with its owner", "swe-smith", map[string]any{"image_name": "me/swesmith.x86_64.x__y.1"}, image, "me/swesmith.x86_64.x__y.1"},
		{"metadata as JSON", "orchard-rl", map[string]any{"metadata": `{"instance_id":"a-1","repo":"a/b","base_commit":"1234567","FAIL_TO_PASS":"[\"t\"]"}`}, parsedF2P, []string{"t"}},
		{"no log of before", "r2e-gym", map[string]any{"execution_result_content": strings.Replace(rawRow(t, "r2e-gym")["execution_result_content"].(string), "old_commit_res_stdout", "x", 1)}, func(p Parsed) any { return len(p.Task.FailToPass) + 10*len(p.Task.PassToPass) }, 20},
		{"R2E-Gym as objects", "r2e-gym", map[string]any{"expected_output_json": map[string]any{"test_zero": "PASSED"}}, func(p Parsed) any { return p.Task.PassToPass }, []string{"r2e_tests/test_1.py::test_zero"}},
		{"task_id as text", "webgym", map[string]any{"task_id": "x-1"}, func(p Parsed) any { return p.Task.TaskID }, "x-1"},
		{"rubric as JSON, facts as text", "webgym", map[string]any{"evaluator_reference": `[{"id":"a","description":"d","facts":"f"}]`}, func(p Parsed) any { return p.Task.Goal.Criteria[0].Facts }, []string{"f"}},
		{"no rubric", "webgym", map[string]any{"evaluator_reference": null}, func(p Parsed) any { return len(p.Task.Goal.Criteria) }, 0},
		{"domain and task", "insta", map[string]any{"website": nil, "instruction": nil, "domain": "pens.example.org", "task": "Find a pen."}, func(p Parsed) any { return p.Task.Goal.StartURL }, "https://pens.example.org"},
		{"a prompt that is text", "nemo-gym", map[string]any{"responses_create_params": `{"input":"Go on."}`}, func(p Parsed) any { return p.Task.Statement }, "Go on."},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, problem := changed(t, c.format, c.change)
			if problem != nil {
				t.Fatal(problem)
			}
			if d := cmp.Diff(c.want, c.get(p)); d != "" {
				t.Error(d)
			}
		})
	}
}

func parsedF2P(p Parsed) any { return p.Task.FailToPass }
func image(p Parsed) any     { return p.Task.Image }

func TestRefused(t *testing.T) {
	t.Parallel()
	null := json.RawMessage("null")
	for _, c := range []struct {
		name, format string
		change       map[string]any
		want         string // field: what
	}{
		{"hidden tests", "swe-bench", map[string]any{"FAIL_TO_PASS": "[]"}, "FAIL_TO_PASS: is missing or empty"},
		{"pictures", "swe-bench", map[string]any{"image_assets": "a.png"}, "image_assets: must be an object or its JSON"},
		{"no markers", "swe-bench-v5", map[string]any{"eval_script": "pytest"}, "eval_script: has no lines with >>>>> Start Test Output"},
		{"a parser that nobody has here", "swe-rebench-v2", map[string]any{"install_config": map[string]any{"test_cmd": "gradle test", "log_parser": "parse_log_gradle"}}, "log_parser: \"parse_log_gradle\" is none of"},
		{"test_cmd is a number", "swe-rebench", map[string]any{"install_config": map[string]any{"test_cmd": 3}}, "install_config: test_cmd: must be a list"},
		{"no base", "scale-swe", map[string]any{"parent_commit": null}, "base_commit: the column is missing"},
		{"a bug that is no diff", "swe-smith", map[string]any{"patch": "oops"}, "patch: cannot be reversed: it changes no file"},
		{"a bug that is empty", "swe-smith", map[string]any{"patch": ""}, "patch: is empty"},
		{"no commit in the name", "swe-smith", map[string]any{"repo": "swesmith/calc"}, "base_commit: the column is missing"},
		{"no commit taken apart", "r2e-gym", map[string]any{"parsed_commit_content": "{}"}, "parsed_commit_content: has no list file_diffs"},
		{"a test without a file", "r2e-gym", map[string]any{"expected_output_json": `{"other":"PASSED"}`}, `expected_output_json: the test "other" is to pass, but the log`},
		{"nothing passes", "r2e-gym", map[string]any{"expected_output_json": `{"other":"FAILED"}`}, "expected_output_json: says of no test that it passes"},
		{"a log that is a list", "r2e-gym", map[string]any{"execution_result_content": `{"old_commit_res_stdout":[]}`}, "execution_result_content: old_commit_res_stdout: must be text"},
		{"metadata without a base", "orchard-rl", map[string]any{"metadata": map[string]any{"instance_id": "a", "repo": "a/b"}}, "base_commit: the column is missing"},
		{"no address", "webvoyager", map[string]any{"web": "ftp://x"}, `web: "ftp://x" is no address of a website`},
		{"no question", "webvoyager", map[string]any{"ques": ""}, "ques: is empty"},
		{"a rubric of numbers", "webgym", map[string]any{"evaluator_reference": []any{3}}, "evaluator_reference: element 0 must be an object"},
		{"steps that are no list", "insta", map[string]any{"steps": map[string]any{}}, "steps: must be a list"},
		{"a prompt without a user", "nemo-gym", map[string]any{"responses_create_params": map[string]any{"input": []any{}}}, "responses_create_params: input has no text of a user"},
		{"no answer", "nemo-gym-rollouts", map[string]any{"response": map[string]any{"output": []any{}}}, "response: has no output"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, problem := changed(t, c.format, c.change)
			if problem == nil {
				t.Fatal("taken")
			}
			if got := problem.Field + ": " + problem.What; !strings.Contains(got, c.want) || problem.Place != "f:1" {
				t.Errorf("got %v, want %s", problem, c.want)
			}
		})
	}
}

// TestBrokenFolders: each file of a task that cannot be read is named.
func TestBrokenFolders(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ format, name, content, want string }{
		{"harbor", "task.toml", "[task\n", "task.toml: is not TOML"},
		{"harbor", "task.toml", "task = 3\n", "task.toml: task: must be an object"},
		{"harbor", "task.toml", "[verifier]\ntimeout_sec = \"soon\"\n", "task.toml: timeout_sec: \"soon\" must be a number"},
		{"harbor", "instruction.md", " \n", "instruction.md: is missing or empty"},
		{"harbor", "tests/test.sh", "", "tests/test.sh: is missing"},
		{"harbor", "link", "", "link: is a link or a special file"},
		{"claw-eval", "task.yaml", "task_id: [\n", "task.yaml: is not a YAML object"},
		{"claw-eval", "task.yaml", "task_id: x\n", "task.yaml: prompt: text: the column is missing"},
		{"claw-eval", "task.yaml", "prompt: {text: x}\n", "task.yaml: task_id: the column is missing"},
		{"claw-eval", "task.yaml", "task_id: x\nprompt: {text: x}\nscoring_components: [{weight: much}]\n", "scoring_components: weight: must be a number, not text"},
		{"swe-bench-task", "tests.json", "[]", "tests.json: is not a JSON object"},
	} {
		f, _ := FormatByName(c.format)
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(fixture(f))); err != nil {
			t.Fatal(err)
		}
		folders, err := taskFolders(dir)
		if err != nil || len(folders) != 1 {
			t.Fatal(folders, err)
		}
		path := filepath.Join(folders[0], c.name)
		switch {
		case c.name == "link":
			err = os.Symlink("/etc/passwd", path)
		case c.content == "":
			err = os.Remove(path)
		default:
			err = os.WriteFile(path, []byte(c.content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		err = Read(t.Context(), dir, func(row Row, problem *Problem) error {
			if problem == nil {
				_, problem = f.Parse(row, "set")
			}
			if problem == nil || !strings.Contains(problem.Error(), c.want) || problem.Place != folders[0] {
				t.Errorf("%s of %s: got %v, want %s", c.name, c.format, problem, c.want)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func TestDetectRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, rows, want string }{
		{"unknown", `{"question":"x","answer":"y"}`, "the format is not known: it has the columns answer, question; known are tasks, swe-bench,"},
		{"a bug without its maker", `{"instance_id":"x","patch":"","FAIL_TO_PASS":[],"PASS_TO_PASS":[],"repo":"a/b","problem_statement":"","image_name":"mine"}`, "the format is not known"},
		{"two at once", `{"web_name":"x","id":"x--0","ques":"q","web":"w","responses_create_params":{}}`, "the format is not clear: with the columns id, ques, responses_create_params, web, web_name it may be webvoyager or nemo-gym; say which with --format"},
	} {
		_, err := Detect(t.Context(), write(t, "f.jsonl", c.rows+"\n"))
		if exit.Code(err) != exit.Input || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := FormatByName("swebench"); exit.Code(err) != exit.Config || !strings.Contains(err.Error(), "known are tasks,") {
		t.Error(err)
	}
	// A column that only later rows have counts as well.
	f, err := Detect(t.Context(), write(t, "f.jsonl", "{\"messages\":[]}\n{\"messages\":[],\"uuid\":\"x\"}\n"))
	if err != nil || f.Name != "nemotron-sft" {
		t.Error(f, err)
	}
	// Tasks that are folders beside files of rows: which ones are meant is not guessed.
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(fixtures, "harbor"))); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "rows.jsonl"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Files([]string{dir}); exit.Code(err) != exit.Input || !strings.Contains(err.Error(), "both tasks that are folders (hello) and files of rows (rows.jsonl)") {
		t.Error(err)
	}
}
