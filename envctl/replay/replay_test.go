package replay_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/envctl/client"
	"orchard/envctl/replay"
	"orchard/internal/harness"
	"orchard/internal/objstore"
	"orchard/internal/objstore/dir"
	"orchard/internal/sandbox"
	"orchard/internal/sandbox/sandboxtest"
	"orchard/internal/workspace"
)

func TestMain(m *testing.M) { os.Exit(sandboxtest.Main(m)) }

// repository is a task with a bundle of one commit, kept in store.
func repository(t *testing.T, store objstore.Store) record.Task {
	t.Helper()
	repo := t.TempDir()
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", repo, "-c", "user.name=n", "-c", "user.email=e@x"}, args...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "-q", "-b", "trunk")
	if err := os.WriteFile(filepath.Join(repo, "a.txt"), []byte("one\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	git("add", "-A")
	git("commit", "-qm", "first")
	bundle := filepath.Join(t.TempDir(), "bundle")
	git("bundle", "create", "-q", bundle, "trunk")
	raw, err := os.ReadFile(bundle)
	if err != nil {
		t.Fatal(err)
	}
	sha, err := datasets.PutBlob(t.Context(), store, raw)
	if err != nil {
		t.Fatal(err)
	}
	return record.Task{TaskID: "t", BaseCommit: git("rev-parse", "HEAD"), RepoBlob: sha, Workdir: "/workspace/repo",
		PreCommands: []string{}, TestCmds: []string{"true"}, FailToPass: []string{"a"}, PassToPass: []string{}}
}

func commit[R record.Row](t *testing.T, store objstore.Store, name string, row R, inputs ...datasets.Input) string {
	t.Helper()
	w, err := datasets.NewWriter[R](store, name, datasets.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1, 0).UTC()
	digest, _, err := w.Commit(t.Context(), datasets.Meta{
		Stage: datasets.Stage{Name: name, Version: 1, Config: json.RawMessage("{}")}, Inputs: inputs, RowsIn: 1, Started: now, Committed: now,
	})
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

// play plays commands, a step each, and is the row that a stage would have kept.
func play(t *testing.T, store objstore.Store, task record.Task, commands []string) record.Rollout {
	t.Helper()
	sb := open(t, task)
	row := record.Rollout{RolloutID: strings.Repeat("ab", 32), TaskID: task.TaskID, Harness: harness.MiniSweV2,
		Trajectory: record.Trajectory{Messages: []record.Message{}, Steps: []record.Step{}}, Verdict: record.Verdict{Dropped: []string{}, Tests: []record.TestResult{}}}
	if _, err := prepared(t, store, task, row).Rebuild(t.Context(), sb, 0); err != nil {
		t.Fatal(err)
	}
	zero := int64(0)
	for _, c := range commands {
		if r, err := sb.Exec(t.Context(), sandbox.Command{Argv: []string{"bash", "-c", c}, Cwd: task.Workdir, Timeout: time.Minute}); err != nil || r.ExitCode != 0 {
			t.Fatalf("%s: %+v, %v", c, r, err)
		}
		sum, err := workspace.TreeSHA256(t.Context(), sb, task)
		if err != nil {
			t.Fatal(err)
		}
		row.Trajectory.Steps = append(row.Trajectory.Steps, record.Step{DiffSHA256: sum, Actions: []record.Action{{Command: c, ExitCode: &zero}},
			PromptTokenIDs: []int32{}, CompletionIDs: []int32{}, LogProbs: []float32{}})
	}
	diff, err := workspace.Diff(t.Context(), sb, task)
	if err != nil {
		t.Fatal(err)
	}
	row.Trajectory.Diff = record.Text{Value: string(diff), Bytes: int64(len(diff))}
	row.Trajectory.DiffSHA256 = row.Trajectory.Steps[len(commands)-1].DiffSHA256
	return row
}

// prepared is a stored rollout of nothing yet, to prepare a workspace with.
func prepared(t *testing.T, store objstore.Store, task record.Task, row record.Rollout) *replay.Rollout {
	t.Helper()
	tasks := commit(t, store, "tasks", task)
	commit(t, store, "empty", row, datasets.Input{Kind: datasets.InputDataset, Name: "tasks", Digest: tasks, Role: "tasks"})
	r, err := replay.Open(t.Context(), filepath.Join(strings.TrimPrefix(store.String(), "file://"), "empty"), "ab")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func open(t *testing.T, task record.Task) replay.Box {
	t.Helper()
	s := sandboxtest.New(t)
	c, err := client.New(client.Options{URL: s.URL, Key: s.Key})
	if err != nil {
		t.Fatal(err)
	}
	box, err := c.Create(t.Context(), client.Spec{Image: sandboxtest.Image, Workdir: task.Workdir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := box.Delete(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return replay.Box{Sandbox: box}
}

// Every step's workspace is the recorded one: the end by the stored diff, steps before by
// running the commands again; one that comes out otherwise is said to.
func TestRebuild(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	store, err := dir.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	task := repository(t, store)
	row := play(t, store, task, []string{"echo two >> a.txt", "echo b > b.txt; touch /tmp/outside", "rm b.txt; echo three >> a.txt"})
	tasks := commit(t, store, "tasks", task)
	input := datasets.Input{Kind: datasets.InputDataset, Name: "tasks", Digest: tasks, Role: "tasks"}
	commit(t, store, "rollouts", row, input)
	changed := row
	changed.Trajectory.Steps = append([]record.Step{}, row.Trajectory.Steps...)
	changed.Trajectory.Steps[0].Actions = []record.Action{{Command: "echo other >> a.txt", ExitCode: row.Trajectory.Steps[0].Actions[0].ExitCode}}
	commit(t, store, "changed", changed, input)
	for _, c := range []struct {
		data        string
		steps       int
		says, files string
	}{
		{"rollouts", 0, "before the first step", "one\n"},
		{"rollouts", 1, "after step 1, by running the recorded commands again; every recorded sha256 was met", "one\ntwo\n"},
		{"rollouts", 2, "every recorded sha256 was met", "one\ntwo\nb\n"},
		{"rollouts", 3, "after step 3, exactly, from the stored diff", "one\ntwo\nthree\n"},
		{"rollouts", -1, "at the end, exactly, from the stored diff", "one\ntwo\nthree\n"},
		{"changed", 2, "differs from the recorded one since step 1", "one\nother\nb\n"},
	} {
		r, err := replay.Open(t.Context(), filepath.Join(root, c.data), "abab")
		if err != nil {
			t.Fatal(err)
		}
		sb := open(t, task)
		note, err := r.Rebuild(t.Context(), sb, c.steps)
		if err != nil || !strings.Contains(note, c.says) {
			t.Errorf("%s, step %d: %q, %v; want %q", c.data, c.steps, note, err, c.says)
		}
		got, err := sb.Exec(t.Context(), sandbox.Command{Shell: "cat a.txt b.txt 2>/dev/null; true", Cwd: task.Workdir, Timeout: time.Minute})
		if err != nil || string(got.Stdout) != c.files {
			t.Errorf("%s, step %d: files hold %q, %v; want %q", c.data, c.steps, got.Stdout, err, c.files)
		}
	}
	r, err := replay.Open(t.Context(), filepath.Join(root, "rollouts"), "ab")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Rebuild(t.Context(), open(t, task), 4); err == nil || !strings.Contains(err.Error(), "has 3 steps") {
		t.Errorf("a step too many: %v", err)
	}
	for data, id := range map[string]string{"rollouts": "cd", "nothing": "ab"} {
		if _, err := replay.Open(t.Context(), filepath.Join(root, data), id); err == nil {
			t.Errorf("%s of %s was found", id, data)
		}
	}
}
