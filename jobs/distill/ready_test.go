package distill

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"orchard/datasets"
	"orchard/datasets/gentest/fixture"
	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/runner"
)

// tasks is a dataset of one task, as a path.
func tasks(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	task := record.Task{TaskID: "t", PreCommands: []string{}, TestCmds: []string{"true"}, FailToPass: []string{"a"}, PassToPass: []string{}}
	return fixture.Dataset(t, root, "tasks", "import", []record.Task{task})
}

func says(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

// A server that cannot be used ends the stage before the first rollout, by the table of
// exit codes, and the message names what to mend.
func TestServersThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	const nobody = "http://127.0.0.1:1"
	in := tasks(t)
	for _, c := range []struct {
		name           string
		model, sandbox http.HandlerFunc // nil: nobody listens
		code           int
		says           string
	}{
		{"no model server", nil, nil, exit.Retry, "--llm-url"},
		{"model server is ill", says(500, "oops"), nil, exit.Retry, "HTTP 500"},
		{"wrong model key", says(401, `{"error":{"message":"who are you"}}`), nil, exit.Config, "OPENAI_API_KEY"},
		{"no such model", says(404, `{"error":{"message":"no model m"}}`), nil, exit.Config, "--llm-model"},
		{"no model server at all", says(200, "<html>welcome"), nil, exit.Config, "--llm-url"},
		{"no sandbox service", says(200, `{"data":[{"id":"m"}]}`), nil, exit.Retry, "--sandbox-url"},
		{"wrong sandbox key", says(200, `{"data":[{"id":"m"}]}`), says(403, `{"detail":"Invalid API key"}`), exit.Config, "SANDBOX_API_KEY"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			url := func(h http.HandlerFunc) string {
				if h == nil {
					return nobody
				}
				s := httptest.NewServer(h)
				t.Cleanup(s.Close)
				return s.URL
			}
			cfg := Defaults()
			cfg.In, cfg.Out = []string{in}, filepath.Join(t.TempDir(), "out")
			cfg.LLM.URL, cfg.LLM.Model, cfg.SandboxURL = url(c.model), "m", url(c.sandbox)
			_, err := Run(t.Context(), cfg, runner.Deps{Open: datasets.Stores, Now: time.Now, Patience: 10 * time.Millisecond})
			if exit.Code(err) != c.code || !strings.Contains(err.Error(), c.says) {
				t.Errorf("exit %d: %v; want %d and %q", exit.Code(err), err, c.code, c.says)
			}
			// A check finds the same before there are tasks, and soon gives up on what is away.
			cfg.In, cfg.Mode = []string{filepath.Join(t.TempDir(), "tasks")}, runner.ModeCheck
			code := c.code
			if code == exit.Retry {
				code = exit.Gone
			}
			_, err = Run(t.Context(), cfg, runner.Deps{Open: datasets.Stores, Now: time.Now, Patience: 10 * time.Millisecond})
			if exit.Code(err) != code || !strings.Contains(err.Error(), c.says) {
				t.Errorf("check: exit %d: %v; want %d and %q", exit.Code(err), err, code, c.says)
			}
		})
	}
}

func TestTheSameTaskTwice(t *testing.T) {
	t.Parallel()
	in := tasks(t)
	cfg := Defaults()
	cfg.In, cfg.Out, cfg.DryRun = []string{in, in}, filepath.Join(t.TempDir(), "out"), true
	_, err := Run(context.Background(), cfg, runner.Deps{Open: datasets.Stores, Now: time.Now})
	if exit.Code(err) != exit.Input || !strings.Contains(err.Error(), "task t: is in") {
		t.Errorf("exit %d: %v", exit.Code(err), err)
	}
}
