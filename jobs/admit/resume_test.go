package admit

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/exit/exittest"
	"orchard/internal/objstore"
	"orchard/internal/runner"
	"orchard/internal/sandbox/sandboxtest"
)

// A healthy task costs 2R gradings, once: not again under another key, and after a change
// of the task set only the task that changed.
func TestGradingsAreDoneOnce(t *testing.T) {
	t.Parallel()
	s, m := newService(t), newMaker(t)
	store, sha := m.store()
	one := m.task("one", project{})
	run := func(in string, change func(*Config)) (record.Admission, int64) {
		t.Helper()
		before := s.made.Load()
		c := s.config(in, "admission")
		c.Repeats = 2
		if change != nil {
			change(&c)
		}
		res, err := Run(t.Context(), c, quiet())
		if err != nil {
			t.Fatal(err)
		}
		if res.Outcomes[Admitted] != res.RowsOut {
			t.Errorf("outcomes %v", res.Outcomes)
		}
		return rows(t, res.URI)["one"], s.made.Load() - before
	}
	tasks := m.dataset(store, sha, "tasks", one)
	first, made := run(tasks, nil)
	if made != 2*2 {
		t.Errorf("%d sandboxes for a task, want 2R", made)
	}
	for name, change := range map[string]func(*Config){
		"again":    nil,
		"run id":   func(c *Config) { c.RunID = "other" },
		"strict":   func(c *Config) { c.Strict = true },
		"all runs": func(c *Config) { c.AllRuns = true },
		"fewer":    func(c *Config) { c.Repeats = 1 },
	} {
		again, made := run(tasks, change)
		if made != 0 || again.ContentSHA256 != first.ContentSHA256 || again.GoldRuns[0].DurationMS != first.GoldRuns[0].DurationMS {
			t.Errorf("%s: %d sandboxes were made again", name, made)
		}
	}
	if _, made := run(tasks, func(c *Config) { c.Repeats = 3 }); made != 2 {
		t.Errorf("%d sandboxes for one more repeat of each arm", made)
	}
	said, other := one, one
	said.Statement = "in other words"
	other.TaskID, other.TimeoutMS = "other", one.TimeoutMS+1000
	if a, made := run(m.dataset(store, sha, "changed", said, other), nil); made != 2*2 || a.ContentSHA256 != first.ContentSHA256 {
		t.Errorf("%d sandboxes after one task came and one is only said in other words", made)
	}
	if _, made := run(tasks, func(c *Config) { c.Memory, c.Repeats = "640Mi", 1 }); made != 2 {
		t.Errorf("%d sandboxes with another limit", made)
	}
}

// Trouble of ours is no verdict: nothing is committed, and a rerun does what is left.
func TestTroubleIsNoVerdict(t *testing.T) {
	t.Parallel()
	s, m := newService(t), newMaker(t)
	store, sha := m.store()
	lost, err := datasets.PutBlob(t.Context(), store, []byte("a bundle that somebody deletes"))
	if err != nil {
		t.Fatal(err)
	}
	bad := m.task("bad", project{edit: func(t *record.Task) { t.RepoBlob = lost }})
	c := s.config(m.dataset(store, sha, "tasks", bad, m.task("good", project{})), "admission")
	if err := store.Delete(t.Context(), datasets.BlobKey(lost)); err != nil {
		t.Fatal(err)
	}
	c.Repeats = 1
	res, err := Run(t.Context(), c, quiet())
	if exit.Code(err) != exit.Retry || res.Units.Infra != 1 || res.Units.Done != 1 {
		t.Fatalf("%+v, %v", res.Units, err)
	}
	made := s.made.Load()
	c.MaxInfra = 0.5 // at most, and the task is counted and has no row
	if res, err = Run(t.Context(), c, quiet()); err != nil || res.Dropped[runner.ReasonInfra] != 1 || res.RowsOut != 1 {
		t.Fatalf("%+v, %v", res, err)
	}
	if n := s.made.Load() - made; n != 1 {
		t.Errorf("%d sandboxes, want that of the task in trouble", n)
	}

	s.refuse.Store(true)
	c.MaxInfra, c.Out = 0, c.Out+"-2"
	c.In = []string{m.dataset(store, sha, "others", m.task("other", project{more: "# other"}))}
	c.Deadline = time.Second
	d := quiet()
	d.Grace = 10 * time.Millisecond
	if _, err := Run(t.Context(), c, d); exit.Code(err) != exit.Retry {
		t.Errorf("no sandboxes: exit code %d, %v", exit.Code(err), err)
	}
	if _, err := datasets.Open(t.Context(), datasets.Stores, c.Out); err == nil {
		t.Error("a version was committed without a sandbox")
	}
}

// killer is a store whose n-th write is the last thing that the process does.
type killer struct {
	objstore.Store
	count string // file
	at    int
}

func (k killer) Create(ctx context.Context, key string, body objstore.Body) (objstore.Info, error) {
	info, err := k.Store.Create(ctx, key, body)
	f, ferr := os.OpenFile(k.count, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if ferr != nil {
		panic(ferr)
	}
	defer f.Close()
	if ferr := unix.Flock(int(f.Fd()), unix.LOCK_EX); ferr != nil {
		panic(ferr)
	}
	_, _ = f.WriteString(".")
	if st, serr := f.Stat(); serr == nil && st.Size() == int64(k.at) {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the signal is on its way
	}
	return info, err
}

// orchard is the program with this one command. KILL_AT is after which write it dies.
var orchard = exittest.Program(func() *cli.Command {
	deps := runner.Deps{}
	if at, err := strconv.Atoi(os.Getenv("KILL_AT")); err == nil {
		deps.Open = func(ctx context.Context, root string) (objstore.Store, error) {
			store, err := datasets.Stores(ctx, root)
			return killer{store, os.Getenv("KILL_COUNT"), at}, err
		}
	}
	return Command(deps)
})

func TestMain(m *testing.M) {
	testscript.Main(wrap{m}, map[string]func(){"orchard": orchard})
}

// wrap ends the test sandbox service after the tests.
type wrap struct{ m *testing.M }

func (w wrap) Run() int { return sandboxtest.Main(w.m) }

// Killed after any of its writes and started again, the stage says the same as one that was
// left alone, and repeats no finished grading.
func TestKilledAfterAnyWrite(t *testing.T) {
	t.Parallel()
	s, m := newService(t), newMaker(t)
	store, sha := m.store()
	in := m.dataset(store, sha, "tasks", m.task("t", project{}))
	const repeats = 1
	start := func(in, out string, at int) (killed bool) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "orchard", "admit", "--in", in, "--out", out, "--repeats", strconv.Itoa(repeats), "--sandbox-memory", "512Mi")
		cmd.Env = append(os.Environ(), "SANDBOX_BASE_URL="+s.url, "SANDBOX_API_KEY="+s.key, "KILL_AT="+strconv.Itoa(at), "KILL_COUNT="+out+".count")
		said, err := cmd.CombinedOutput()
		var ended *exec.ExitError
		if errors.As(err, &ended) && ended.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
			return true
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
		return false
	}
	stable := func(out string) string {
		a := rows(t, out)["t"]
		a.TestsMedianMS, a.TestsMaxMS, a.PeakBytes, a.TotalMS = nil, nil, nil, 0
		for _, runs := range [][]record.AdmissionRun{a.GoldRuns, a.EmptyRuns} {
			for i := range runs {
				runs[i].Log, runs[i].DurationMS, runs[i].TestsMS, runs[i].PeakBytes = record.Text{}, 0, nil, nil
			}
		}
		b, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	whole := filepath.Join(filepath.Dir(in), "whole")
	start(in, whole, 0)
	want := stable(whole)
	count, err := os.Stat(whole + ".count")
	if err != nil || count.Size() < 6 {
		t.Fatalf("%v writes, %v", count, err)
	}
	first, step := 2, int(count.Size())/2
	if os.Getenv("ORCHARD_SOAK") != "" {
		first, step = 1, 1
	}
	for at := first; at <= int(count.Size()); at += step {
		store, sha := m.store()
		in := m.dataset(store, sha, "tasks", m.task("t", project{}))
		out := filepath.Join(filepath.Dir(in), "admission")
		before := s.made.Load()
		if !start(in, out, at) {
			t.Errorf("write %d: was not killed", at)
		}
		start(in, out, 0)
		if got := stable(out); got != want {
			t.Errorf("killed after write %d: got\n%s\nwant\n%s", at, got, want)
		}
		if n := s.made.Load() - before; n > 2*repeats+1 {
			t.Errorf("killed after write %d: %d sandboxes were made", at, n)
		}
	}
}
