package argo_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

// alone is the same pipeline on this machine, run once for all tests, beside them.
var alone = struct {
	begin sync.Once
	ended chan struct{}
	err   error
}{ended: make(chan struct{})}

// begin starts the reference, so that it is there when a test has something to compare.
func begin() {
	alone.begin.Do(func() {
		go func() {
			defer close(alone.ended)
			cmd := orchardCommand(living, "run", "--run-id", "reference", "--state-dir", filepath.Join(programs, "state"), "-p", "tasks=examples",
				"-p", "out="+filepath.Join(programs, "alone"), "-p", fmt.Sprint("limit=", tasksUsed), "-p", fmt.Sprint("rollouts=", rolloutsEach),
				"-p", "seed="+seed, "-p", "workers=2", "swe-sft")
			cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it ends its sandboxes
			if out, err := cmd.CombinedOutput(); err != nil {
				alone.err = fmt.Errorf("%w\n%s", err, out)
			}
		}()
	})
}

// reference is the root of the datasets that `orchard run` makes on this machine.
func reference(t testing.TB) string {
	t.Helper()
	begin()
	<-alone.ended
	if alone.err != nil {
		t.Fatalf("there is nothing to compare with: orchard run: %v", alone.err)
	}
	return filepath.Join(programs, "alone")
}

// undisturbed is a pipeline on this machine with the parameters of one on the cluster.
func undisturbed(t testing.TB, pipeline, runID, out string, p map[string]string) {
	t.Helper()
	arg := []string{"run", "--run-id", runID, "--state-dir", filepath.Join(t.TempDir(), "state"), "-p", "out=" + out}
	for _, name := range slices.Sorted(maps.Keys(p)) {
		switch name {
		case "run-id", "out", "sandbox-cpu-request", "sandbox-memory": // another place, and room
		default:
			arg = append(arg, "-p", name+"="+p[name])
		}
	}
	orchard(t, append(arg, pipeline)...)
}
