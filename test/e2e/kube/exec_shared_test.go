package kube_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"orchard/envctl/client"
)

// The tests that are named after a letter and a number (TestA1_…) are symptoms that users of
// sandbox services reported; each comment says the symptom. They go through the Service,
// unless a replica is the point.

// soak reports whether what takes minutes is run as well.
var soak = os.Getenv("ORCHARD_SOAK") == "1"

// prompt bounds what takes well under a second when nothing is wrong, and for ever or for
// minutes when something is.
const prompt = 50 * time.Second

// SDK is the public client of one address, a Service or a single replica.
func SDK(t testing.TB, url string) *client.Client {
	t.Helper()
	c, err := client.New(client.Options{URL: url, Key: Controller(t).Key})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Roomy is a sandbox with room for a test, of which the node need not keep all free.
func Roomy(image string) client.Spec {
	return client.Spec{
		Image: image, CPU: "1", CPURequest: "10m", Memory: "256Mi", MemoryRequest: "32Mi",
		ReadyTimeout: patience, Lifetime: 20 * time.Minute,
	}
}

// Begin is a sandbox of the test's own, which is ready.
func Begin(t testing.TB, spec client.Spec) *client.Sandbox {
	t.Helper()
	s := Ask(t, spec)
	if _, err := s.Wait(t.Context(), spec.ReadyTimeout, nil); err != nil {
		t.Fatal(err)
	}
	return s
}

// Ask is one that starts.
func Ask(t testing.TB, spec client.Spec) *client.Sandbox {
	t.Helper()
	s, _, err := SDK(t, Controller(t).URL).Begin(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, stop := context.WithTimeout(context.Background(), patience)
		defer stop()
		if err := s.Delete(ctx); err != nil {
			t.Errorf("end sandbox %s: %v", s.ID(), err)
		}
	})
	return s
}

var commons struct {
	sync.Mutex
	of map[string]string
}

// Common is a sandbox of image that tests share: they leave nothing running, and their files
// have names of their own. It ends by its lifetime, or with the release.
func Common(t testing.TB, image string) *client.Sandbox {
	t.Helper()
	commons.Lock()
	defer commons.Unlock()
	c := SDK(t, Controller(t).URL)
	if id := commons.of[image]; id != "" {
		return c.Sandbox(id)
	}
	s, err := c.Create(t.Context(), Roomy(image))
	if err != nil {
		t.Fatal(err)
	}
	if commons.of == nil {
		commons.of = map[string]string{}
	}
	commons.of[image] = s.ID()
	return s
}

// Run is a command beside others, to its end, which must come by itself and promptly.
func Run(t testing.TB, s *client.Sandbox, shell string) client.Result {
	t.Helper()
	got, err := s.Exec(t.Context(), client.Command{Shell: shell, Concurrent: true, Timeout: prompt})
	if err != nil || got.Reason != "" {
		t.Fatalf("%s: %v, %s %s", shell, err, got.Reason, got.Error)
	}
	return got
}

// Job is a job as the wire has it.
type Job struct {
	ID              string   `json:"job_id"`
	Status          string   `json:"status"`
	Stdout          string   `json:"stdout"`
	StdoutBase64    []byte   `json:"stdout_base64"`
	Stderr          string   `json:"stderr"`
	ExitCode        *int     `json:"exit_code"`
	Error           *string  `json:"error"`
	Reason          string   `json:"reason"`
	SandboxReason   string   `json:"sandbox_reason"`
	Retryable       *bool    `json:"retryable"`
	TimeoutSeconds  float64  `json:"timeout_seconds"`
	CompletedAt     *float64 `json:"completed_at"`
	StdoutBytes     int64    `json:"stdout_bytes"`
	StdoutTruncated bool     `json:"stdout_truncated"`
	StdoutFile      string   `json:"stdout_file"`
}

func (j Job) String() string {
	code, text := "none", "none"
	if j.ExitCode != nil {
		code = fmt.Sprint(*j.ExitCode)
	}
	if j.Error != nil {
		text = *j.Error
	}
	return fmt.Sprintf("job %s: exit code %s, reason %q (%s), error %q, %.80q, %.80q", j.Status, code, j.Reason, j.SandboxReason, text, j.Stdout, j.Stderr)
}

// Answer is what the service said to one request, which is never sent again.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Detail is the text of an error.
func (a Answer) Detail() string {
	var e struct{ Detail any }
	if json.Unmarshal(a.Body, &e) != nil {
		return string(a.Body)
	}
	return fmt.Sprint(e.Detail)
}

// once sends one request, over a connection of its own.
var once = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

var oneKey struct {
	sync.Once
	key string
}

// apiKey is the service's, looked up once: no test changes it.
func apiKey(t testing.TB) string {
	t.Helper()
	oneKey.Do(func() { oneKey.key = Controller(t).Key })
	return oneKey.key
}

// Request is one request. body is bytes, or anything else as JSON; nil is none. header are names and values.
func Request(ctx context.Context, t testing.TB, method, url string, body any, header ...string) (a Answer, err error) {
	t.Helper()
	raw, ok := body.([]byte)
	if !ok && body != nil {
		if raw, err = json.Marshal(body); err != nil {
			t.Fatal(err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-API-Key", apiKey(t))
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := once.Do(req)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	a = Answer{Status: resp.StatusCode, Header: resp.Header}
	a.Body, err = io.ReadAll(resp.Body)
	return a, err
}

// Reply is Request with an answer; which one is for the test to say.
func Reply(t testing.TB, method, url string, body any, header ...string) Answer {
	t.Helper()
	a, err := Request(t.Context(), t, method, url, body, header...)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	return a
}

// Exec is one exec request as the original's clients send it: without a key. The fields come
// after the command as names and values.
func Exec(t testing.TB, url, id, command string, fields ...any) Job {
	t.Helper()
	body := map[string]any{"command": command, "wait": true, "timeout_seconds": 60}
	for i := 0; i < len(fields); i += 2 {
		body[fields[i].(string)] = fields[i+1]
	}
	a := Reply(t, "POST", url+"/sandboxes/"+id+"/exec", body)
	var j Job
	if err := json.Unmarshal(a.Body, &j); err != nil || a.Status != http.StatusOK {
		t.Fatalf("exec %s: %d: %s: %v", command, a.Status, a.Body, err)
	}
	return j
}

// JobOf is a job as it is now.
func JobOf(t testing.TB, url, id string) (j Job) {
	t.Helper()
	Call(t, "GET", url+"/jobs/"+id, nil, &j)
	return j
}

// UntilJob waits until a job has a status.
func UntilJob(t testing.TB, url, id string, status ...string) (j Job) {
	t.Helper()
	Eventually(t, fmt.Sprint("job ", status), func(context.Context) string {
		if j = JobOf(t, url, id); strings.Contains(strings.Join(status, " "), j.Status) {
			return ""
		}
		return j.String()
	})
	return j
}

// Inside is what a command prints that the kubelet runs in a sandbox, without Orchard: how a
// test looks at one from outside. It must print something: what a very short command printed
// is lost on that way now and then.
func Inside(t testing.TB, id string, command ...string) (out string) {
	t.Helper()
	Eventually(t, fmt.Sprint(command, " printed something in ", id), func(ctx context.Context) string {
		code, said, err := PodExec(ctx, t, sandboxNamespace, "sandbox-"+id, command...)
		if out = strings.TrimSpace(said); err != nil || out == "" {
			return fmt.Sprintf("%v, exit %d, %q", err, code, said)
		}
		return ""
	})
	return out
}

// Processes is how many processes of a sandbox have a command line like pattern.
func Processes(t testing.TB, id, pattern string) string {
	t.Helper()
	return Inside(t, id, "pgrep", "-c", "-f", pattern)
}

// into reads an answer of 200.
func into(t testing.TB, a Answer, v any) {
	t.Helper()
	if err := json.Unmarshal(a.Body, v); err != nil || a.Status != http.StatusOK {
		t.Fatalf("answer %d: %s: %v", a.Status, a.Body, err)
	}
}
