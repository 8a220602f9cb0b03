package gentest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"orchard/datasets"
	"orchard/datasets/gentest"
	"orchard/datasets/record"
	"orchard/datasets/transfer"
	"orchard/internal/objstore/dir"
)

// The soak is a million tasks and a hundred thousand rollouts, each step in a process of
// its own whose peak of memory is read when it ends. ORCHARD_SOAK_PERCENT makes it smaller.
const (
	soakTasks    = 1_000_000
	soakRollouts = 100_000
	soakMemory   = 512 << 20

	childStep = "GENTEST_STEP"
	childDir  = "GENTEST_DIR"
	childPart = "ORCHARD_SOAK_PERCENT"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// report is what a step's process says at its end.
type report struct {
	Peak    int64
	Seconds float64
	Rows    int64
	Bytes   int64
}

func TestMain(m *testing.M) {
	step := os.Getenv(childStep)
	if step == "" {
		os.Exit(m.Run())
	}
	began := time.Now()
	r := report{}
	err := steps[step](context.Background(), os.Getenv(childDir), &r)
	if err == nil {
		r.Peak, err = peak()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	r.Seconds = time.Since(began).Seconds()
	json.NewEncoder(os.Stdout).Encode(r)
}

// peak is the most memory that this process ever had.
func peak() (int64, error) {
	raw, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kb << 10, err
		}
	}
	return 0, errors.New("no VmHWM")
}

func share(n int) int {
	percent, err := strconv.Atoi(os.Getenv(childPart))
	if err != nil {
		percent = 100
	}
	return max(1, n*percent/100)
}

var steps = map[string]func(ctx context.Context, dir string, r *report) error{
	"write tasks": func(ctx context.Context, dir string, r *report) error {
		g := gentest.New(1)
		return write(ctx, dir, "tasks", share(soakTasks), datasets.WriterOptions{Sort: true}, g.Task, r)
	},
	"write rollouts": func(ctx context.Context, dir string, r *report) error {
		g := gentest.New(1)
		return write(ctx, dir, "rollouts", share(soakRollouts), datasets.WriterOptions{}, g.Rollout, r)
	},
	"verify": func(ctx context.Context, dir string, r *report) error {
		return both(ctx, dir, func(v *datasets.Version) error {
			found, err := datasets.Verify(ctx, v)
			if err == nil && len(found.Problems) > 0 {
				err = fmt.Errorf("problems: %v", found.Problems)
			}
			r.Rows, r.Bytes = r.Rows+v.Manifest().Rows, r.Bytes+v.Manifest().Bytes
			return err
		})
	},
	"pull": func(ctx context.Context, from string, r *report) error {
		to, err := dir.Open(filepath.Join(from, "copy"))
		if err != nil {
			return err
		}
		return both(ctx, from, func(v *datasets.Version) error {
			done, err := transfer.Copy(ctx, v, to, transfer.Options{})
			r.Rows, r.Bytes = r.Rows+v.Manifest().Rows, r.Bytes+done.Bytes
			return err
		})
	},
	"scan tasks":    func(ctx context.Context, dir string, r *report) error { return scanTasks(ctx, dir, r) },
	"scan rollouts": func(ctx context.Context, dir string, r *report) error { return scanRollouts(ctx, dir, r) },
}

func write[R record.Row](ctx context.Context, root, name string, n int, opts datasets.WriterOptions, row func(i int) R, r *report) error {
	s, err := dir.Open(root)
	if err != nil {
		return err
	}
	w, err := datasets.NewWriter[R](s, name, opts)
	if err != nil {
		return err
	}
	defer w.Close()
	for i := range n {
		if err := w.Write(ctx, row(i)); err != nil {
			return err
		}
	}
	digest, _, err := w.Commit(ctx, datasets.Meta{Stage: datasets.Stage{Name: "generate", Version: 1}, RowsIn: int64(n), Started: noon, Committed: noon})
	if err != nil {
		return err
	}
	v, err := datasets.OpenIn(ctx, s, name, digest)
	if err == nil {
		r.Rows, r.Bytes = v.Manifest().Rows, v.Manifest().Bytes
	}
	return err
}

func open(ctx context.Context, root, name string) (*datasets.Version, error) {
	s, err := dir.Open(root)
	if err != nil {
		return nil, err
	}
	return datasets.OpenIn(ctx, s, name, "")
}

func both(ctx context.Context, root string, do func(*datasets.Version) error) error {
	for _, name := range []string{"tasks", "rollouts"} {
		v, err := open(ctx, root, name)
		if err == nil {
			err = do(v)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func scanTasks(ctx context.Context, root string, r *report) error {
	v, err := open(ctx, root, "tasks")
	if err != nil {
		return err
	}
	python := int64(0)
	for t, err := range datasets.Rows[record.Task](ctx, v) {
		if err != nil {
			return err
		}
		r.Rows++
		r.Bytes += int64(len(t.Statement) + len(t.GoldPatch.Value))
		if t.Language == "python" {
			python++
		}
	}
	for _, err := range datasets.Objects(ctx, v, datasets.Where("language", "==", "python"), datasets.WithColumns("task_id"), datasets.Unordered()) {
		if err != nil {
			return err
		}
		python--
	}
	if r.Rows != int64(share(soakTasks)) || python != 0 {
		return fmt.Errorf("%d rows, and the filter found %d others", r.Rows, -python)
	}
	return nil
}

// scanRollouts reads all of them and makes some again to compare.
func scanRollouts(ctx context.Context, root string, r *report) error {
	v, err := open(ctx, root, "rollouts")
	if err != nil {
		return err
	}
	g, i := gentest.New(1), 0
	for got, err := range datasets.Rows[record.Rollout](ctx, v) {
		if err != nil {
			return err
		}
		r.Bytes += gentest.TextBytes(got)
		if i%1009 == 0 {
			if d := cmp.Diff(g.Rollout(i), got, cmpopts.EquateEmpty()); d != "" {
				return fmt.Errorf("rollout %d (-want +got):\n%s", i, d)
			}
		}
		i++
	}
	r.Rows = int64(i)
	if i != share(soakRollouts) {
		return fmt.Errorf("%d rows", i)
	}
	return nil
}

func TestSoak(t *testing.T) {
	if os.Getenv("ORCHARD_SOAK") == "" {
		t.Skip("a long test: make soak")
	}
	root := t.TempDir()
	for _, step := range []string{"write tasks", "write rollouts", "verify", "pull", "scan tasks", "scan rollouts"} {
		r := child(t, step, root)
		t.Logf("%-14s %9d rows %6.0f MB in %4.0f s, %4.0f MB/s; memory at most %d MB", step, r.Rows, float64(r.Bytes)/1e6, r.Seconds, float64(r.Bytes)/1e6/r.Seconds, r.Peak>>20)
		if r.Peak > soakMemory {
			t.Errorf("%s: took %d MB of memory, the most is %d", step, r.Peak>>20, soakMemory>>20)
		}
	}
}

// TestSmallSoak runs the same steps in short.
func TestSmallSoak(t *testing.T) {
	t.Setenv(childPart, "0")
	root := t.TempDir()
	for _, step := range []string{"write tasks", "write rollouts", "verify", "pull", "scan tasks", "scan rollouts"} {
		child(t, step, root)
	}
}

func child(t *testing.T, step, root string) (r report) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childStep+"="+step, childDir+"="+root)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &r)
	}
	if err != nil {
		t.Fatalf("%s: %v\n%s", step, err, out)
	}
	return r
}

// The same seed gives the same rows, in any order of asking; another gives others.
func TestSameSeedSameRows(t *testing.T) {
	t.Parallel()
	a, b, c := gentest.New(1), gentest.New(1), gentest.New(2)
	a.Task(3)
	if !reflect.DeepEqual(a.Rollout(5), b.Rollout(5)) || !reflect.DeepEqual(a.Task(5), b.Task(5)) || reflect.DeepEqual(a.Task(5), c.Task(5)) {
		t.Error("rows do not follow from the seed")
	}
	if n := gentest.TextBytes(a.Rollout(7)); n < gentest.RolloutText*9/10 || n > gentest.RolloutText*12/10 {
		t.Errorf("a rollout has %d bytes of text", n)
	}
}
