//go:build linux

package local

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"orchard/agent/wire"
	"orchard/internal/sandbox"
	"orchard/internal/sandbox/control"
	"orchard/internal/seal"
)

// agentBinary is the real agent, built once.
var agentBinary string

// cacheDir is kept between runs of the tests: warming Go's cache takes a minute.
var cacheDir = DefaultCache()

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		os.Exit(child())
	}
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "orchard-agent-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		if err := os.Chmod(dir, 0o755); err != nil { // the unprivileged child reads it
			panic(err)
		}
		agentBinary = filepath.Join(dir, "orchard-agent")
		build := exec.Command("go", "build", "-o", agentBinary, "orchard/cmd/orchard-agent")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			panic(fmt.Sprintf("build the agent: %v\n%s", err, out))
		}
		return m.Run()
	}())
}

// open is a runtime that ends with the test.
func open(t testing.TB, change ...func(*Options)) *Runtime {
	t.Helper()
	opts := Options{StateDir: t.TempDir(), CacheDir: cacheDir, AgentPath: agentBinary}
	for _, f := range change {
		f(&opts)
	}
	r, err := New(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return r
}

// begin is a ready sandbox.
func begin(t testing.TB, r *Runtime, spec sandbox.Spec) control.State {
	t.Helper()
	if spec.ID == "" {
		spec.ID = "s-" + seal.Random(4)
	}
	if spec.Image == "" {
		spec.Image = HostImage
	}
	if _, err := r.Start(t.Context(), spec); err != nil {
		t.Fatalf("start: %v", err)
	}
	st, err := r.Wait(t.Context(), spec.ID)
	if err != nil || st.Phase != control.Ready {
		t.Fatalf("not ready: %s %s: %s (%v)", st.Phase, st.Reason, st.Message, err)
	}
	return st
}

// call is a signed request to the agent.
func call(ctx context.Context, r *Runtime, id, method, path string, body, into any) error {
	rt, base, err := r.Agent(ctx, id)
	if err != nil {
		return err
	}
	var in io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return err
		}
		in = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, base+path, in)
	if err != nil {
		return err
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, raw)
	}
	return json.Unmarshal(raw, into)
}

// run executes a command and waits for its end.
func run(ctx context.Context, r *Runtime, id string, req wire.ExecRequest) (wire.Job, error) {
	req.ID = seal.Random(8)
	if req.TimeoutMS == 0 {
		req.TimeoutMS = (2 * time.Minute).Milliseconds()
	}
	var job wire.Job
	err := call(ctx, r, id, http.MethodPost, "/v1/jobs?wait=120", req, &job)
	for err == nil && job.EndedUS == 0 {
		err = call(ctx, r, id, http.MethodGet, "/v1/jobs/"+url.PathEscape(req.ID)+"?wait=60", nil, &job)
	}
	return job, err
}

// sh runs a shell command; all that it printed, and its exit code.
func sh(t testing.TB, r *Runtime, id, command string) (string, int) {
	t.Helper()
	job, err := run(t.Context(), r, id, wire.ExecRequest{Shell: command, Merge: true, Concurrent: true})
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	if job.ExitCode == nil {
		t.Fatalf("%s: no exit code: %+v", command, job)
	}
	return strings.TrimSpace(string(job.Stdout.Data)), *job.ExitCode
}

// must runs a shell command that has to succeed.
func must(t testing.TB, r *Runtime, id, command string) string {
	t.Helper()
	out, code := sh(t, r, id, command)
	if code != 0 {
		t.Fatalf("%s: exit code %d: %s", command, code, out)
	}
	return out
}
