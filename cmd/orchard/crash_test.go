package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"orchard/datasets"
	"orchard/datasets/compare"
	"orchard/internal/sandbox/sandboxtest"
	"orchard/internal/sandbox/sandboxtest/agentbin"
)

// crash is a pipeline to kill, on few tasks and with one worker.
type crash struct {
	name       string
	arg        []string // of `orchard run`
	made       []string // the datasets there must be
	exact      []string // of them, those of stages without a model, whose shards must have the same bytes
	brief      bool     // it is tried at some points outside the soak too
	interrupts int      // rollouts that can be under way at one time
}

// crashes are all pipelines: together they run every stage.
func crashes() []crash {
	const tasks = `filter=language == "go"` // these take the least time, and every machine has their tools
	return []crash{
		{name: "sft", brief: true, interrupts: 1,
			arg:   []string{"swe-sft", "-p", tasks, "-p", "limit=1", "-p", "rollouts=2"},
			made:  []string{"tasks", "rollouts", "sft", "report"},
			exact: []string{"tasks", "sft"}},
		{name: "credit", interrupts: 1,
			arg:   []string{"swe-sft", "-p", tasks, "-p", "limit=1", "-p", "rollouts=2", "-p", "credit=execution", "-p", "keep=graded"},
			made:  []string{"tasks", "rollouts", "credit", "sft", "report"},
			exact: []string{"tasks", "sft"}},
		{name: "tasks",
			arg:   []string{"swe-tasks", "-p", tasks, "-p", "limit=2", "-p", "repeats=1"},
			made:  []string{"tasks", "admissions", "filtered", "unique"},
			exact: []string{"tasks", "filtered", "unique"}},
		{name: "rl", interrupts: 2, // a stride of rollouts is drawn at once
			arg: []string{"swe-rl", "-p", tasks, "-p", "limit=2", "-p", "rounds=1", "-p", "rollouts=1", "-p", "min-known=1", "-p", "at-most=1",
				"-p", "group-size=2", "-p", "max-draws=6", "-p", "stride=2", "-p", "groups=1"},
			made:  []string{"tasks", "passrates", "groups", "groups-rollouts", "rl"},
			exact: []string{"tasks"}},
		{name: "eval", interrupts: 1,
			arg:   []string{"swe-eval", "-p", tasks, "-p", "limit=1", "-p", "rollouts=2"},
			made:  []string{"tasks", "eval", "eval-evaluation"},
			exact: []string{"tasks", "eval-evaluation"}},
	}
}

// pipelineRun is `orchard run` in a folder of its own.
type pipelineRun struct {
	t   *testing.T
	dir string
	crash
}

func (c crash) in(t *testing.T) pipelineRun { return pipelineRun{t, t.TempDir(), c} }

func (p pipelineRun) start(env ...string) (killed bool) {
	p.t.Helper()
	program, err := exec.LookPath("orchard") // the test binary, as testscript put it on PATH
	if err != nil {
		program = os.Args[0]
	}
	cmd := exec.CommandContext(p.t.Context(), program, append([]string{"run", "--run-id", "crash", "-p", "out=data", "-p", "workers=1"}, p.arg...)...)
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

// equals says where the datasets of another run of the same work differ from this one's.
func (p pipelineRun) equals(at string, other pipelineRun) {
	p.t.Helper()
	for _, name := range p.made {
		here, there := p.version(name), other.version(name)
		d, err := compare.Versions(p.t.Context(), here, there, compare.Options{Change: func(c compare.Change) error {
			p.t.Errorf("%s: %s: %s", at, name, c)
			return nil
		}})
		if err != nil {
			p.t.Fatal(err)
		}
		if !d.Equal() {
			p.t.Errorf("%s: %s differs from the run that was left alone: %+v", at, name, d)
		}
		if slices.Contains(p.exact, name) && shards(here) != shards(there) {
			p.t.Errorf("%s: %s has other bytes than in the run that was left alone", at, name)
		}
	}
}

func (p pipelineRun) version(name string) *datasets.Version {
	p.t.Helper()
	v, err := datasets.Open(p.t.Context(), datasets.Stores, filepath.Join(p.dir, "data", name))
	if err != nil {
		p.t.Fatal(err)
	}
	return v
}

func shards(v *datasets.Version) (sums string) {
	for _, s := range v.Manifest().Shards {
		sums += s.SHA256 + "\n"
	}
	return sums
}

// replayed is how many rollouts the model server was asked to begin more than once.
func (p pipelineRun) replayed() (n int) {
	p.t.Helper()
	raw, err := os.ReadFile(filepath.Join(p.dir, "state/orchard/runs/crash/model-requests.jsonl"))
	if errors.Is(err, os.ErrNotExist) && p.interrupts == 0 {
		return 0
	}
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
// the rows of one that was left alone, and plays no finished rollout again: only those that
// the kill interrupted are begun twice.
func TestKilledAtAnyWrite(t *testing.T) {
	sandboxtest.New(t) // skips where there are no sandboxes
	for _, c := range crashes() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.everywhere(t)
		})
	}
}

func (c crash) everywhere(t *testing.T) {
	soak := os.Getenv("ORCHARD_SOAK") != ""
	if !soak && !c.brief {
		t.Skip("make crash runs this")
	}
	whole := c.in(t)
	if whole.start() {
		t.Fatal("killed without being told")
	}
	raw, err := os.ReadFile(filepath.Join(whole.dir, "count"))
	if err != nil {
		t.Fatal(err)
	}
	writes, err := strconv.Atoi(string(raw))
	if err != nil || writes < 15 {
		t.Fatalf("%d writes counted, %v", writes, err)
	}
	t.Logf("%d writes", writes)
	usual := whole.replayed() // rollouts of a pass rate and of a group have the same seeds
	every := 1
	if text := os.Getenv("ORCHARD_SOAK_POINTS"); text != "" { // for trying the suite itself
		points, err := strconv.Atoi(text)
		if err != nil || points < 1 {
			t.Fatalf("ORCHARD_SOAK_POINTS is %q, not a number of points", text)
		}
		every = max(1, writes/points)
	} else if !soak {
		every = max(1, writes/3)
	}
	for n := 1; n <= writes; n += every {
		for i, when := range []string{"before", "after"} {
			if !soak && n/every%2 != i {
				continue // by turns
			}
			p := c.in(t)
			at := fmt.Sprintf("%s:%d", when, n)
			if !p.start("KILL_AT=" + at) {
				t.Errorf("%s: was not killed", at)
			}
			if p.start() {
				t.Fatalf("%s: the second run was killed", at)
			}
			whole.equals(at, p)
			if n := p.replayed() - usual; n > c.interrupts {
				t.Errorf("%s: %d rollouts were begun twice, of %d that can be under way", at, n, c.interrupts)
			}
			if err := os.RemoveAll(p.dir); err != nil {
				t.Error(err)
			}
		}
	}
}
