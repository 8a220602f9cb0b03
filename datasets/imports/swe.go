package imports

import (
	"encoding/json"
	"path"
	"regexp"
	"strings"
)

// core is the columns of SWE-bench that tell its family.
const core = "instance_id repo base_commit problem_statement patch test_patch FAIL_TO_PASS PASS_TO_PASS version environment_setup_commit "

// sweFormats are SWE-bench and the sets that add columns to it.
var sweFormats = []*Format{
	{Name: "swe-bench", rank: 1, needs: needs(core), never: needs("eval_script"),
		adapt: func(r *reader) { r.assets(); r.image("swebench/sweb.eval.x86_64.", "_1776_") }},
	{Name: "swe-bench-v5", rank: 2, needs: needs("instance_id repo base_commit problem_statement patch eval_script log_parser"),
		adapt: func(r *reader) { r.assets(); r.evalScript(); r.image("swebench/sweb.eval.x86_64.", "_1776_") }},
	{Name: "swe-bench-live", rank: 2, needs: needs("instance_id repo base_commit problem_statement patch pull_number|issue_numbers test_cmds log_parser"),
		adapt: func(r *reader) { r.image("starryzhang/sweb.eval.x86_64.", "_1776_") }},
	{Name: "swe-bench-extra", rank: 2, needs: needs(core + "meta license"), never: needs("install_config")},
	{Name: "swe-rebench", rank: 2, needs: needs("instance_id repo base_commit problem_statement patch FAIL_TO_PASS PASS_TO_PASS install_config meta FAIL_TO_FAIL|PASS_TO_FAIL|license_name|docker_image|requirements"),
		never: needs("interface pr_description"),
		adapt: func(r *reader) { r.image("swerebench/sweb.eval.x86_64.", "_1776_") }},
	{Name: "swe-rebench-v2", rank: 2, needs: needs("instance_id repo base_commit problem_statement patch FAIL_TO_PASS PASS_TO_PASS language install_config interface|pr_description"),
		adapt: adaptRebenchV2},
	{Name: "swe-gym", rank: 2, only: true, needs: needs("instance_id hints_text patch test_patch created_at problem_statement repo base_commit version FAIL_TO_PASS PASS_TO_PASS"),
		adapt: func(r *reader) { r.image("xingyaoww/sweb.eval.x86_64.", "_s_") }},
}

// image derives the name of a task's image when the row names neither an image nor a
// repository. Image names are lower case.
func (r *reader) image(prefix, dunder string) {
	if v, _ := colImage.in(r.values); v != nil && v != "" {
		return
	}
	for _, c := range []column{colBundle, colDir, colFastImport} {
		if v, _ := c.in(r.values); v != nil && v != "" {
			return
		}
	}
	if id := r.text(colID); id != "" {
		r.values[colImage[0]] = "docker.io/" + prefix + strings.ToLower(strings.ReplaceAll(id, "__", dunder)) + ":latest"
	}
}

// assets is the pictures of a multimodal task, which stay in the raw row. They must be
// readable, as what they belong to cannot be understood without them.
func (r *reader) assets() { r.object(column{"image_assets"}) }

// evalScript takes the test commands out of the script that runs a task's tests: what
// stands between its two markers. The script's own way of placing the test files is
// left, since grading does that.
func (r *reader) evalScript() {
	const field = "eval_script"
	script := r.text(column{field})
	_, rest, ok := strings.Cut(script, ">>>>> Start Test Output")
	inner, _, ended := strings.Cut(rest, ">>>>> End Test Output")
	if !ok || !ended {
		r.fail(field, "has no lines with >>>>> Start Test Output and >>>>> End Test Output to take the test commands from")
		return
	}
	var cmds []any
	for line := range strings.Lines(inner) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || strings.Trim(line, `'":`) == "" || line == `: '` || line == `: "` {
			continue
		}
		cmds = append(cmds, line)
	}
	if v, _ := colTestCmds.in(r.values); v == nil {
		r.values[colTestCmds[0]] = cmds
	}
}

// adaptRebenchV2: the repository lies at / and the repository's own name.
func adaptRebenchV2(r *reader) {
	if r.text(colWorkdir) == "" {
		r.values[colWorkdir[0]] = "/" + path.Base(r.text(colRepo))
	}
}

// otherSWEFormats are sets with a shape of their own.
var otherSWEFormats = []*Format{
	{Name: "scale-swe", rank: 2, needs: needs("instance_id user repo parent_commit problem_statement patch FAIL_TO_PASS f2p_script|f2p_patch image_url|workdir"), adapt: adaptScale},
	{Name: "swe-smith", rank: 2, needs: needs("instance_id patch FAIL_TO_PASS PASS_TO_PASS repo problem_statement image_name"),
		never: needs("test_patch install_config environment_setup_commit"), tells: isSmith, adapt: adaptSmith},
	{Name: "r2e-gym", rank: 2, needs: needs("repo_name docker_image commit_hash parsed_commit_content problem_statement expected_output_json"), adapt: adaptR2E},
	{Name: "orchard-rl", rank: 2, needs: needs("problem_statement patch metadata"), never: needs("instance_id task_id"),
		tells: func(row Row) bool {
			m, _ := asObject(row.Values["metadata"])
			return m["instance_id"] != nil
		},
		adapt: func(r *reader) {
			for name, v := range r.object(column{"metadata"}) {
				if r.values[name] == nil {
					r.values[name] = v
				}
			}
			if v := r.values["dataset"]; v != nil && r.values["source"] == nil {
				r.values["source"] = v
			}
		}},
}

// f2pScript is where the script of a Scale-SWE task is put, to be run through pytest.
const f2pScript = "test_fail_to_pass.py"

func adaptScale(r *reader) {
	user, repo := r.text(column{"user"}), r.text(colRepo)
	if user != "" && !strings.Contains(repo, "/") {
		r.values[colRepo[0]] = user + "/" + repo
	}
	patch := r.exact(column{"f2p_patch"})
	if script := r.exact(column{"f2p_script"}); strings.TrimSpace(script) != "" && !strings.Contains(patch, f2pScript) {
		patch = joinPatches(patch, newFile(f2pScript, script))
	}
	if r.values[colTestPatch[0]] == nil {
		r.values[colTestPatch[0]] = patch
	}
	// They may hold a line end that was written as a backslash and an n.
	cmds := r.list(colPre, true)
	out := make([]any, len(cmds))
	for i, c := range cmds {
		if !strings.Contains(c, "\n") {
			c = strings.ReplaceAll(c, `\n`, "\n")
		}
		out[i] = c
	}
	r.values[colPre[0]] = out
}

// isSmith: the name of image or repository says whose the row is. It matters, since a
// patch that is no bug must not be reversed.
func isSmith(row Row) bool {
	for _, name := range []string{"image_name", "repo"} {
		if s, ok := row.Values[name].(string); ok && strings.Contains(strings.ToLower(s), "swesmith") {
			return true
		}
	}
	return false
}

var smithCommit = regexp.MustCompile(`\.([0-9a-f]{7,40})$`)

// adaptSmith: the patch of a SWE-smith row makes the bug, so the gold patch is its
// reverse, and the bug is committed before the policy starts.
func adaptSmith(r *reader) {
	bug := r.needExact(colPatch)
	gold, err := reversed(bug)
	if err != nil {
		r.fail(colPatch[0], "cannot be reversed: %v", err)
		return
	}
	r.values[colPatch[0]] = gold
	repo := r.text(colRepo)
	if v, _ := colBase.in(r.values); v == nil {
		if m := smithCommit.FindStringSubmatch(repo); m != nil {
			r.values[colBase[0]] = m[1]
		}
	}
	name := path.Base(smithCommit.ReplaceAllString(repo, ""))
	r.values[colRepo[0]] = strings.Replace(name, "__", "/", 1)
	r.values[colPre[0]] = []any{applyCommand(bug)}
	if name := r.text(column{"image_name"}); name != "" && !strings.Contains(name, "/") {
		r.values["image_name"] = "docker.io/swesmith/" + strings.ToLower(strings.ReplaceAll(name, "__", "_1776_"))
	}
}

// jsonText is v as JSON; v came out of JSON or Parquet.
func jsonText(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(b)
}
