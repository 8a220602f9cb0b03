package command_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"orchard/internal/exit"
	"orchard/internal/sandbox"
	"orchard/internal/sandbox/control/command"
	"orchard/internal/sandbox/httpclient"
	"orchard/internal/sandbox/sandboxtest"
	"orchard/internal/sandbox/sandboxtest/agentbin"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"orchard-controller": func() {
			err := command.App(os.Stdout, os.Stderr).RunContext(context.Background(), os.Args)
			if err != nil {
				fmt.Fprintln(os.Stderr, "orchard-controller:", err)
			}
			os.Exit(exit.Code(err))
		},
	})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/script"})
}

// syncBuffer is a log that is read while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}
func (s *syncBuffer) String() string { s.mu.Lock(); defer s.mu.Unlock(); return s.b.String() }

// logged waits for a log line with a message and gives its fields.
func logged(t *testing.T, log *syncBuffer, message string) map[string]any {
	t.Helper()
	deadline := time.After(60 * time.Second)
	for {
		for _, line := range strings.Split(log.String(), "\n") {
			var fields map[string]any
			if json.Unmarshal([]byte(line), &fields) == nil && fields["message"] == message {
				return fields
			}
		}
		select {
		case <-deadline:
			t.Fatalf("no %q in the log:\n%s", message, log)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// TestServe is the whole program: settings by the original's names, a sandbox, and the
// end that takes the sandbox along.
func TestServe(t *testing.T) {
	sandboxtest.New(t) // skips where there are no namespaces
	t.Setenv("API_KEYS", "one,two")
	t.Setenv("PORT", "0")
	t.Setenv("DEFAULT_TIMEOUT_SECONDS", "7")
	t.Setenv("SANDBOX_TTL_HOURS", "0.5")
	t.Setenv("HEARTBEAT_CLEANUP_ENABLED", "false")
	t.Setenv("LOG_LEVEL", "WARNING")
	t.Setenv("REDIS_URL", "redis://x")
	t.Setenv("K8S_API_RETRIES", "3")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	log, done := &syncBuffer{}, make(chan error, 1)
	go func() {
		done <- command.App(os.Stdout, log).RunContext(ctx, []string{
			"orchard-controller", "--state-dir", t.TempDir(), "--agent", agentbin.Path(t), "--default-cpu", "1", "--default-memory", "512Mi", "--log-level", "info",
		})
	}()
	if names := fmt.Sprint(logged(t, log, "settings of the original service that mean nothing here")["variables"]); names != "[K8S_API_RETRIES REDIS_URL]" {
		t.Errorf("ignored settings %s", names)
	}
	serving := logged(t, log, "serving")
	url := fmt.Sprint("http://", serving["address"])
	c, err := httpclient.New(httpclient.Options{URL: url, Key: "two"})
	if err != nil {
		t.Fatal(err)
	}
	box, err := c.Create(ctx, sandbox.Spec{Image: "host"})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := box.Exec(ctx, sandbox.Command{Shell: "echo hi", Timeout: time.Minute}); err != nil || string(r.Stdout) != "hi\n" {
		t.Errorf("exec: %+v, %v", r, err)
	}
	req, err := http.NewRequest("GET", url+"/sandboxes/"+box.ID(), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-API-Key", "one")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var view map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&view); err != nil || view["lifetime_seconds"] != 1800.0 || view["cpu"] != "1" {
		t.Errorf("view %v, %v", view, err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("told to stop: %v", err)
	}
	logged(t, log, "sandbox ended")
	if strings.Contains(log.String(), "echo hi") || strings.Contains(log.String(), `"two"`) {
		t.Errorf("a command or a key is in the log:\n%s", log)
	}
}
