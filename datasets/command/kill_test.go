package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/urfave/cli/v2"

	"orchard/datasets"
	"orchard/internal/exit"
	"orchard/internal/objstore"
	"orchard/internal/objstore/objtest"
)

// A child process runs the command with the arguments in childArgs; it kills itself at
// the write to the store childStore that killAt counts.
const (
	childArgs  = "ORCHARD_TEST_ARGS"
	childStore = "ORCHARD_TEST_STORE"
	killAt     = "ORCHARD_TEST_KILL_AT"
	killAfter  = "ORCHARD_TEST_KILL_AFTER"
)

func child(args []string) {
	at, _ := strconv.Atoi(os.Getenv(killAt))
	open := func(ctx context.Context, root string) (objstore.Store, error) {
		s, err := datasets.Stores(ctx, root)
		if err == nil && root == os.Getenv(childStore) {
			s = &objtest.Faults{Store: s, At: at, After: os.Getenv(killAfter) != "", Kill: true}
		}
		return s, err
	}
	app := &cli.App{Name: "orchard", Commands: []*cli.Command{dataset(open)}, ExitErrHandler: func(*cli.Context, error) {}}
	err := app.RunContext(context.Background(), append([]string{"orchard"}, args...))
	if err != nil {
		fmt.Fprintln(os.Stderr, "orchard:", err)
	}
	os.Exit(exit.Code(err))
}

func start(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), childArgs+"="+strings.Join(args, " ")), env...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// killed says whether a process ended by SIGKILL; any end but success and that is wrong.
func killed(t *testing.T, cmd *exec.Cmd) bool {
	t.Helper()
	err := cmd.Wait()
	var e *exec.ExitError
	if errors.As(err, &e) && e.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		return true
	}
	if err != nil {
		t.Fatal(err)
	}
	return false
}

// files is every file below a folder by name, without what a store keeps for itself.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == ".lock" || strings.HasPrefix(d.Name(), ".tmp-") {
			return err
		}
		raw, err := os.ReadFile(path)
		out[strings.TrimPrefix(path, dir)] = string(raw)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestKilledPullGoesOn kills a pull at each of its writes. What is left is no version or
// a whole one, and the same command again ends as an undisturbed one does.
func TestKilledPullGoesOn(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := makeTasks(t.Context(), []string{root + "/out/tasks", "5"}); err != nil {
		t.Fatal(err)
	}
	pull := func(dir string) []string {
		return []string{"dataset", "pull", "--workers", "1", "--out", dir, root + "/out/tasks"}
	}
	calm := filepath.Join(root, "calm")
	if killed(t, start(t, nil, pull(calm)...)) {
		t.Fatal("killed without a fault")
	}
	want := files(t, calm)
	for _, after := range []string{"", "1"} {
		n := 0
		for at := 1; ; at++ {
			dir := filepath.Join(root, fmt.Sprintf("killed%s-%d", after, at))
			env := []string{childStore + "=file://" + dir, killAt + "=" + strconv.Itoa(at), killAfter + "=" + after}
			if !killed(t, start(t, env, pull(dir)...)) {
				break
			}
			n++
			v, err := datasets.Open(t.Context(), datasets.Stores, dir+"/tasks")
			if err == nil {
				r, err := datasets.Verify(t.Context(), v)
				if err != nil || len(r.Problems) > 0 {
					t.Errorf("killed at write %d: a version that is not whole: %v, %v", at, r.Problems, err)
				}
			} else if !errors.Is(err, datasets.ErrNotFound) {
				t.Errorf("killed at write %d: %v", at, err)
			}
			if killed(t, start(t, nil, pull(dir)...)) {
				t.Fatal("killed without a fault")
			}
			if d := cmp.Diff(want, files(t, dir)); d != "" {
				t.Errorf("killed at write %d and pulled again: %s", at, d)
			}
		}
		if n < 6 { // two blobs, their list, a shard, the manifest, the key, the newest
			t.Errorf("only %d writes were killed", n)
		}
	}
}

// TestKilledExportGoesOn kills an export to files as soon as some are finished.
func TestKilledExportGoesOn(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := makeTasks(t.Context(), []string{root + "/out/tasks", "60"}); err != nil {
		t.Fatal(err)
	}
	pull := func(dir string) []string {
		return []string{"dataset", "pull", "--format", "parquet", "--file-size", "1kB", "--out", dir, root + "/out/tasks"}
	}
	calm := filepath.Join(root, "calm")
	if killed(t, start(t, nil, pull(calm)...)) {
		t.Fatal("killed without a fault")
	}
	want := files(t, calm)
	deadline := time.Now().Add(time.Minute)
	for kills := 0; kills < 3; {
		if time.Now().After(deadline) {
			t.Fatal("no export was killed in the middle")
		}
		dir := filepath.Join(root, fmt.Sprintf("killed-%d", time.Now().UnixNano()))
		cmd := start(t, nil, pull(dir)...)
		for {
			finished, _ := filepath.Glob(filepath.Join(dir, "data", ".train-*"))
			if len(finished) > 2+kills*10 {
				break
			}
			if named, _ := filepath.Glob(filepath.Join(dir, "data", "train-*")); len(named) > 0 || time.Now().After(deadline) {
				break
			}
			time.Sleep(time.Millisecond)
		}
		_ = cmd.Process.Kill()
		if !killed(t, cmd) {
			continue
		}
		kills++
		if killed(t, start(t, nil, pull(dir)...)) {
			t.Fatal("killed without a fault")
		}
		if d := cmp.Diff(want, files(t, dir)); d != "" {
			t.Errorf("killed and done again: %s", d)
		}
	}
}

// other is a row type that the program does not know.
type other struct {
	ID        string   `json:"task_id"`
	Statement string   `json:"problem_statement"`
	Extra     *int64   `json:"extra"`
	Tags      []string `json:"tags"`
	Share     float64  `json:"share"`
}

func (o other) Key() string         { return o.ID }
func (other) Schema() (string, int) { return "other", 1 }

// mkother URI makes a version of rows that the program does not know.
func mkother() {
	if err := makeOther(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func makeOther(ctx context.Context, uri string) error {
	loc, err := datasets.Parse(uri)
	if err != nil {
		return err
	}
	store, err := datasets.Stores(ctx, loc.Root)
	if err != nil {
		return err
	}
	w, err := datasets.NewWriter[other](store, loc.Name, datasets.WriterOptions{})
	if err != nil {
		return err
	}
	defer w.Close()
	five := int64(5)
	for _, o := range []other{{ID: "task-00", Statement: "else", Tags: []string{}, Extra: &five}, {ID: "task-99", Tags: []string{"a"}, Share: 0.5}} {
		if err := w.Write(ctx, o); err != nil {
			return err
		}
	}
	_, _, err = w.Commit(ctx, datasets.Meta{Stage: datasets.Stage{Name: "make", Version: 1}, RowsIn: 2})
	return err
}

// garbage ROOT adds an object of each kind that nothing needs, and one of no dataset.
func garbage(ts *testscript.TestScript, _ bool, args []string) {
	root := ts.MkAbs(args[0])
	zero := strings.Repeat("0", 64)
	for _, name := range []string{
		"blobs/" + zero, "tasks/data/" + zero + ".arrow", "tasks/data/" + zero + ".blobs", "tasks/files/" + zero + "/sft.jsonl",
		"rollouts/units/" + zero + "/a.json", "rollouts/units/" + zero + "/b.json", "notes.txt",
	} {
		path := filepath.Join(root, filepath.FromSlash(name))
		ts.Check(os.MkdirAll(filepath.Dir(path), 0o755))
		ts.Check(os.WriteFile(path, []byte("garbage"), 0o644))
	}
}
