package imports

import (
	"encoding/json"
	"path"
	"strings"

	"github.com/BurntSushi/toml"
	"sigs.k8s.io/yaml"

	"orchard/datasets/record"
)

// folderFormats are tasks that are folders. Their row has the folder's name and files.
var folderFormats = []*Format{
	{Name: "harbor", rank: 2, needs: needs("name files"), tells: has("task.toml"), task: harbor},
	{Name: "claw-eval", rank: 2, needs: needs("name files"), tells: func(row Row) bool { return has("task.yaml")(row) && !has("tests.json")(row) }, task: clawEval},
	{Name: "swe-bench-task", rank: 2, needs: needs("name files"), tells: has("tests.json"), adapt: adaptTaskFolder},
}

// has is whether a row's folder has a file.
func has(name string) func(Row) bool {
	return func(row Row) bool {
		files, _ := row.Values["files"].([]any)
		for _, f := range files {
			if o, ok := f.(map[string]any); ok && o["path"] == name {
				return true
			}
		}
		return false
	}
}

// folder is the files of the row, by path.
func (r *reader) folder() (list []record.File, by map[string]string) {
	list, by = []record.File{}, map[string]string{}
	b, err := json.Marshal(r.values["files"])
	var files []folderFile
	if err == nil {
		err = json.Unmarshal(b, &files)
	}
	if err != nil {
		r.fail("files", "must be a list of path and text or base64: %v", err)
		return list, by
	}
	for _, f := range files {
		if f.Path == "" || path.IsAbs(f.Path) || path.Clean(f.Path) != f.Path || strings.HasPrefix(f.Path, "../") || f.Path == ".." {
			r.fail("files", "%s is no path below the folder", shown(f.Path))
			continue
		}
		text := f.content()
		by[f.Path] = text
		list = append(list, record.File{Path: f.Path, Executable: f.Executable, Content: record.Text{Value: text, Bytes: int64(len(text))}})
	}
	return list, by
}

// inFile is a reader of what a file of the folder says; its problems name the file.
func (r *reader) inFile(values map[string]any) *reader { return &reader{row: r.row, values: values} }

func (r *reader) take(file string, inner *reader) {
	if inner.problem != nil {
		r.fail(file, "%s: %s", inner.problem.Field, inner.problem.What)
	}
}

// harbor reads a task of Terminal-Bench 2.0 or another set in Harbor's folders. Which
// version of task.toml it is does not matter to what is taken from it.
func harbor(r *reader) record.Task {
	files, by := r.folder()
	var conf map[string]any
	if _, err := toml.Decode(by["task.toml"], &conf); err != nil {
		r.fail("task.toml", "is not TOML: %v", err)
	}
	b, err := json.Marshal(conf)
	if err != nil || decode(b, &conf) != nil {
		r.fail("task.toml", "holds a value that is no JSON: %v", err)
	}
	task, verifier, env := r.section(conf, "task"), r.section(conf, "verifier"), r.section(conf, "environment")
	meta := r.section(conf, "metadata")
	id := task.text(column{"name"})
	if id == "" {
		id = r.need(column{"name"})
	}
	statement := by["instruction.md"]
	multi := false
	for name := range by {
		multi = multi || strings.HasPrefix(name, "steps/")
	}
	if strings.TrimSpace(statement) == "" && !multi {
		r.fail("instruction.md", "is missing or empty; every task needs it")
	}
	if _, ok := by["tests/test.sh"]; !ok && !multi {
		r.fail("tests/test.sh", "is missing; nothing could be graded")
	}
	judge := map[string]any{}
	if verifier.values != nil {
		judge["verifier"] = verifier.values
	}
	if env.values != nil {
		judge["environment"] = env.values
	}
	t := goalTask(id, statement, record.Goal{Kind: record.GoalTerminal, Judge: jsonText(judge), Files: files})
	t.Image = env.text(column{"docker_image"})
	t.Workdir = env.text(column{"workdir"})
	if t.Workdir == "" {
		t.Workdir = dockerWorkdir(by["environment/Dockerfile"])
	}
	t.TimeoutMS = verifier.timeout()
	t.Version = verifier.text(column{"version"})
	for _, name := range []string{"schema_version", "version"} {
		if v, err := asText(conf[name]); err == nil && t.Version == "" {
			t.Version = v
		}
	}
	for _, inner := range []*reader{task, verifier, env, meta} {
		r.take("task.toml", inner)
	}
	return t
}

func (r *reader) section(conf map[string]any, name string) *reader {
	o, err := asObject(conf[name])
	if err != nil {
		r.fail("task.toml", "%s: %v", name, err)
	}
	return r.inFile(o)
}

// dockerWorkdir is the last WORKDIR of a Dockerfile, "" when it sets none that can be
// told without building it.
func dockerWorkdir(text string) string {
	dir := ""
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) == 2 && strings.EqualFold(f[0], "WORKDIR") && !strings.Contains(f[1], "$") {
			if path.IsAbs(f[1]) {
				dir = path.Clean(f[1])
			} else if dir != "" {
				dir = path.Join(dir, f[1])
			}
		}
	}
	return dir
}

// asYAML is a YAML file as JSON would have it.
func (r *reader) asYAML(file, text string) map[string]any {
	b, err := yaml.YAMLToJSON([]byte(text))
	var o map[string]any
	if err == nil {
		err = decode(b, &o)
	}
	if err != nil {
		r.fail(file, "is not a YAML object: %s", jsonError(err))
	}
	return o
}

// clawEval reads a task.yaml of Claw-Eval with the grader beside it.
func clawEval(r *reader) record.Task {
	files, by := r.folder()
	const file = "task.yaml"
	y := r.inFile(r.asYAML(file, by[file]))
	prompt := y.inFile(y.object(column{"prompt"}))
	env := y.inFile(y.object(column{"environment"}))
	goal := record.Goal{Kind: record.GoalTools, Judge: y.text(column{"judge_rubric"}), Answer: y.text(column{"reference_solution"}), Files: files}
	for i, e := range y.items(column{"scoring_components"}) {
		o, ok := e.(map[string]any)
		if !ok {
			y.fail("scoring_components", "element %d must be an object, not %s", i, kind(e))
			continue
		}
		c := y.inFile(o)
		check := c.object(column{"check"})
		goal.Criteria = append(goal.Criteria, record.Criterion{ID: c.text(column{"name"}), Text: jsonText(check),
			Facts: c.inFile(check).words("keywords"), Weight: c.number("weight")})
		y.take("scoring_components", c)
	}
	t := goalTask(y.need(column{"task_id"}), prompt.need(column{"text"}), goal)
	t.Language = "" // prompt.language is that of the words
	t.Version = y.text(colVersion)
	t.TimeoutMS = env.timeout()
	y.take("prompt", prompt)
	y.take("environment", env)
	r.take(file, y)
	return t
}

// words is a list of which YAML may have taken some for numbers.
func (r *reader) words(name string) []string {
	out := []string{}
	l, err := asItems(r.values[name])
	for _, e := range l {
		s, terr := asText(e)
		if b, ok := e.(bool); ok {
			s, terr = jsonText(b), nil
		}
		if terr != nil {
			err = terr
		}
		out = append(out, s)
	}
	if err != nil {
		r.fail(name, "%v", err)
	}
	return out
}

// number is nil when there is none.
func (r *reader) number(name string) *float64 {
	switch v := r.values[name].(type) {
	case nil:
		return nil
	case json.Number:
		if f, err := v.Float64(); err == nil {
			return &f
		}
	case float64:
		return &v
	case int64:
		f := float64(v)
		return &f
	}
	r.fail(name, "must be a number, not %s", kind(r.values[name]))
	return nil
}

// adaptTaskFolder: a task of the SWE-bench harness as a folder. Its columns are the
// members of task.yaml and tests.json, and the texts that are files of their own.
func adaptTaskFolder(r *reader) {
	_, by := r.folder()
	values := r.asYAML("task.yaml", by["task.yaml"])
	if values == nil {
		values = map[string]any{}
	}
	var tests map[string]any
	if err := decode([]byte(by["tests.json"]), &tests); err != nil {
		r.fail("tests.json", "is not a JSON object: %s", jsonError(err))
	}
	for name, v := range tests {
		values[name] = v
	}
	if values[colID[0]] == nil {
		values[colID[0]] = r.values["name"]
	}
	for _, f := range []struct{ file, column string }{
		{"problem_statement.md", colStatement[0]}, {"hints.md", colHints[0]}, {"eval.sh", "eval_script"},
		{"patch.diff", colPatch[0]}, {"test_patch.diff", colTestPatch[0]},
	} {
		if text, ok := by[f.file]; ok && values[f.column] == nil {
			values[f.column] = text
		}
	}
	r.values = values
	if values["eval_script"] != nil {
		r.evalScript()
	}
	r.image("swebench/sweb.eval.x86_64.", "_1776_")
}
