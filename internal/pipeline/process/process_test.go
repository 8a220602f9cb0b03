package process

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"orchard/internal/exit"
	"orchard/internal/pipeline"
)

// TestMain lets the test binary be the step: STEP says what it does.
func TestMain(m *testing.M) {
	switch os.Getenv("STEP") {
	case "":
		os.Exit(m.Run())
	case "write":
		dir := os.Getenv("ORCHARD_OUTPUT_DIR")
		_ = os.WriteFile(filepath.Join(dir, "dataset"), []byte("file:///d@1\n"), 0o644)
		_ = os.WriteFile(os.Getenv("ARGO_PROGRESS_FILE"), []byte("3/4"), 0o644)
		os.Stdout.WriteString(strings.Join(os.Args[1:], "|") + " " + os.Getenv("EXTRA"))
	case "fail":
		os.Stderr.WriteString("first\norchard: row 3 is wrong\nmend it\n")
		os.Exit(exit.Input)
	case "hang":
		time.Sleep(time.Hour)
	case "run": // a runner whose step hangs, to be killed
		r := runner(os.Getenv("DIR"))
		r.Env = []string{"STEP=hang"}
		_, _ = r.Step(context.Background(), pipeline.Step{Node: "a"})
	}
	os.Exit(0)
}

func runner(dir string) *Runner {
	return &Runner{Executable: os.Args[0], Dir: func(node string, attempt int) (string, error) {
		path := filepath.Join(dir, node, strconv.Itoa(attempt))
		return path, os.MkdirAll(filepath.Join(path, "out"), 0o755)
	}}
}

func TestStepWritesItsOutputs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := runner(dir)
	r.Env = []string{"STEP=write", "EXTRA=lost"}
	res, err := r.Step(t.Context(), pipeline.Step{Node: "a", Args: []string{"x y", "z"}, Env: map[string]string{"EXTRA": "own"},
		Outputs: map[string]string{"dataset": "/tmp/orchard/dataset", "rows": "/tmp/orchard/rows"}})
	if err != nil || res.ExitCode != 0 || res.Outputs["dataset"] != "file:///d@1" {
		t.Fatalf("%+v, %v", res, err)
	}
	if _, ok := res.Outputs["rows"]; ok {
		t.Error("an output that was not written has a value")
	}
	log, _ := os.ReadFile(filepath.Join(dir, "a", "0", "log"))
	progress, _ := os.ReadFile(filepath.Join(dir, "a", "0", "progress"))
	if string(log) != "x y|z own" || string(progress) != "3/4" {
		t.Errorf("log %q, progress %q", log, progress)
	}
}

func TestStepFailsWithItsLastWords(t *testing.T) {
	t.Parallel()
	r := runner(t.TempDir())
	r.Env = []string{"STEP=fail"}
	res, err := r.Step(t.Context(), pipeline.Step{Node: "a"})
	if err != nil || res.ExitCode != exit.Input || res.Message != "row 3 is wrong\nmend it" {
		t.Errorf("%+v, %v", res, err)
	}
	r.Executable = "/nowhere/orchard"
	if _, err := r.Step(t.Context(), pipeline.Step{Node: "a"}); exit.Code(err) != exit.Config || !strings.Contains(err.Error(), "/nowhere/orchard") {
		t.Errorf("no such program: %v", err)
	}
}

func TestStopReachesTheStep(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	r := runner(t.TempDir())
	r.Env = []string{"STEP=hang"}
	r.Started = func(string, string) { time.AfterFunc(50*time.Millisecond, cancel) }
	res, err := r.Step(ctx, pipeline.Step{Node: "a"})
	if err != nil || res.ExitCode != 128+int(syscall.SIGTERM) {
		t.Errorf("%+v, %v", res, err)
	}
}

// A runner that is killed outright takes its steps with it.
func TestKilledRunnerLeavesNoStep(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "STEP=run", "DIR="+dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	child := waitFor(t, func() (string, bool) {
		raw, _ := os.ReadFile("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/task/" + strconv.Itoa(cmd.Process.Pid) + "/children")
		if len(bytes.Fields(raw)) == 0 { // the step may be another thread's child
			tasks, _ := filepath.Glob("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/task/*/children")
			for _, f := range tasks {
				more, _ := os.ReadFile(f)
				raw = append(raw, more...)
			}
		}
		f := strings.Fields(string(raw))
		return strings.Join(f, " "), len(f) == 1
	})
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	waitFor(t, func() (string, bool) {
		raw, err := os.ReadFile("/proc/" + child + "/stat")
		return string(raw), err != nil || strings.Contains(string(raw), ") Z ")
	})
}

func waitFor(t *testing.T, what func() (string, bool)) string {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); <-tick.C {
		if v, ok := what(); ok {
			return v
		}
	}
	v, _ := what()
	t.Fatalf("still %q", v)
	return ""
}
