package imports

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// r2eTests is the folder of an R2E-Gym task's tests, in the repository.
const r2eTests = "r2e_tests"

// adaptR2E: an R2E-Gym row has a commit taken apart instead of a patch, and a map from
// test to status instead of lists of names. The map leaves out in which file a test is;
// the log of the fixed commit, which the row has as well, tells.
func adaptR2E(r *reader) {
	commit := r.object(column{"parsed_commit_content"})
	gold, err := r2eGold(commit)
	if err != nil {
		r.fail("parsed_commit_content", "%v", err)
		return
	}
	run := &reader{row: r.row, values: r.object(column{"execution_result_content"})}
	names, codes := run.list(column{"test_file_names"}, false), run.list(column{"test_file_codes"}, false)
	before, after := run.text(column{"old_commit_res_stdout"}), run.text(column{"new_commit_res_stdout"})
	switch {
	case run.problem != nil:
		r.fail("execution_result_content", "%s: %s", run.problem.Field, run.problem.What)
	case len(names) != len(codes):
		r.fail("execution_result_content", "has %d test_file_names and %d test_file_codes", len(names), len(codes))
	}
	f2p, p2p, err := r2eRequired(r.object(column{"expected_output_json"}), before, after)
	if err != nil {
		r.fail("expected_output_json", "%v", err)
	}
	if r.problem != nil {
		return
	}
	tests := ""
	for i, name := range names {
		name = path.Join(r2eTests, path.Base(name))
		tests = joinPatches(tests, newFile(name, codes[i]))
	}
	fix := r.text(column{"commit_hash"})
	base, _ := commit["old_commit_hash"].(string)
	if !hexCommit.MatchString(strings.TrimSuffix(base, "^")) {
		base = fix + "^"
	}
	repo := r.text(column{"repo_name"})
	r.soft = true
	r.values[colID[0]] = repo + "__" + fix
	r.values[colRepo[0]] = repo
	r.values[colBase[0]] = base
	r.values[colPatch[0]] = gold
	r.values[colTestPatch[0]] = tests
	r.values[colLanguage[0]] = "python"
	r.values[colF2P[0]], r.values[colP2P[0]] = f2p, p2p
	r.values[colPre[0]] = []any{"rm -rf " + r2eTests} // which the policy must not see
	r.values[colTestCmds[0]] = []any{".venv/bin/python -W ignore -m pytest " + r2eTests}
}

var (
	ansiCode = regexp.MustCompile("\x1b\\[[0-9;]*m")
	passed   = regexp.MustCompile(`^PASSED (\S+?::.+)$`)
)

// r2eShort is a test as the map of an R2E-Gym row calls it: without colours, file and
// error.
func r2eShort(name string) string {
	name, _, _ = strings.Cut(ansiCode.ReplaceAllString(name, ""), " - ")
	return strings.TrimSpace(name)
}

// r2ePassed is the node ids that a log of pytest -rA says passed.
func r2ePassed(log string) map[string]bool {
	out := map[string]bool{}
	for line := range strings.Lines(log) {
		line = strings.TrimRight(ansiCode.ReplaceAllString(line, ""), "\r\n")
		if m := passed.FindStringSubmatch(line); m != nil {
			out[m[1]] = true
		}
	}
	return out
}

// r2eRequired is the tests that have to pass: those of the map that pass with the fix,
// by whether they did before. Without a log of before nobody knows, and all are in the
// second list.
func r2eRequired(expected map[string]any, before, after string) (f2p, p2p []any, err error) {
	f2p, p2p = []any{}, []any{}
	ids := map[string][]string{} // by short name
	for id := range r2ePassed(after) {
		_, rest, _ := strings.Cut(id, "::")
		short := strings.ReplaceAll(rest, "::", ".")
		ids[short] = append(ids[short], id)
	}
	was := r2ePassed(before)
	for _, name := range slices.Sorted(maps.Keys(expected)) {
		status, ok := expected[name].(string)
		if !ok {
			return nil, nil, fmt.Errorf("the status of %s must be text, not %s", shown(name), kind(expected[name]))
		}
		if status != "PASSED" {
			continue
		}
		found := ids[r2eShort(name)]
		if len(found) == 0 {
			return nil, nil, fmt.Errorf("the test %s is to pass, but the log new_commit_res_stdout in execution_result_content does not have it, so its file is not known", shown(name))
		}
		slices.Sort(found)
		for _, id := range found {
			if before != "" && !was[id] {
				f2p = append(f2p, id)
			} else {
				p2p = append(p2p, id)
			}
		}
	}
	if len(f2p)+len(p2p) == 0 {
		return nil, nil, fmt.Errorf("says of no test that it passes; nothing can be graded")
	}
	return f2p, p2p, nil
}

var testPath = regexp.MustCompile(`(^|/)(tests?|testing)/|(^|/)(test_[^/]*|[^/]*_test\.py|conftest\.py)$`)

// r2eGold is the patch of a commit taken apart, without its tests.
func r2eGold(commit map[string]any) (string, error) {
	diffs, err := asItems(commit["file_diffs"])
	if err != nil || len(diffs) == 0 {
		return "", fmt.Errorf("has no list file_diffs")
	}
	patch := ""
	for i, d := range diffs {
		d, _ := d.(map[string]any)
		name := r2ePath(d)
		if name == "" {
			return "", fmt.Errorf("file_diffs[%d] names no file", i)
		}
		if testPath.MatchString(name) {
			continue
		}
		old, hadOld := d["old_file_content"].(string)
		now, hasNow := d["new_file_content"].(string)
		if !hadOld && !hasNow {
			return "", fmt.Errorf("file_diffs[%d] (%s) has neither the old nor the new content", i, name)
		}
		if old != now {
			patch = joinPatches(patch, changeFile(name, old, now, !hadOld || nobody(d["minus_file"]), !hasNow || nobody(d["plus_file"])))
		}
	}
	if patch == "" {
		return "", fmt.Errorf("changes no file besides tests")
	}
	return patch, nil
}

// r2ePath is the path of the file that a part of the commit changes.
func r2ePath(d map[string]any) string {
	header, _ := d["header"].(map[string]any)
	for _, side := range []any{header["file"], d["plus_file"], d["minus_file"]} {
		file, _ := side.(map[string]any)
		if p, ok := file["path"].(string); ok && p != "" && p != "/dev/null" {
			return p
		}
	}
	return ""
}

// nobody: the side of a diff that has no file.
func nobody(side any) bool {
	file, ok := side.(map[string]any)
	return ok && file["path"] == "/dev/null"
}
