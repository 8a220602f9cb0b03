package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"orchard/internal/exit/exittest"
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

func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup:               func(e *testscript.Env) error { setup(t, e); return nil },
		Cmds:                exittest.Cmds(),
	})
}
