package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"orchard/datasets"
	"orchard/datasets/gentest/fixture"
	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/llm"
	"orchard/internal/objstore"
	"orchard/internal/runner"
)

func commit[R record.Row](t *testing.T, root, name string, rows []R, meta datasets.Meta) *datasets.Version {
	t.Helper()
	meta.Started, meta.Committed = time.Unix(1, 0).UTC(), time.Unix(2, 0).UTC()
	return fixture.Version(t, root, name, rows, meta)
}

// regressed is a store with an evaluation of the run "night" that is worse than before, and
// its report.
func regressed(t *testing.T) string {
	root := t.TempDir()
	rollouts := commit(t, root, "eval", []record.Rollout{}, datasets.Meta{Stage: datasets.Stage{Name: "evaluate", Version: 1, RunID: "night"}})
	rate, p, diff, up, down, common := .4, .004, -.2, int64(1), int64(11), int64(50)
	commit(t, root, "eval-evaluation", []record.Evaluation{{
		EvaluationID: "e", Policy: "m", Harness: "h", Tasks: 50, Rollouts: 50, Known: 50, Resolved: 20, Rate: &rate, Low: &rate, High: &rate, Pass: []record.PassAt{},
		Baseline: "file:///x/eval@0", Common: &common, NewlyResolved: &up, NewlyFailed: &down, McNemarP: &p, Difference: &diff,
	}}, datasets.Meta{Stage: datasets.Stage{Name: "evaluation", Version: 1, RunID: "night", Config: json.RawMessage(`{"rows":{}}`)}, Inputs: []datasets.Input{rollouts.Input("in")}})
	commit(t, root, "eval-report", []record.TaskReport{}, datasets.Meta{Stage: datasets.Stage{Name: "report", Version: 1}, Inputs: []datasets.Input{rollouts.Input("in")}})
	return root
}

// hook is a webhook that answers with the statuses given, then with 200.
type hook struct {
	*httptest.Server
	mu     sync.Mutex
	got    []message
	keys   []string
	status []int
}

func newHook(t *testing.T, status ...int) *hook {
	h := &hook{status: status}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		defer h.mu.Unlock()
		var m message
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(body, &m)
		}
		if err != nil || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" || r.URL.Path != "/hidden" {
			t.Errorf("%s %s %v: %s", r.Method, r.URL, err, body)
		}
		h.got, h.keys = append(h.got, m), append(h.keys, r.Header.Get("Idempotency-Key"))
		if len(h.status) > 0 {
			code := h.status[0]
			h.status = h.status[1:]
			w.WriteHeader(code)
			_, _ = io.WriteString(w, "at /hidden?token=secret")
		}
	}))
	t.Cleanup(h.Close)
	return h
}

func run(t *testing.T, root, webhook string, set func(*Config)) (string, error) {
	t.Helper()
	c := Defaults()
	c.In, c.RunID, c.Pipeline, c.Status, c.Duration = []string{root + "/eval-evaluation"}, "night", "swe-eval", "Succeeded", time.Minute
	c.Report, c.Pause, c.Webhook = root+"/eval-report", time.Millisecond, llm.Secret(webhook)
	if set != nil {
		set(&c)
	}
	var out bytes.Buffer
	err := Run(t.Context(), c, runner.Deps{Stdout: &out, Stderr: &out})
	if strings.Contains(out.String(), "hidden") || err != nil && strings.Contains(err.Error(), "hidden") {
		t.Errorf("the address is shown: %v\n%s", err, out.String())
	}
	return out.String(), err
}

// The message has the numbers, and is sent again while the webhook is in trouble.
func TestMessage(t *testing.T) {
	t.Parallel()
	h := newHook(t, 503, 429)
	out, err := run(t, regressed(t), h.URL+"/hidden?token=secret", nil)
	if err != nil || !strings.Contains(out, "sent to the webhook") {
		t.Fatalf("%v\n%s", err, out)
	}
	if len(h.got) != 3 || h.keys[0] == "" || h.keys[0] != h.keys[2] {
		t.Fatalf("%d messages with the keys %q", len(h.got), h.keys)
	}
	m := h.got[2]
	if m.RunID != "night" || m.Status != "Succeeded" || m.Regression == nil || !*m.Regression || *m.Seconds != 60 || m.Trouble != nil || m.Evaluation == nil {
		t.Errorf("%+v", m)
	}
	if len(m.Systems) != 1 || *m.Systems[0].Rate != .4 || *m.Systems[0].McNemarP != .004 || !m.Systems[0].Regression {
		t.Errorf("%+v", m.Systems)
	}
	if m.Report == nil || !strings.HasSuffix(*m.Report, "/report.html") || !strings.Contains(m.Text, "a regression") || !strings.Contains(m.Text, *m.Report) {
		t.Errorf("%v in %q", m.Report, m.Text)
	}
}

// A run that failed has no evaluation, or no store; that is told, and is no number.
func TestFailedRun(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	failed := func(c *Config) { c.RunID, c.Status = "other", "Failed" }
	if _, err := run(t, regressed(t), h.URL+"/hidden", failed); err != nil {
		t.Fatal(err)
	}
	if _, err := run(t, t.TempDir(), h.URL+"/hidden", failed); err != nil {
		t.Fatal(err)
	}
	c := Defaults()
	c.In, c.RunID, c.Status, c.Webhook = []string{"s3://away/eval-evaluation"}, "other", "Failed", llm.Secret(h.URL+"/hidden")
	away := func(context.Context, string) (objstore.Store, error) { return nil, exit.Gonef("the store is away") }
	if err := Run(t.Context(), c, runner.Deps{Stdout: io.Discard, Stderr: io.Discard, Open: away}); err != nil {
		t.Fatal(err)
	}
	if len(h.got) != 3 {
		t.Fatalf("%d messages", len(h.got))
	}
	for i, m := range h.got {
		if m.Status != "Failed" || m.Headline != nil || m.Regression != nil || len(m.Systems) != 0 || (m.Trouble != nil) != (i == 2) {
			t.Errorf("%d: %+v", i, m)
		}
	}
}

// Without a webhook nothing is sent; one that cannot be reached or refuses is an error
// that does not name it.
func TestWebhook(t *testing.T) {
	t.Parallel()
	root := regressed(t)
	if out, err := run(t, root, "", nil); err != nil || !strings.Contains(out, "no webhook is configured") || !strings.Contains(out, `"regression": true`) {
		t.Errorf("%v\n%s", err, out)
	}
	h := newHook(t, 404)
	if _, err := run(t, root, h.URL+"/hidden", nil); exit.Code(err) != exit.Config || len(h.got) != 1 {
		t.Errorf("refused: %v after %d messages", err, len(h.got))
	}
	h = newHook(t, 500, 500, 500)
	if _, err := run(t, root, h.URL+"/hidden", func(c *Config) { c.Retries = 2 }); exit.Code(err) != exit.Gone || len(h.got) != 3 {
		t.Errorf("in trouble: %v after %d messages", err, len(h.got))
	}
	h.Close()
	if _, err := run(t, root, h.URL+"/hidden", func(c *Config) { c.Retries = 1 }); exit.Code(err) != exit.Gone || !strings.Contains(err.Error(), "in 2 tries") {
		t.Errorf("away: %v", err)
	}
	if out, err := run(t, root, h.URL+"/hidden", func(c *Config) { c.DryRun = true }); err != nil || !strings.Contains(out, "nothing is sent") {
		t.Errorf("dry run: %v", err)
	}
	for _, bad := range []string{"hidden", "ftp://hidden/x", "http://%zz/hidden"} {
		if _, err := run(t, root, bad, nil); exit.Code(err) != exit.Config {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
