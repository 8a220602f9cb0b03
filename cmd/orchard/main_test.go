package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"orchard/internal/sandbox/local"
	"orchard/internal/sandbox/sandboxtest"
	"orchard/internal/sandbox/sandboxtest/agentbin"
)

// cacheHome is the user's own: the sandboxes' Go cache in it takes a minute to build.
var cacheHome = filepath.Dir(local.DefaultCache())

func TestMain(m *testing.M) {
	testscript.Main(wrap{m}, map[string]func(){"orchard": func() {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		code := run(ctx, os.Args, os.Stdout, os.Stderr)
		stop()
		os.Exit(code)
	}})
}

// wrap ends the test sandbox service after the tests.
type wrap struct{ m *testing.M }

func (w wrap) Run() int { return sandboxtest.Main(w.m) }

// setup gives a script the program's surroundings: an agent, a home, warm caches.
func setup(t testing.TB, e *testscript.Env) {
	e.Setenv("ORCHARD_AGENT", agentbin.Path(t))
	e.Setenv("HOME", e.WorkDir)
	e.Setenv("XDG_CACHE_HOME", cacheHome)
	e.Setenv("XDG_STATE_HOME", filepath.Join(e.WorkDir, "state"))
	e.Setenv("PATH", e.Getenv("PATH")+":"+os.Getenv("PATH"))
}

// code N COMMAND...: the command ends with exactly this exit code.
func code(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var ended *exec.ExitError
		if !errors.As(err, &ended) {
			ts.Fatalf("%v", err)
		}
		got = ended.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup:               func(e *testscript.Env) error { setup(t, e); return nil },
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"code": code},
	})
}
