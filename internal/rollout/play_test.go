package rollout_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"orchard/datasets/imports"
	"orchard/datasets/record"
	"orchard/examples"
	"orchard/internal/exit"
	"orchard/internal/grade"
	"orchard/internal/harness"
	"orchard/internal/llm"
	"orchard/internal/llm/scripted"
	"orchard/internal/rollout"
	"orchard/internal/sandbox"
	"orchard/internal/sandbox/sandboxtest"
	"orchard/internal/seal"
)

func TestMain(m *testing.M) { os.Exit(sandboxtest.Main(m)) }

// kept is a task with the store that has its bundle.
type kept struct {
	task  record.Task
	blobs map[string][]byte
}

// load is an example task in Go, packed as the import stage does it.
func load(t *testing.T) kept {
	t.Helper()
	const id = "examples__intervals-9"
	dir := t.TempDir()
	if err := os.CopyFS(dir, examples.FS); err != nil {
		t.Fatal(err)
	}
	k := kept{blobs: map[string][]byte{}}
	err := imports.Read(t.Context(), filepath.Join(dir, examples.Tasks), func(row imports.Row, problem *imports.Problem) error {
		if problem != nil {
			return problem
		}
		p, problem := imports.Parse(row, "examples")
		if problem != nil || p.Task.TaskID != id {
			return nil
		}
		path, problem := p.Repo.Locate(p.File, false)
		if problem != nil {
			return problem
		}
		source, err := imports.OpenSource(t.Context(), p.Repo.Kind, path, t.TempDir())
		if err != nil {
			return err
		}
		bundle, err := source.Bundle(t.Context(), p.Task.BaseCommit)
		if err != nil {
			return err
		}
		body, err := os.ReadFile(bundle)
		if err != nil {
			return err
		}
		k.task = p.Task
		k.task.RepoBlob = seal.Bytes(body)
		k.blobs[k.task.RepoBlob] = body
		return imports.Seal(&k.task)
	})
	if err != nil || k.task.TaskID != id {
		t.Fatalf("task %q, %v", k.task.TaskID, err)
	}
	return k
}

func (k kept) store() rollout.Store {
	return rollout.Store{
		Keep: func(_ context.Context, b []byte) (record.Text, error) {
			text, ok := record.Exact(b)
			if !ok {
				return record.Text{}, fmt.Errorf("not UTF-8: %q", b)
			}
			return text, nil
		},
		Blob: func(_ context.Context, sha256 string) ([]byte, error) {
			b, ok := k.blobs[sha256]
			if !ok {
				return nil, os.ErrNotExist
			}
			return b, nil
		},
	}
}

// player plays with a policy that solves every task, in real sandboxes. wrap may
// change the server; nil leaves it.
func (k kept) player(t *testing.T, wrap func(http.Handler) http.Handler) *rollout.Player {
	t.Helper()
	policy, err := scripted.New([]record.Task{k.task}, scripted.Options{SolveRate: 1})
	if err != nil {
		t.Fatal(err)
	}
	var h http.Handler = policy
	if wrap != nil {
		h = wrap(policy)
	}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	model, err := llm.New(llm.Options{URL: server.URL, Model: scripted.Model, MaxRetries: 1, MaxWait: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	loop, err := harness.New("mini-swe-v2", harness.Options{})
	if err != nil {
		t.Fatal(err)
	}
	boxes, spec := sandboxtest.Client(t), sandbox.Spec{Image: sandboxtest.Image}
	return &rollout.Player{
		Sandboxes: boxes, Harness: loop, Model: model, Policy: scripted.Model, Spec: spec, Seed: 7, Now: time.Now,
		Limits: harness.Limits{Steps: 30, CommandTimeout: time.Minute},
		Grader: func(s rollout.Store) rollout.Grader {
			return &grade.Grader{Sandboxes: boxes, Spec: spec, Keep: s.Keep, Blob: s.Blob}
		},
	}
}

func TestPlaySolvesATask(t *testing.T) {
	t.Parallel()
	k := load(t)
	p := k.player(t, nil)
	row, err := p.Play(t.Context(), k.task, 3, k.store())
	if err != nil {
		t.Fatal(err)
	}
	v, tr := row.Verdict, row.Trajectory
	if v.Outcome != record.Resolved || v.Reward == nil || *v.Reward != 1 {
		t.Fatalf("%s: %s\n%s", v.Outcome, v.Reason, v.Log.Value)
	}
	if row.RolloutID != p.ID(k.task.TaskID, 3) || row.Index != 3 || row.Seed != seal.Seed(7, k.task.TaskID, "3") {
		t.Errorf("id %s, index %d, seed %d", row.RolloutID, row.Index, row.Seed)
	}
	if row.TaskID != k.task.TaskID || row.Source != "examples" || row.Repo != k.task.Repo || row.Language != "go" || row.Policy != "scripted" || row.Harness != "mini-swe-v2" {
		t.Errorf("a row with gaps: %+v", row)
	}
	if tr.ExitStatus != record.ExitSubmitted || tr.TemplateID == "" || tr.Tools == "" || tr.Submission.Value == "" {
		t.Errorf("exit %q, template %q, tools %q, submission %q", tr.ExitStatus, tr.TemplateID, tr.Tools, tr.Submission.Value)
	}
	if tr.DiffSHA256 != seal.Bytes([]byte(tr.Diff.Value)) || !strings.HasPrefix(tr.Diff.Value, "diff --git ") {
		t.Errorf("sha256 %s of the diff\n%s", tr.DiffSHA256, tr.Diff.Value)
	}
	for i, s := range tr.Steps {
		if s.DiffSHA256 == "" || s.FinishReason == "" || len(s.Actions) == 0 || s.PromptTokens == nil || s.CompletionTokens == nil {
			t.Errorf("step %d has gaps: %+v", i, s)
		}
		for _, a := range s.Actions {
			if a.ExitCode == nil || *a.ExitCode != 0 || a.Command == "" || a.ToolCallID == "" {
				t.Errorf("step %d: action with gaps: %+v", i, a)
			}
		}
	}
	if n := len(tr.Steps); n < 4 || tr.Steps[0].DiffSHA256 != seal.Bytes(nil) || tr.Steps[n-1].DiffSHA256 != tr.DiffSHA256 {
		t.Errorf("%d steps, whose diffs do not lead from nothing to the final one", n)
	}
	if len(tr.Messages) < len(tr.Steps)+2 || tr.Messages[0].Role != "system" || tr.Messages[1].Role != "user" {
		t.Errorf("%d messages, beginning %+v", len(tr.Messages), tr.Messages[:2])
	}
	for _, m := range tr.Messages {
		if strings.Contains(m.Content, k.task.TestCmds[0]) || strings.Contains(m.Content, k.task.FailToPass[0]) {
			t.Errorf("a message tells how the task is graded: %s", m.Content)
		}
	}
	u := row.Usage
	if u.ModelCalls != int64(len(tr.Steps)) || u.PromptTokens == nil || u.CompletionTokens == nil || u.TokenSource != "server" || u.SandboxMS <= 0 {
		t.Errorf("usage %+v for %d steps", u, len(tr.Steps))
	}
	if row.Span.Started.IsZero() || row.Span.Ended.Before(row.Span.Started) || row.Span.Started.Location() != time.UTC {
		t.Errorf("span %+v", row.Span)
	}
	if len(v.Tests) != len(k.task.FailToPass)+len(k.task.PassToPass) || v.ApplyMethod == "" || v.Log.Value == "" || v.DurationMS <= 0 {
		t.Errorf("a verdict with gaps: %+v", v)
	}
}

func TestPlayOfABadTaskIsARow(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, reason string
		spoil        func(*record.Task)
	}{
		{"commit is not in the bundle", "has no commit", func(k *record.Task) { k.BaseCommit = strings.Repeat("1", 40) }},
		{"image that is none", "refused", func(k *record.Task) { k.Image = "/no/such/image.tar" }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			k := load(t)
			tt.spoil(&k.task)
			row, err := k.player(t, nil).Play(t.Context(), k.task, 0, k.store())
			if err != nil || row.Verdict.Outcome != record.TaskInvalid || row.Verdict.Reward != nil || !strings.Contains(row.Verdict.Reason, tt.reason) {
				t.Errorf("%s: %s, %v", row.Verdict.Outcome, row.Verdict.Reason, err)
			}
			if row.Usage.ModelCalls != 0 || row.RolloutID == "" || row.Span.Ended.IsZero() {
				t.Errorf("a row with gaps: %+v", row)
			}
		})
	}
}

// The image of the flags is the user's mistake and no task's.
func TestPlayInABadDefaultImageEndsTheStage(t *testing.T) {
	t.Parallel()
	k := load(t)
	p := k.player(t, nil)
	p.Spec.Image = "/no/such/image.tar"
	row, err := p.Play(t.Context(), k.task, 0, k.store())
	if exit.Code(err) != exit.Config || row.Verdict.Outcome != "" {
		t.Errorf("exit code %d, outcome %q, %v", exit.Code(err), row.Verdict.Outcome, err)
	}
}

// afterChange is an HTTP server that is gone as soon as the policy has changed files:
// what it had done by then is worth keeping.
func afterChange(h http.Handler) http.Handler {
	var n atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) > 3 {
			panic(http.ErrAbortHandler)
		}
		h.ServeHTTP(w, r)
	})
}

// panics is a harness that has a fault: it shows after a change.
type panics struct{ harness.Harness }

func (panics) Run(ctx context.Context, e harness.Episode) (record.Trajectory, error) {
	_, err := e.Shell.Exec(ctx, sandbox.Command{Shell: "echo more >>README.md", Cwd: e.Workdir, Timeout: time.Minute})
	if err != nil {
		return record.Trajectory{}, err
	}
	panic("a fault")
}

func TestPlayKeepsWhatACrashLeaves(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, says string
		player     func(*testing.T, kept) *rollout.Player
	}{
		{"harness panics", "panicked: a fault", func(t *testing.T, k kept) *rollout.Player {
			p := k.player(t, nil)
			p.Harness = panics{p.Harness}
			return p
		}},
		{"model server dies", "model server", func(t *testing.T, k kept) *rollout.Player { return k.player(t, afterChange) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			k := load(t)
			p := tt.player(t, k)
			row, err := p.Play(t.Context(), k.task, 0, k.store())
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Fatalf("%v", err)
			}
			if code := exit.Code(err); code == exit.Config || code == exit.Gone {
				t.Errorf("exit code %d would end the stage: %v", code, err)
			}
			tr := row.Trajectory
			if row.Verdict.Outcome != "" || row.RolloutID != p.ID(k.task.TaskID, 0) {
				t.Errorf("outcome %q of rollout %s: nobody knows it", row.Verdict.Outcome, row.RolloutID)
			}
			if !strings.HasPrefix(tr.Diff.Value, "diff --git ") || tr.DiffSHA256 != seal.Bytes([]byte(tr.Diff.Value)) {
				t.Errorf("the diff until then is not kept: %+v", tr.Diff)
			}
		})
	}
}
