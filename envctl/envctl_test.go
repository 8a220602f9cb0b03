package envctl_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"orchard/envctl"
	"orchard/envctl/client"
	"orchard/internal/exit/exittest"
	"orchard/internal/sandbox/local"
	"orchard/internal/sandbox/sandboxtest"
	"orchard/internal/sandbox/sandboxtest/agentbin"
)

func TestMain(m *testing.M) {
	testscript.Main(wrap{m}, map[string]func(){"envctl": func() {
		p := &envctl.Program{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
		os.Exit(p.Run(context.Background(), os.Args))
	}})
}

// wrap ends the test sandbox service after the tests.
type wrap struct{ m *testing.M }

func (w wrap) Run() int { return sandboxtest.Main(w.m) }

// Each script is a service's user: it finds a real one in its environment, and the id of
// a sandbox that is ready as $box.
func TestScripts(t *testing.T) {
	t.Parallel()
	service := sandboxtest.New(t)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds:                exittest.Cmds(),
		Setup: func(e *testscript.Env) error {
			box := newBox(t, service)
			e.Defer(func() { endBox(t, box) })
			e.Vars = append(e.Vars, service.Env()...)
			e.Setenv("box", box.ID())
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("XDG_CACHE_HOME", filepath.Dir(local.DefaultCache()))
			e.Setenv("ORCHARD_AGENT", agentbin.Path(t))
			e.Setenv("PATH", e.Getenv("PATH")+":"+os.Getenv("PATH"))
			return nil
		},
	})
}

func sdk(t testing.TB, s sandboxtest.Service) *client.Client {
	t.Helper()
	c, err := client.New(client.Options{URL: s.URL, Key: s.Key})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func newBox(t testing.TB, s sandboxtest.Service) *client.Sandbox {
	t.Helper()
	box, err := sdk(t, s).Create(t.Context(), client.Spec{Image: sandboxtest.Image})
	if err != nil {
		t.Fatal(err)
	}
	return box
}

func endBox(t testing.TB, box *client.Sandbox) {
	t.Helper()
	if err := box.Delete(context.Background()); err != nil {
		t.Error(err)
	}
}

// result is what a call of the program came to.
type result struct {
	code     int
	out, err string
}

// call runs the program in this process, against the test's service.
func call(t testing.TB, s sandboxtest.Service, in string, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	p := &envctl.Program{In: strings.NewReader(in), Out: &out, Err: &errs}
	code := p.Run(t.Context(), append([]string{"envctl", "--url", s.URL, "--key-file", keyFile(t, s.Key)}, args...))
	return result{code, out.String(), errs.String()}
}

func keyFile(t testing.TB, key string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
