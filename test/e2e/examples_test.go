package e2e_test

import (
	"io/fs"
	"os"
	"path"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orchard/datasets/record"
	"orchard/examples"
)

// inPatches is a patch that lies beside the rows: "wrong" or "comment".
func inPatches(t *testing.T, k record.Task, variant string) string {
	t.Helper()
	b, err := fs.ReadFile(examples.FS, path.Join(path.Dir(examples.Tasks), "patches", k.TaskID+"."+variant+".patch"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// gradings is how often the gold patch of a task is graded: three times for the first
// task of each language, for every task where time is no matter.
func gradings(first bool) int {
	switch {
	case testing.Short():
		return 1
	case first || os.Getenv("ORCHARD_SOAK") == "1":
		return 3
	}
	return 1
}

func TestGoldPatchesResolve(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, k := range tasks(t) {
		n := gradings(!seen[k.Language])
		seen[k.Language] = true
		t.Run(k.TaskID, func(t *testing.T) {
			t.Parallel()
			needToolchain(t, k.Language)
			var first []record.TestResult
			for i := range n {
				v := verdict(t, k, k.GoldPatch.Value)
				if v.Outcome != record.Resolved || v.Reward == nil || *v.Reward != 1 || len(v.Dropped) > 0 {
					t.Fatalf("time %d: %s: %s, dropped %v\n%s", i+1, v.Outcome, v.Reason, v.Dropped, v.Log.Value)
				}
				if first == nil {
					first = v.Tests
				}
				if d := cmp.Diff(first, v.Tests); d != "" {
					t.Errorf("time %d differs from the first:\n%s", i+1, d)
				}
			}
			if want := len(k.FailToPass) + len(k.PassToPass); len(first) != want {
				t.Errorf("%d tests in the verdict, want %d", len(first), want)
			}
		})
	}
	if len(seen) != len(toolchains) {
		t.Errorf("tasks in %d languages, want %d", len(seen), len(toolchains))
	}
}

// failing checks a verdict that says: the tests ran, and the bug is still there.
func failing(t *testing.T, v record.Verdict, outcomes ...record.Outcome) {
	t.Helper()
	fine := false
	for _, o := range outcomes {
		fine = fine || v.Outcome == o
	}
	if !fine || v.Reward == nil || *v.Reward != 0 {
		t.Errorf("got %s: %s, want %v with reward 0\n%s", v.Outcome, v.Reason, outcomes, v.Log.Value)
	}
	for _, test := range v.Tests {
		if test.Kind == "fail_to_pass" && test.Status != record.TestPassed {
			return
		}
	}
	t.Errorf("no test of fail_to_pass fails: %+v\n%s", v.Tests, v.Log.Value)
}

func TestWrongPatchesDoNot(t *testing.T) {
	t.Parallel()
	for _, k := range tasks(t) {
		t.Run(k.TaskID, func(t *testing.T) {
			t.Parallel()
			needToolchain(t, k.Language)
			if v := verdict(t, k, ""); v.Outcome != record.EmptyPatch || v.Reward == nil || *v.Reward != 0 {
				t.Errorf("an empty diff: %s: %s", v.Outcome, v.Reason)
			}
			for _, variant := range []string{"comment", "wrong"} {
				v := verdict(t, k, inPatches(t, k, variant))
				failing(t, v, record.Unresolved, record.Partial)
				for _, test := range v.Tests {
					if test.Kind == "pass_to_pass" && test.Status != record.TestPassed {
						t.Errorf("%s patch: %s of pass_to_pass is %s, so it is not plausible\n%s", variant, test.Name, test.Status, v.Log.Value)
					}
				}
			}
		})
	}
}
