package evaluate

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"orchard/datasets"
	"orchard/datasets/gentest/fixture"
	"orchard/datasets/record"
	"orchard/internal/llm/scripted"
	"orchard/internal/objstore/dir"
)

// checks is the tasks' test file: TAP, by nothing but a shell. add.sh adds wrongly.
const checks = `r() { n=$((n+1)); if eval "$1"; then echo "ok $n - $2"; else echo "not ok $n - $2"; bad=1; fi; }
r '[ -f tests/old ]' keeps
r '[ "$(sh add.sh 2 3)" = 5 ]' adds
echo 1..$n
exit ${bad:-0}
`

// world is task datasets in a folder (tasks, pair, none, broken), what solves their tasks,
// and policies.
type world struct {
	dir           string
	gold, wrong   string // diffs
	always, never string // URLs of policies
}

func newWorld(t testing.TB, dir string) world {
	t.Helper()
	repo := t.TempDir()
	git := func(args ...string) string {
		t.Helper()
		c := exec.Command("git", args...)
		c.Dir = repo
		c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + repo, "GIT_CONFIG_NOSYSTEM=1",
			"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org",
			"GIT_AUTHOR_DATE=2026-01-01T00:00:00Z", "GIT_COMMITTER_DATE=2026-01-01T00:00:00Z"}
		out, err := c.Output()
		must(t, err)
		return string(out)
	}
	write := func(name, body string) {
		must(t, os.MkdirAll(filepath.Join(repo, filepath.Dir(name)), 0o755))
		must(t, os.WriteFile(filepath.Join(repo, name), []byte(body), 0o644))
	}
	diff := func(name, body string) string {
		write(name, body)
		defer git("reset", "-q", "--hard")
		return git("diff")
	}
	git("init", "-q", "-b", "main")
	write("add.sh", "echo $(($1 - $2))\n")
	write("tests/old", "old\n")
	write("tests/t.sh", "echo 1..0\n")
	git("add", "-A")
	git("commit", "-qm", "base")
	bundle := filepath.Join(t.TempDir(), "bundle")
	git("bundle", "create", "-q", bundle, "main")
	body, err := os.ReadFile(bundle)
	must(t, err)

	store, err := openDir(dir)
	must(t, err)
	sha, err := datasets.PutBlob(t.Context(), store, body)
	must(t, err)
	w := world{dir: dir, gold: diff("add.sh", "echo $(($1 + $2))\n"), wrong: diff("add.sh", "echo 6\n")}
	text := func(s string) record.Text { return record.Text{Value: s, Bytes: int64(len(s))} }
	var tasks []record.Task
	for _, id := range []string{"a", "b", "c"} {
		tasks = append(tasks, record.Task{
			TaskID: id, Source: "planted", Repo: "o/" + id, Language: "shell", BaseCommit: strings.TrimSpace(git("rev-parse", "HEAD")), Workdir: "/testbed", RepoBlob: sha,
			Statement: "add.sh of " + id + " adds wrongly", GoldPatch: text(w.gold), TestPatch: text(diff("tests/t.sh", checks)),
			PreCommands: []string{}, TestCmds: []string{"sh tests/t.sh"}, LogParser: "tap",
			FailToPass: []string{"adds"}, PassToPass: []string{"keeps"}, TimeoutMS: 60_000,
		})
	}
	commit(t, store, "tasks", tasks)
	commit(t, store, "pair", tasks[:2])
	commit[record.Task](t, store, "none", nil)
	bad := tasks[0]
	bad.GoldPatch = text(w.wrong)
	commit(t, store, "broken", []record.Task{bad, tasks[1]})
	w.always, w.never = policy(t, tasks, 1), policy(t, tasks, 0)
	return w
}

func openDir(path string) (*dir.Store, error) { return dir.Open(path) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func commit[R record.Row](t testing.TB, store *dir.Store, name string, rows []R) {
	t.Helper()
	now := time.Unix(1, 0).UTC()
	made := datasets.Stage{Name: "import", Version: 1, Config: json.RawMessage("{}")}
	_, err := fixture.Commit(t.Context(), store, name, slices.Values(rows), datasets.Meta{Stage: made, Started: now, Committed: now})
	must(t, err)
}

// policy is a model server that solves tasks at a rate, or hands in something wrong.
func policy(t testing.TB, tasks []record.Task, rate float64) string {
	t.Helper()
	p, err := scripted.New(tasks, scripted.Options{SolveRate: rate, Weights: map[scripted.Ending]float64{scripted.Empty: 1}})
	must(t, err)
	s := httptest.NewServer(p)
	t.Cleanup(s.Close)
	return s.URL
}

// predictions are lines of predictions by model, task and diff; nil is null.
func (w world) predictions(t testing.TB, file string, rows ...[3]any) {
	t.Helper()
	var b strings.Builder
	for _, r := range rows {
		line, err := json.Marshal(map[string]any{"model_name_or_path": r[0], "instance_id": r[1], "model_patch": r[2]})
		must(t, err)
		b.Write(append(line, '\n'))
	}
	must(t, os.WriteFile(filepath.Join(w.dir, file), []byte(b.String()), 0o644))
}
