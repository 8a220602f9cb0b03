package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/objstore"
	"orchard/internal/sandbox/sandboxtest"
	"orchard/internal/sandbox/sandboxtest/agentbin"
)

// killer is a store whose n-th write, counted over all processes of a run, is the last
// thing that the run does: the process and the pipeline that started it are killed
// before or after it. KILL_COUNT names the file that counts, KILL_AT is "before:7".
type killer struct{ objstore.Store }

func init() {
	if os.Getenv("KILL_COUNT") != "" {
		openStore = func(ctx context.Context, root string) (objstore.Store, error) {
			s, err := datasets.Stores(ctx, root)
			return killer{s}, err
		}
	}
}

func (k killer) Create(ctx context.Context, key string, body objstore.Body) (objstore.Info, error) {
	defer k.die("after", k.die("before", count()))
	return k.Store.Create(ctx, key, body)
}

func (k killer) Swap(ctx context.Context, key string, body objstore.Body, etag string) (objstore.Info, error) {
	defer k.die("after", k.die("before", count()))
	return k.Store.Swap(ctx, key, body, etag)
}

func (killer) die(when string, n int) int {
	if os.Getenv("KILL_AT") == when+":"+strconv.Itoa(n) {
		_ = syscall.Kill(os.Getppid(), syscall.SIGKILL)
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the signal is on its way
	}
	return n
}

// count adds one to the shared count and returns it.
func count() int {
	f, err := os.OpenFile(os.Getenv("KILL_COUNT"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		panic(err)
	}
	b := make([]byte, 20)
	m, _ := f.Read(b)
	n, _ := strconv.Atoi(string(b[:m]))
	if _, err := f.WriteAt([]byte(strconv.Itoa(n+1)), 0); err != nil {
		panic(err)
	}
	return n + 1
}

// pipelineRun is `orchard run` in a folder of its own.
type pipelineRun struct {
	t   *testing.T
	dir string
}

func (p pipelineRun) start(env ...string) (killed bool) {
	p.t.Helper()
	program, err := exec.LookPath("orchard") // the test binary, as testscript put it on PATH
	if err != nil {
		program = os.Args[0]
	}
	cmd := exec.CommandContext(p.t.Context(), program, "run", "swe-sft", "-p", "out=data", "-p", `filter=language == "go"`,
		"-p", "limit=1", "-p", "rollouts=2", "-p", "workers=1", "--run-id", "crash")
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), append(env, "HOME="+p.dir, "XDG_CACHE_HOME="+cacheHome, "XDG_STATE_HOME="+p.dir+"/state",
		"ORCHARD_AGENT="+agentbin.Path(p.t), "KILL_COUNT="+filepath.Join(p.dir, "count"))...)
	out, err := cmd.CombinedOutput()
	var ended *exec.ExitError
	switch {
	case err == nil:
		return false
	case errors.As(err, &ended) && ended.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL:
		return true
	}
	p.t.Fatalf("run with %v: %v\n%s", env, err, out)
	return false
}

// rows are the ids, outcomes and row counts of all datasets: what every run must agree on.
func (p pipelineRun) rows() string {
	p.t.Helper()
	var b strings.Builder
	for _, name := range []string{"tasks", "rollouts", "sft", "report"} {
		v, err := datasets.Open(p.t.Context(), datasets.Stores, filepath.Join(p.dir, "data", name))
		if err != nil {
			p.t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %d rows, in %d, dropped %v\n", name, v.Manifest().Rows, v.Manifest().RowsIn, v.Manifest().Dropped)
		if name != "rollouts" {
			continue
		}
		for r, err := range datasets.Rows[record.Rollout](p.t.Context(), v) {
			if err != nil {
				p.t.Fatal(err)
			}
			fmt.Fprintf(&b, "%s %s %s %s %d\n", r.RolloutID, r.Verdict.Outcome, r.Trajectory.ExitStatus, r.Trajectory.DiffSHA256, len(r.Trajectory.Steps))
		}
	}
	return b.String()
}

// replayed is how many rollouts the model server was asked to begin more than once.
func (p pipelineRun) replayed() (n int) {
	p.t.Helper()
	raw, err := os.ReadFile(filepath.Join(p.dir, "state/orchard/runs/crash/model-requests.jsonl"))
	if err != nil {
		p.t.Fatal(err)
	}
	begun := map[string]int{}
	for line := range bytes.Lines(raw) {
		var c struct {
			Task    string
			Seed    int64
			Step, N int
			Status  int
		}
		if json.Unmarshal(line, &c) != nil || c.Step != 0 || c.Task == "" {
			continue
		}
		if id := fmt.Sprint(c.Task, c.Seed); begun[id] > 0 {
			n++
		} else {
			begun[id]++
		}
	}
	return n
}

// A run that is killed before or after any of its writes, and started again, ends with
// the ids and counts of one that was left alone, and plays no finished rollout again.
// With one worker at most the rollout that the kill interrupted is begun twice.
func TestKilledAtAnyWrite(t *testing.T) {
	sandboxtest.New(t) // skips where there are no sandboxes
	whole := pipelineRun{t, t.TempDir()}
	if whole.start() {
		t.Fatal("killed without being told")
	}
	want := whole.rows()
	raw, err := os.ReadFile(filepath.Join(whole.dir, "count"))
	if err != nil {
		t.Fatal(err)
	}
	writes, err := strconv.Atoi(string(raw))
	if err != nil || writes < 20 {
		t.Fatalf("%d writes counted, %v", writes, err)
	}
	every := 1
	if os.Getenv("ORCHARD_SOAK") == "" {
		every = max(1, writes/3) // the soak tries them all
	}
	for n := 1; n <= writes; n += every {
		for _, when := range []string{"before", "after"} {
			p := pipelineRun{t, t.TempDir()}
			at := fmt.Sprintf("%s:%d", when, n)
			if !p.start("KILL_AT=" + at) {
				t.Errorf("%s: was not killed", at)
			}
			if p.start() {
				t.Fatalf("%s: the second run was killed", at)
			}
			if got := p.rows(); got != want {
				t.Errorf("%s: got\n%s\nwant\n%s", at, got, want)
			}
			if n := p.replayed(); n > 1 {
				t.Errorf("%s: %d rollouts were begun twice", at, n)
			}
		}
	}
}
