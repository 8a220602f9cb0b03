package filter

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/objstore"
	"orchard/internal/runner"
	"orchard/jobs/filter/funnel"
)

func plain(id, repo string) record.Task {
	return record.Task{TaskID: id, Repo: repo, Raw: "{}", PreCommands: []string{}, TestCmds: []string{}, FailToPass: []string{}, PassToPass: []string{}}
}

// filtered runs a rule file over tasks.
func filtered(t *testing.T, root, rules string, evals []record.Task, tasks ...record.Task) (runner.Result, funnel.Funnel) {
	t.Helper()
	c := Defaults()
	c.In, c.Out = []string{written(t, root, "tasks", each(tasks))}, filepath.Join(root, "out")
	if rules != "" {
		c.Rules = filepath.Join(root, "rules.yaml")
		if err := os.WriteFile(c.Rules, []byte(rules), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if evals != nil {
		c.Evals = []string{written(t, root, "evals", each(evals))}
	}
	r, err := Run(t.Context(), c, quiet())
	if err != nil {
		t.Fatal(err)
	}
	var f funnel.Funnel
	if err := json.Unmarshal(resultFiles(t, r)["funnel.json"], &f); err != nil {
		t.Fatal(err)
	}
	return r, f
}

// A count is taken of the rows that came through the rules before it, counting ones
// included: a-rows lose one to the first rule, b-rows one to the second.
func TestCountsInOrder(t *testing.T) {
	t.Parallel()
	r, f := filtered(t, t.TempDir(), `
rules:
  - {name: first, drop: task_id == "a1"}
  - {name: pairs, keep: count_by(repo) >= 2}
  - {name: crowd, keep: 'count_by(task_id matches "^[ab]") >= 4 || count_by(repo) == 3'}
`, nil, plain("a1", "a"), plain("a2", "a"), plain("b1", "b"), plain("b2", "b"), plain("c1", "c"), plain("c2", "c"), plain("c3", "c"))
	compare(t, r, map[string]string{"a1": "first", "a2": "pairs", "b1": "crowd", "b2": "crowd", "c1": "", "c2": "", "c3": ""}, func(string) string { return "" })
	if err := f.Check(); err != nil {
		t.Error(err)
	}
}

// A patch too long for its row is read whole, by rules and by comparing, and the row goes on
// as it was.
func TestLongPatches(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	store, err := datasets.Stores(t.Context(), "file://"+root)
	if err != nil {
		t.Fatal(err)
	}
	long := func(word string) record.Text {
		body := strings.Repeat("+the line of a "+word+" that goes on\n", 3000)
		text, err := datasets.Keeper{Store: store}.Keep(t.Context(), []byte("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -0,0 +1,3000 @@\n"+body))
		if err != nil || text.Blob == "" {
			t.Fatal("the patch is not long", err)
		}
		return text
	}
	kept, same := plain("kept", "o/r"), plain("same", "o/r")
	kept.GoldPatch, same.GoldPatch = long("cat"), long("dog")
	eval := plain("eval", "p/q")
	eval.GoldPatch = same.GoldPatch
	r, _ := filtered(t, root, "rules:\n  - {name: size, keep: lines(patch) == 3000}\n", []record.Task{eval}, kept, same)
	compare(t, r, map[string]string{"kept": "", "same": "contaminated_patch_hash"}, func(string) string { return "" })
	v, err := datasets.Open(t.Context(), datasets.Stores, r.URI)
	if err != nil {
		t.Fatal(err)
	}
	for row, err := range datasets.Rows[record.Task](t.Context(), v) {
		if d := cmp.Diff(kept, row); err != nil || d != "" {
			t.Error(err, d)
		}
	}
	if _, _, err := objstore.ReadAll(t.Context(), store, "blobs/"+kept.GoldPatch.Blob, 1<<20); err != nil {
		t.Error(err)
	}
}

// What a check cannot know is counted beside the rows that it let through.
func TestUnknownIsCounted(t *testing.T) {
	t.Parallel()
	_, f := filtered(t, t.TempDir(), "", []record.Task{plain("e", "o/r")}, plain("a", "o/r"), plain("b", "o/x"))
	for _, s := range f.Steps {
		if want := map[bool]int64{true: 1}[s.Name == "contaminated_later_base"]; s.Unknown != want || s.Sum() != 0 {
			t.Errorf("%+v", s)
		}
	}
}
