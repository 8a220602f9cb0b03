package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/objstore"
	"orchard/internal/objstore/objtest"
)

// The tests here run a stage in a process of its own: this test binary, told by the
// environment what to do.
const (
	childKind  = "RUNNER_CHILD"       // "rollouts", "batch" or "slow"
	childDir   = "RUNNER_CHILD_DIR"   // its folder
	childAt    = "RUNNER_CHILD_AT"    // the store write that kills it, 0 for none
	childAfter = "RUNNER_CHILD_AFTER" // "true": after the write took effect
)

func TestMain(m *testing.M) {
	if os.Getenv(childKind) == "" {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	at, err := strconv.Atoi(os.Getenv(childAt))
	if err == nil {
		var r Result
		r, err = child(ctx, os.Getenv(childKind), os.Getenv(childDir), func(s objstore.Store) objstore.Store {
			return &objtest.Faults{Store: s, At: at, After: os.Getenv(childAfter) == "true", Kill: true}
		})
		fmt.Println(r.Digest)
	}
	if err != nil && at > 0 {
		select {} // the signal is on its way; other workers saw the store die before it came
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(exit.Code(err))
}

// child runs a stage in dir and notes each call of Do in the file calls.
func child(ctx context.Context, kind, dir string, wrap func(objstore.Store) objstore.Store) (Result, error) {
	if units, ok := strings.CutPrefix(kind, "compact "); ok {
		return compact(ctx, units, dir)
	}
	w := newWorld(dir, 4)
	w.cfg.Workers = 2
	w.deps.Open = func(ctx context.Context, root string) (objstore.Store, error) {
		s, err := datasets.Stores(ctx, root)
		return wrap(s), err
	}
	if kind == "batch" {
		return Batch(ctx, w.cfg, w.deps, w.stage, batchOf(2))
	}
	w.src.Do = func(ctx context.Context, u Unit, tools Tools) (record.Rollout, error) {
		if err := note(dir, u.ID); err != nil {
			return record.Rollout{}, err
		}
		r := rollout(u)
		var err error
		if r.Verdict.Log, err = tools.Keep(ctx, []byte(strings.Repeat(u.ID, 40_000))); err != nil {
			return r, err
		}
		if kind == "slow" && u.ID != "u003" && u.ID != "u002" {
			<-ctx.Done() // the first two units end at once, the others never
			return r, ctx.Err()
		}
		return r, nil
	}
	w.deps.Grace = time.Hour // another worker's failed write must not cancel the one that kills
	if kind == "slow" {
		w.deps.Grace = 10 * time.Millisecond
	}
	return w.run(ctx)
}

func note(dir, line string) error {
	f, err := os.OpenFile(filepath.Join(dir, "calls"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	return errors.Join(err, f.Close())
}

func noted(t *testing.T, dir string) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "calls"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Fields(string(b))
}

// batchOf emits n rows with a long text, drops one, and writes a file.
func batchOf(n int) func(context.Context, *Pass[record.Rollout]) error {
	return func(ctx context.Context, p *Pass[record.Rollout]) error {
		p.Read(int64(n) + 1)
		p.Drop("odd")
		for i := range n {
			r := rollout(Unit{ID: fmt.Sprintf("r%d", n-i), Work: i})
			var err error
			if r.Verdict.Log, err = p.Keep(ctx, []byte(strings.Repeat(r.RolloutID, 40_000))); err != nil {
				return err
			}
			if err := p.Emit(ctx, r); err != nil {
				return err
			}
		}
		_, err := p.PutFile(ctx, "train.jsonl", objstore.Bytes("{}\n"))
		return err
	}
}

// command is the child that dies at a write.
func command(t *testing.T, kind, dir string, at int, after bool) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childKind+"="+kind, childDir+"="+dir, fmt.Sprintf("%s=%d", childAt, at), fmt.Sprintf("%s=%v", childAfter, after))
	return cmd
}

// finishedUnits is the units that have an object in dir.
func finishedUnits(t *testing.T, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob(dir + "/rollouts/units/*/u*.json")
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range paths {
		paths[i] = strings.TrimSuffix(filepath.Base(p), ".json")
	}
	return paths
}

// TestKilled: SIGKILL before and after every write to the store, then the stage again.
// It ends with the version of an undisturbed run and repeats no finished unit.
func TestKilled(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"rollouts", "batch"} {
		calm := t.TempDir()
		counter := &objtest.Faults{}
		want, err := child(t.Context(), kind, calm, func(s objstore.Store) objstore.Store {
			counter.Store = s
			return counter
		})
		if err != nil {
			t.Fatal(err)
		}
		writes := len(counter.Writes())
		if writes < 8 {
			t.Fatalf("%s: only %d writes", kind, writes)
		}
		for at := 1; at <= writes; at++ {
			for _, after := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%d/after=%v", kind, at, after), func(t *testing.T) {
					t.Parallel()
					dir := t.TempDir()
					var ended *exec.ExitError
					if err := command(t, kind, dir, at, after).Run(); !errors.As(err, &ended) || ended.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
						t.Fatalf("the child was not killed: %v", err)
					}
					before, finished := noted(t, dir), finishedUnits(t, dir)
					got, err := child(t.Context(), kind, dir, func(s objstore.Store) objstore.Store { return s })
					if err != nil {
						t.Fatal(err)
					}
					if got.Digest != want.Digest || got.RowsIn != want.RowsIn || got.RowsOut != want.RowsOut || !cmp.Equal(got.Dropped, want.Dropped) {
						t.Errorf("got %+v, want %+v", got, want)
					}
					if len(got.Files) != len(want.Files) {
						t.Errorf("files %v, want %v", got.Files, want.Files)
					}
					for _, u := range noted(t, dir)[len(before):] {
						if slices.Contains(finished, u) {
							t.Errorf("unit %s was finished and was done again", u)
						}
					}
				})
			}
		}
	}
}

// TestSIGTERM: a real signal to a real process. It ends with 75 and keeps what is done.
func TestSIGTERM(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := command(t, "slow", dir, 0, false)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range tick.C { // until two units are finished and two more are running
		if len(finishedUnits(t, dir)) == 2 && len(noted(t, dir)) == 4 {
			break
		}
		if t.Context().Err() != nil {
			t.Fatal("the child does not get anywhere")
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var ended *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &ended) || ended.ExitCode() != exit.Retry {
		t.Fatalf("the child ended with %v", err)
	}
	r, err := child(t.Context(), "rollouts", dir, func(s objstore.Store) objstore.Store { return s })
	if err != nil || r.Units.Reused != 2 || r.Units.Done != 2 {
		t.Errorf("the rerun: %+v, %v", r.Units, err)
	}
}

// TestStoreAway: a write that fails once in a passing way costs a rerun at most.
func TestStoreAway(t *testing.T) {
	t.Parallel()
	for at := 1; at <= 12; at++ {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			_, err := child(t.Context(), "rollouts", dir, func(s objstore.Store) objstore.Store {
				return &objtest.Faults{Store: s, At: at, Once: true}
			})
			if err != nil && exit.Code(err) != exit.Retry {
				t.Errorf("exit %d: %v", exit.Code(err), err)
			}
			if r, err := child(t.Context(), "rollouts", dir, func(s objstore.Store) objstore.Store { return s }); err != nil || r.RowsOut != 4 {
				t.Errorf("the rerun: %+v, %v", r, err)
			}
		})
	}
}
