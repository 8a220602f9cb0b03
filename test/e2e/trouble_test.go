package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"orchard/datasets/record"
	"orchard/internal/sandbox"
	"orchard/internal/sandbox/control"
	"orchard/internal/sandbox/httpclient"
	"orchard/internal/sandbox/local"
	"orchard/internal/sandbox/sandboxtest"
	"orchard/internal/sandbox/sandboxtest/agentbin"
)

// initOf is the process of this machine that is number 1 in the sandbox where a
// command line has the word; 0 as long as none has.
func initOf(t *testing.T, word string) int {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range lines {
		line, err := os.ReadFile(name)
		if err != nil || !bytes.Contains(line, []byte(word)) {
			continue // ended meanwhile, or another one
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err != nil {
			t.Fatal(err)
		}
		for pid > 1 {
			inside, parent := status(pid)
			if len(inside) > 1 && inside[len(inside)-1] == "1" {
				return pid
			}
			pid = parent
		}
	}
	return 0
}

// status is a process's numbers from this machine's to that of its own namespace, and
// its parent's number here.
func status(pid int) (numbers []string, parent int) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return nil, 0
	}
	for line := range strings.Lines(string(b)) {
		switch name, value, _ := strings.Cut(line, ":"); name {
		case "NSpid":
			numbers = strings.Fields(value)
		case "PPid":
			if parent, err = strconv.Atoi(strings.TrimSpace(value)); err != nil {
				return nil, 0
			}
		}
	}
	return numbers, parent
}

// hanging is a task whose tests do not end, and a word by which their process is known.
func hanging(t *testing.T) (k record.Task, word string) {
	t.Helper()
	k = example(t, "examples__base32-10")
	word = fmt.Sprintf("e2e-%d-%s", os.Getpid(), t.Name())
	k.TestCmds = []string{"sleep 600; : " + word}
	return k, word
}

// gradeUntil grades the gold patch of a task and does something once the tests run.
func gradeUntil(t *testing.T, boxes sandbox.Client, k record.Task, word string, then func(pid int)) (record.Verdict, error) {
	t.Helper()
	type answer struct {
		v   record.Verdict
		err error
	}
	done := make(chan answer, 1)
	go func() {
		v, err := grader(boxes).Grade(t.Context(), k, []byte(k.GoldPatch.Value))
		done <- answer{v, err}
	}()
	for acted := false; ; {
		select {
		case a := <-done:
			if !acted {
				t.Fatalf("ended before the tests ran: %s: %s, %v", a.v.Outcome, a.v.Reason, a.err)
			}
			return a.v, a.err
		case <-time.After(50 * time.Millisecond):
		}
		if pid := initOf(t, word); pid != 0 && !acted {
			acted = true
			then(pid)
		}
	}
}

func TestKilledSandboxIsNoVerdict(t *testing.T) {
	t.Parallel()
	k, word := hanging(t)
	v, err := gradeUntil(t, sandboxtest.Client(t), k, word, func(pid int) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	})
	if err == nil {
		t.Fatalf("got a verdict: %s: %s", v.Outcome, v.Reason)
	}
	if !sandbox.IsLost(err) {
		t.Errorf("the error does not say that the sandbox is gone: %v", err)
	}
}

// service is a sandbox service of the test's own, which can be stopped.
func service(t *testing.T) (boxes sandbox.Client, stop func()) {
	t.Helper()
	sandboxtest.New(t) // skips the test where there are no sandboxes
	rt, err := local.New(context.Background(), local.Options{
		StateDir: t.TempDir(), CacheDir: filepath.Join(t.TempDir(), "cache"), AgentPath: agentbin.Path(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(errors.Join(err, rt.Close()))
	}
	set, key := control.Defaults(), control.NewKey()
	set.Keys = control.ParseKeys(key)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- control.Serve(ctx, l, rt, set) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := errors.Join(<-served, rt.Close()); err != nil {
			t.Errorf("end of the service: %v", err)
		}
	})
	t.Cleanup(stop)
	boxes, err = httpclient.New(httpclient.Options{URL: "http://" + l.Addr().String(), Key: key, Patience: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return boxes, stop
}

func TestServiceThatGoesAwayIsNoVerdict(t *testing.T) {
	t.Parallel()
	k, word := hanging(t)
	boxes, stop := service(t)
	if v, err := gradeUntil(t, boxes, k, word, func(int) { stop() }); err == nil {
		t.Errorf("got a verdict: %s: %s", v.Outcome, v.Reason)
	}
}
