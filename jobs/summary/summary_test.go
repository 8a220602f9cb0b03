package summary

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"orchard/datasets"
	"orchard/datasets/gentest/fixture"
	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/objstore"
	"orchard/internal/runner"
)

// made is a root with a dataset of one task of two, committed at the given time.
func made(t *testing.T, name string, at time.Time, u record.Usage) string {
	t.Helper()
	root := t.TempDir()
	task := record.Task{TaskID: "t", PreCommands: []string{}, TestCmds: []string{"true"}, FailToPass: []string{"a"}, PassToPass: []string{}}
	fixture.Version(t, root, name, []record.Task{task}, datasets.Meta{Stage: datasets.Stage{Name: "import", Version: 1, Config: json.RawMessage("{}")}, RowsIn: 2,
		Dropped: map[string]int64{"limit": 1}, Started: at, Committed: at, Usage: u})
	return filepath.Join(root, name)
}

func run(t *testing.T, c Config, now time.Time) (string, error) {
	t.Helper()
	c.Config.OutputDir, c.RunID = t.TempDir(), "run-7"
	var out strings.Builder
	err := Run(t.Context(), c, runner.Deps{Stdout: &out, Now: func() time.Time { return now }})
	if err == nil {
		file, rerr := os.ReadFile(filepath.Join(c.OutputDir, "summary.txt"))
		if rerr != nil || string(file) != out.String() {
			t.Errorf("summary.txt holds %q (%v), printed was %q", file, rerr, out.String())
		}
	}
	return out.String(), err
}

func TestSummary(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	tokens := int64(7)
	fresh := made(t, "rollouts", at, record.Usage{ModelCalls: 3, SandboxMS: 61000, PromptTokens: &tokens, CompletionTokens: &tokens})
	old := made(t, "tasks", at.Add(-time.Hour), record.Usage{ModelCalls: 100})
	c := Config{Config: runner.Default(), Status: "Failed", Duration: 10 * time.Minute}
	c.In = []string{old, fresh, filepath.Join(t.TempDir(), "sft")}
	out, err := run(t, c, at.Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"run run-7: Failed after 10m0s\n", "usage: 3 model calls, 1m1s of sandboxes, 7 prompt and 7 completion tokens\n", "-p run-id=run-7"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	for name, want := range map[string][]string{"tasks": {"1", "1", "before"}, "rollouts": {"1", "1", "03:04:05"}, "sft": {"-", "-", "no"}} {
		found := false
		for line := range strings.Lines(out) {
			f := strings.Fields(line)
			found = found || len(f) > 4 && f[0] == name && f[1] == want[0] && f[2] == want[1] && f[3] == want[2]
		}
		if !found {
			t.Errorf("%s: no line with %v in\n%s", name, want, out)
		}
	}
	c.Status = "Succeeded"
	if out, err = run(t, c, at); err != nil || strings.Contains(out, "Go on") {
		t.Errorf("a run that succeeded: %v\n%s", err, out)
	}
}

func TestSummaryOfAStoreThatIsAway(t *testing.T) {
	t.Parallel()
	c := Config{Config: runner.Default(), Status: "Failed"}
	c.In = []string{"s3://bucket/tasks", "s3://bucket/rollouts"}
	asked := 0
	away := func(context.Context, string) (objstore.Store, error) {
		asked++
		return nil, fmt.Errorf("read of bucket: %w", objstore.ErrUnavailable)
	}
	var out strings.Builder
	if err := Run(t.Context(), c, runner.Deps{Open: away, Stdout: &out}); err != nil || asked != 1 {
		t.Errorf("asked %d times: %v", asked, err)
	}
	for _, want := range []string{"read of bucket: store unavailable", "Go on with what is left"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := Run(stopped, c, runner.Deps{Open: away, Stdout: &out}); exit.Code(err) != exit.Retry {
		t.Errorf("a summary that was stopped: %v", err)
	}
	c.In = nil
	if err := Run(t.Context(), c, runner.Deps{}); exit.Code(err) != exit.Config {
		t.Errorf("without --in: %v", err)
	}
}
