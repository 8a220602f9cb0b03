package harness_test

import (
	"bytes"
	"context"
	"errors"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"orchard/datasets/record"
	"orchard/internal/harness"
	"orchard/internal/llm"
	"orchard/internal/llm/scripted"
	"orchard/internal/sandbox"
)

// bash runs commands for real, in a folder of the test's own. It has no /tmp of its
// own, so a command that names /tmp is given another one.
type bash struct {
	tmp, path string
}

func (b bash) Exec(ctx context.Context, c sandbox.Command) (sandbox.Result, error) {
	argv := append([]string(nil), c.Argv...)
	argv[len(argv)-1] = strings.ReplaceAll(argv[len(argv)-1], "/tmp/", b.tmp+"/")
	if argv[1] == "-lc" {
		argv[1] = "-c" // the profile is the machine's, not the test's
	}
	cmd := exec.CommandContext(ctx, "/bin/"+argv[0], argv[1:]...)
	cmd.Dir = c.Cwd
	cmd.Env = []string{"PATH=" + b.path, "HOME=" + b.tmp, "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C"}
	for k, v := range c.Env {
		if k != "BASH_ENV" { // the machine's, not the test's
			cmd.Env = append(cmd.Env, k+"="+v)
		}
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return sandbox.Result{}, err
	}
	text := bytes.ReplaceAll(out.Bytes(), []byte(b.tmp+"/"), []byte("/tmp/"))
	return sandbox.Result{ExitCode: cmd.ProcessState.ExitCode(), Stdout: text, StdoutBytes: int64(len(text))}, nil
}

// sh runs one command for the test itself.
func sh(t *testing.T, dir, command string) string {
	t.Helper()
	c := exec.Command("/bin/bash", "-ec", command)
	c.Dir = dir
	c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "HOME="+dir)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return string(out)
}

const makeRepo = `git init -q
printf 'def add(a, b):\n    return a - b\n\n\n\n\n\n\n\n\n\n\ndef twice(a):\n    return a + 1\n' > calc.py
echo old > 'a file'
git add -A
git -c user.name=t -c user.email=t@example.org commit -qm base`

const solve = `printf 'def add(a, b):\n    return a + b\n\n\n\n\n\n\n\n\n\n\ndef twice(a):\n    # doubles\n    return 2 * a\n' > calc.py
echo new > 'a file'
mkdir -p docs && echo text > docs/new.md
git add -A && git diff --cached && git reset -q --hard`

// withoutGit is a PATH with what a small image has.
func withoutGit(t *testing.T) string {
	dir := t.TempDir()
	for _, tool := range []string{"bash", "cat", "sed", "ls", "patch", "rm", "mkdir"} {
		at, err := exec.LookPath(tool)
		if err != nil {
			t.Fatalf("%v; the test needs it", err)
		}
		if err := os.Symlink(at, filepath.Join(dir, tool)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// The scripted policy plays through every harness with a real shell: what it set out
// to do is what the trajectory and the working tree show.
func TestScriptedPolicyEndToEnd(t *testing.T) {
	t.Parallel()
	gold := sh(t, func() string { d := t.TempDir(); sh(t, d, makeRepo); return d }(), solve)
	task := record.Task{TaskID: "calc-1", Statement: "add(1, 1) is 0.\n\n  Also twice(2) is 3.", GoldPatch: record.Text{Value: gold}}
	small := withoutGit(t)
	for _, name := range harness.Names() {
		for _, ending := range []scripted.Ending{scripted.Right, scripted.Wrong, scripted.Empty, scripted.StepLimit, scripted.Malformed, scripted.Stuck} {
			t.Run(name+"/"+string(ending), func(t *testing.T) {
				t.Parallel()
				for seed := range int64(2) {
					e := endToEnd{harness: name, ending: ending, task: task, path: os.Getenv("PATH"), seed: seed}
					first, diff := e.play(t)
					e.check(t, first, diff)
					if seed > 0 {
						continue
					}
					again, _ := e.play(t)
					if d := cmp.Diff(first, again, cmpopts.IgnoreFields(record.Step{}, "ModelMS")); d != "" {
						t.Errorf("a second run differs (-first +second):\n%s", d)
					}
					e.path = small
					first, diff = e.play(t)
					e.check(t, first, diff)
				}
			})
		}
	}
}

type endToEnd struct {
	harness, path string
	ending        scripted.Ending
	task          record.Task
	seed          int64
}

func (e endToEnd) play(t *testing.T) (record.Trajectory, string) {
	t.Helper()
	o := scripted.Options{Weights: map[scripted.Ending]float64{e.ending: 1}, Malformed: 0.5}
	if e.ending == scripted.Right {
		o.SolveRate = 1
	}
	server, err := scripted.New([]record.Task{e.task}, o)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(server)
	defer web.Close()
	m, err := llm.New(llm.Options{URL: web.URL, Model: scripted.Model, Stream: e.seed%2 == 1})
	if err != nil {
		t.Fatal(err)
	}
	h, err := harness.New(e.harness, harness.Options{})
	if err != nil {
		t.Fatal(err)
	}
	repo := t.TempDir()
	sh(t, repo, makeRepo)
	tr, err := h.Run(t.Context(), harness.Episode{
		Statement: e.task.Statement, Workdir: repo, Model: m, Shell: bash{tmp: t.TempDir(), path: e.path}, Keep: keep,
		Sampling: harness.Sampling{Seed: e.seed}, Limits: harness.Limits{Steps: 25, CommandTimeout: time.Minute, Stuck: 6},
	})
	if err != nil {
		t.Fatal(err)
	}
	// The prompts name the folder, which is new each time.
	for i := range tr.Messages {
		tr.Messages[i].Content = strings.ReplaceAll(tr.Messages[i].Content, repo, "/testbed")
	}
	return tr, sh(t, repo, "git add -A && git diff --cached")
}

func (e endToEnd) check(t *testing.T, tr record.Trajectory, diff string) {
	t.Helper()
	want := map[scripted.Ending]string{
		scripted.Right: record.ExitSubmitted, scripted.Wrong: record.ExitSubmitted, scripted.Empty: record.ExitSubmitted,
		scripted.StepLimit: record.ExitStepLimit, scripted.Malformed: record.ExitRepeatedFormat, scripted.Stuck: record.ExitStuck,
	}[e.ending]
	if e.ending == scripted.Malformed && e.harness == harness.MiniSweV1 {
		want = record.ExitStepLimit // version 1 has patience without end
	}
	if tr.ExitStatus != want {
		t.Fatalf("seed %d: ended %s, want %s\n%s", e.seed, tr.ExitStatus, want, transcript(tr))
	}
	gold := e.task.GoldPatch.Value
	switch e.ending {
	case scripted.Right:
		if d := cmp.Diff(gold, diff); d != "" {
			t.Errorf("seed %d: the tree is not the gold patch (-gold +tree):\n%s", e.seed, d)
		}
		clean := t.TempDir()
		sh(t, clean, makeRepo)
		if err := os.WriteFile(filepath.Join(clean, ".git/submission"), []byte(tr.Submission.Value), 0o600); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(gold, sh(t, clean, "patch -p1 -s -i .git/submission && git add -A && git diff --cached")); d != "" {
			t.Errorf("seed %d: the submission is not the gold patch (-gold +submitted):\n%s", e.seed, d)
		}
	case scripted.Wrong:
		if diff == "" || diff == gold {
			t.Errorf("seed %d: the tree has %q, want a change that is not the gold patch", e.seed, diff)
		}
	default:
		if diff != "" || tr.Submission.Value != "" {
			t.Errorf("seed %d: the tree has %q and %q was handed in, want neither", e.seed, diff, tr.Submission.Value)
		}
	}
}
