package credit

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/grade"
	"orchard/internal/llm"
	"orchard/internal/runner"
	"orchard/internal/sandbox/sandboxtest"
	"orchard/internal/seal"
	"orchard/jobs/credit/calibration"
)

// script is a test file in TAP by nothing but a shell: add.sh adds, and it negates.
const script = `r() { n=$((n+1)); if eval "$1"; then echo "ok $n - $2"; else echo "not ok $n - $2"; bad=1; fi; }
r '[ -f old ]' keeps
r '[ "$(sh add.sh 2 3)" = 5 ]' adds
r '[ "$(sh add.sh 0 -1)" = -1 ]' negative
echo 1..$n
exit ${bad:-0}
`

// repository makes a task of which two tests fail, and diffs of its add.sh.
type repository struct {
	t    *testing.T
	dir  string
	task record.Task
}

func newRepository(t *testing.T, root string) *repository {
	r := &repository{t: t, dir: t.TempDir()}
	r.git("init", "-q", "-b", "main")
	r.write("add.sh", "echo $(($1 - $2 - 1))\n")
	r.write("old", "old\n")
	r.git("add", "-A")
	r.git("commit", "-qm", "base")
	file := filepath.Join(t.TempDir(), "bundle")
	r.git("bundle", "create", "-q", file, "main")
	bundle, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r.task = record.Task{
		TaskID: "add", Workdir: "/testbed", BaseCommit: strings.TrimSpace(r.git("rev-parse", "HEAD")), RepoBlob: r.put(root, bundle),
		PreCommands: []string{}, TestCmds: []string{"sh t.sh"}, LogParser: "tap", FailToPass: []string{"adds", "negative"}, PassToPass: []string{"keeps"},
		Digest: seal.ID("add"),
	}
	r.write("t.sh", script)
	r.git("add", "-A")
	patch := r.git("diff", "--cached")
	r.git("reset", "-q", "--hard")
	r.task.TestPatch = record.Text{Value: patch, Bytes: int64(len(patch))}
	return r
}

func (r *repository) put(root string, b []byte) string {
	r.t.Helper()
	store, err := datasets.Stores(r.t.Context(), "file://"+root)
	if err != nil {
		r.t.Fatal(err)
	}
	sha, err := datasets.PutBlob(r.t.Context(), store, b)
	if err != nil {
		r.t.Fatal(err)
	}
	return sha
}

// diff makes add.sh another.
func (r *repository) diff(add string) []byte {
	r.t.Helper()
	r.write("add.sh", add)
	out := r.git("diff")
	r.git("reset", "-q", "--hard")
	return []byte(out)
}

func (r *repository) write(name, body string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(body), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

func (r *repository) git(args ...string) string {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), "git", append([]string{"-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
	cmd.Dir, cmd.Env = r.dir, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.Output()
	if err != nil {
		r.t.Fatalf("git %v: %v", args, err)
	}
	return string(out)
}

func TestValueByExecution(t *testing.T) {
	t.Parallel()
	service := sandboxtest.New(t)
	root := t.TempDir()
	repo := newRepository(t, root)
	half, whole, none := repo.diff("[ $1 = 0 ] && echo $2 || echo 0\n"), repo.diff("echo $(($1 + $2))\n"), repo.diff("echo nothing\n")

	// Nothing, half of it, all of it, all of it, not kept, and at last broken.
	r := played("add", record.Unresolved, 6)
	kept := &record.StepDiffs{}
	for _, d := range [][]byte{half, whole} {
		kept.Kept = append(kept.Kept, record.StepDiff{SHA256: repo.put(root, d), Bytes: int64(len(d))})
	}
	r.Trajectory.StepDiffs = kept
	for i, sha := range []string{seal.Bytes(nil), seal.Bytes(half), seal.Bytes(whole), seal.Bytes(whole), seal.ID("not kept"), seal.Bytes(none)} {
		r.Trajectory.Steps[i].DiffSHA256 = sha
	}
	r.Trajectory.Diff, r.Trajectory.DiffSHA256 = record.Text{Value: string(none), Bytes: int64(len(none))}, seal.Bytes(none)
	r.Verdict.Grader = grade.Version // whose word is taken: nothing passes
	twin := r
	twin.RolloutID = seal.ID("twin")
	stray := played("elsewhere", record.Unresolved, 4)
	old := played("old", record.Unresolved, 4) // rolled out without --keep-diffs
	old.TaskID = "add"
	for i := range old.Trajectory.Steps {
		old.Trajectory.Steps[i].DiffSHA256 = seal.ID("gone")
	}

	c := Defaults()
	c.Method = record.CreditExecution
	c.In, c.Out = []string{save(t, root, "rollouts", r, twin, stray, old, played("solved", record.Resolved, 3))}, filepath.Join(root, "credit")
	c.Tasks = save(t, root, "tasks", repo.task)
	c.Boxes.SandboxURL, c.Boxes.SandboxKey = service.URL, llm.Secret(service.Key)
	res, err := Run(t.Context(), c, deps())
	if err != nil {
		t.Fatal(err)
	}
	if res.Dropped["no_task"] != 1 || res.Outcomes["measured"] != 2 || res.Outcomes["unknown"] != 1 || res.Outcomes["not_needed"] != 1 {
		t.Errorf("%+v", res)
	}
	got := rows(t, res)["add"]
	v, err := datasets.Open(t.Context(), datasets.Stores, res.URI)
	if err != nil {
		t.Fatal(err)
	}
	for row, err := range datasets.Rows[record.Credit](t.Context(), v) {
		if err != nil {
			t.Fatal(err)
		}
		if row.RolloutID == r.RolloutID {
			got = row
		}
		if row.RolloutID == old.RolloutID && (row.Status != record.CreditUnknown || len(row.Values) != 0 || !strings.Contains(row.Grades[0].Reason, "--keep-diffs")) {
			t.Errorf("%+v", row)
		}
	}
	said := func(values []*float64) string {
		var list []string
		for _, v := range values {
			if v == nil {
				list = append(list, "?")
			} else {
				list = append(list, fmt.Sprint(*v))
			}
		}
		return strings.Join(list, " ")
	}
	if s := said(got.Values); s != "0 0 0.5 1 1 ? 0" {
		t.Errorf("values %s\n%+v", s, got.Grades)
	}
	if s := said(got.Credits); s != "0 0.5 0.5 0 ? ?" {
		t.Errorf("credits %s", s)
	}
	if s := fmt.Sprint(got.Segments); s != "[{1 3}]" || len(got.Grades) != 4 || got.Usage.ModelCalls != 0 {
		t.Errorf("segments %s, %+v", s, got.Grades)
	}
	graded, err := filepath.Glob(filepath.Join(root, gradeSet, "units", "*", "*.json"))
	if err != nil || len(graded) != 2 {
		t.Errorf("graded %d diffs, want 2 for both rollouts: %v", len(graded), err)
	}

	// The teacher's word beside it.
	server := annotator(t, nil)
	asked := given(t, server.URL)
	asked.In, asked.Compare = c.In, c.Out
	res, err = Run(t.Context(), asked, deps())
	if err != nil {
		t.Fatal(err)
	}
	var report calibration.Report
	if err := json.Unmarshal(file(t, res, "calibration.json"), &report); err != nil {
		t.Fatal(err)
	}
	// .4 .5 .6 .4333 .2667 (.1) .1 against 0 0 .5 1 1 ? 0, constant after the last key step.
	want := (.4 + .5 + .1 + (1 - (.6 - .5/3)) + (1 - (.6 - 1./3)) + .1) / 6
	if c := report.Compared; c == nil || c.Rollouts != 2 || c.States != 12 || math.Abs(*c.MeanDifference-want) > 1e-9 || c.Ranked != 2 || *c.RankCorrelation > .5 {
		t.Errorf("%+v, want %v", c, want)
	}
	if md := string(file(t, res, "calibration.md")); !strings.Contains(md, "## Compared with credit@") {
		t.Error(md)
	}
}

// Where no sandbox can be had nothing is known, and nothing is said.
func TestNoSandboxes(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	repo := newRepository(t, root)
	c := Defaults()
	c.Method, c.Tasks = record.CreditExecution, save(t, root, "tasks", repo.task)
	r := played("add", record.Unresolved, 4)
	c.In, c.Out = []string{save(t, root, "rollouts", r)}, filepath.Join(root, "credit")
	c.Boxes.SandboxURL = "http://127.0.0.1:1"
	if res, err := Run(t.Context(), c, deps()); exit.Code(err) != exit.Retry || res.Status == runner.StatusDone || !strings.Contains(err.Error(), "--sandbox-url") {
		t.Errorf("%d %v", exit.Code(err), err)
	}
}
