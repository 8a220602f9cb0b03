// Package scale_test loads one controller with thousands of sandboxes on simulated nodes, and
// says what that cost. The API server, the scheduler and the controller, which is a process
// of this machine, are real; the nodes are kwok's, and one process, this one, answers for all
// agents (farm). `make soak` runs it on the test cluster; by itself only the farm is tried.
package scale_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"orchard/test/e2e/suite"
)

// soaks is what `make soak` says: the cluster is up, and these tests have it.
var soaks = os.Getenv("ORCHARD_E2E") == "1" && os.Getenv("ORCHARD_SOAK") == "1"

// patience is for what comes in seconds.
const patience = 2 * time.Minute

// until waits for what try returns "" for, and fails with what it returned last.
func until(t testing.TB, what string, try func() string) {
	t.Helper()
	suite.Eventually(t, what, patience, 100*time.Millisecond, try)
}

// build makes programs of this module.
func build(t testing.TB, names ...string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	for _, name := range names {
		out, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags", "-s -w", "-o", filepath.Join(folder, name), "orchard/cmd/"+name).CombinedOutput()
		if err != nil {
			t.Fatalf("build %s: %v: %s", name, err, out)
		}
	}
	return folder
}

// start runs a program until the test is over; its log is a file whose end is shown if the test fails.
func start(t testing.TB, env []string, program string, args ...string) (cmd *exec.Cmd, log string) {
	t.Helper()
	log = filepath.Join(t.TempDir(), filepath.Base(program)+".log")
	out, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd = exec.Command(program, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), env...), out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		killer := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		killer.Stop()
		if raw, err := os.ReadFile(log); err == nil && t.Failed() {
			lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
			t.Logf("%s said last:\n%s", filepath.Base(program), strings.Join(lines[max(0, len(lines)-20):], "\n"))
		}
	})
	return cmd, log
}
