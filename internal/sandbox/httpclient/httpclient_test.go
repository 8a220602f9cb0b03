package httpclient_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orchard/internal/exit"
	"orchard/internal/sandbox"
	"orchard/internal/sandbox/control"
	"orchard/internal/sandbox/httpclient"
	"orchard/internal/sandbox/sandboxtest/breaking"
)

func TestNewRefusesBadURLs(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "host:8000", "ftp://host", "http://", "http://user:pass@host", "http://host?x=1", "://"} {
		if _, err := httpclient.New(httpclient.Options{URL: url}); err == nil {
			t.Errorf("New(%q) succeeded", url)
		}
	}
}

// The key goes to the given address only: a service that sends callers elsewhere is an
// error, and nobody elsewhere is asked.
func TestFollowsNoRedirect(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("asked elsewhere: %s with key %q", r.URL.Path, r.Header.Get("X-API-Key"))
	}))
	defer elsewhere.Close()
	s := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusFound))
	defer s.Close()
	c, err := httpclient.New(httpclient.Options{URL: s.URL, Key: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(t.Context()); exit.Code(err) != exit.Config {
		t.Errorf("check: %v, want an error of exit code %d", err, exit.Config)
	}
}

// Whatever breaks on the way, everything happens once.
func TestBrokenConnections(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	c := newClient(t, breaking.Flaky(t, r.url), key)
	box := create(t, c, sandbox.Spec{})
	for range 5 {
		got, err := box.Exec(t.Context(), sandbox.Command{Shell: "echo x | tee -a count", Timeout: time.Minute})
		if err != nil || string(got.Stdout) != "x\n" {
			t.Errorf("exec: %+v, %v", got, err)
		}
	}
	if b, err := os.ReadFile(filepath.Join(r.work, "count")); err != nil || strings.Count(string(b), "x") != 5 {
		t.Errorf("five commands ran %d times, %v", strings.Count(string(b), "x"), err)
	}
	content := bytes.Repeat([]byte("0123456789"), 300_000)
	if err := box.Put(t.Context(), "large", bytes.NewReader(content), int64(len(content)), 0o644); err != nil {
		t.Errorf("put: %v", err)
	}
	if b, err := os.ReadFile(filepath.Join(r.work, "large")); err != nil || !bytes.Equal(b, content) {
		t.Errorf("the file has %d bytes, %v", len(b), err)
	}
	if _, err := box.List(t.Context(), r.work); err != nil {
		t.Errorf("list: %v", err)
	}
	if err := box.Close(t.Context()); err != nil {
		t.Errorf("close: %v", err)
	}
	if n := r.rt.Starts(); n != 1 {
		t.Errorf("one create made %d sandboxes", n)
	}
}

// A download that breaks off is an error, never a short file.
func TestBrokenDownload(t *testing.T) {
	t.Parallel()
	var cut atomic.Bool
	r := newRig(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if cut.Load() && strings.HasSuffix(q.URL.Path, "/raw") {
				w.Header().Set("Content-Length", "1000")
				w.Write([]byte("half"))
				panic(http.ErrAbortHandler)
			}
			h.ServeHTTP(w, q)
		})
	})
	box := create(t, newClient(t, r.url, key), sandbox.Spec{})
	cut.Store(true)
	f, err := box.Get(t.Context(), "/etc/hostname")
	if err != nil {
		return // cut before there was anything to read
	}
	defer f.Close()
	if b, err := io.ReadAll(f); err == nil {
		t.Errorf("half a file was read as the whole: %q", b)
	}
}

// 503 means later, and Retry-After when.
func TestServiceAway(t *testing.T) {
	t.Parallel()
	var refusals atomic.Int64
	refusals.Store(3)
	r := newRig(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if n := refusals.Add(-1); n >= 0 {
				if n == 0 {
					w.Header().Set("Retry-After", "1")
				}
				w.WriteHeader([]int{503, 502, 504}[n])
				return
			}
			h.ServeHTTP(w, q)
		})
	})
	create(t, newClient(t, r.url, key), sandbox.Spec{})
	if refusals.Load() >= 0 {
		t.Error("the service was not away")
	}
	c, err := httpclient.New(httpclient.Options{URL: "http://127.0.0.1:1", Patience: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Create(t.Context(), sandbox.Spec{Image: "host"}); err == nil || !strings.Contains(err.Error(), "http://127.0.0.1:1") {
		t.Errorf("no service: %v", err)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	_, err := newClient(t, r.url, "wrong").Create(t.Context(), sandbox.Spec{Image: "host"})
	if err == nil || !strings.Contains(err.Error(), "403: Invalid API key") || strings.Contains(err.Error(), "wrong") {
		t.Errorf("wrong key: %v", err)
	}
	c := newClient(t, r.url, key)
	var refused *sandbox.Refused
	if _, err := c.Create(t.Context(), sandbox.Spec{Image: "never"}); !errors.As(err, &refused) || refused.Image != "never" || !strings.Contains(refused.Reason, "no such image") {
		t.Errorf("an image that never starts: %v", err)
	}
	create(t, c, sandbox.Spec{ID: "taken"})
	if _, err := c.Create(t.Context(), sandbox.Spec{ID: "taken", Image: "other"}); err == nil || errors.As(err, new(*sandbox.Refused)) || !strings.Contains(err.Error(), "409") {
		t.Errorf("an id that is taken: %v", err)
	}
	// It turns out while waiting.
	for id, want := range map[string]struct {
		reason  string
		refused bool
	}{"refused-late": {control.ReasonRefused, true}, "fails": {"OOMKilled", false}} {
		r.rt.Hold(id)
		failed := make(chan error, 1)
		go func() {
			_, err := c.Create(t.Context(), sandbox.Spec{ID: id, Image: "i"})
			failed <- err
		}()
		for {
			if _, err := r.rt.Get(t.Context(), id); err == nil {
				break
			}
			time.Sleep(time.Millisecond)
		}
		r.rt.End(id, want.reason, "because")
		if err := <-failed; err == nil || errors.As(err, new(*sandbox.Refused)) != want.refused || !strings.Contains(err.Error(), "because") {
			t.Errorf("%s: %v", id, err)
		}
	}
	r.rt.Hold("slow")
	if _, err := c.Create(t.Context(), sandbox.Spec{ID: "slow", Image: "i", ReadyTimeout: time.Second}); err == nil || !strings.Contains(err.Error(), "not ready within 1s") {
		t.Errorf("a sandbox that is never ready: %v", err)
	}
	if st, err := r.rt.Get(t.Context(), "slow"); err != nil || st.Phase != control.Ended {
		t.Errorf("it was left behind: %+v, %v", st, err)
	}
}

// A sandbox that ends under its user is lost, with the reason.
func TestLost(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	box := create(t, newClient(t, r.url, key), sandbox.Spec{})
	failed := make(chan error, 1)
	go func() {
		_, err := box.Exec(t.Context(), sandbox.Command{Shell: "touch begun; sleep 300", Timeout: time.Hour})
		failed <- err
	}()
	for {
		if _, err := os.Stat(filepath.Join(r.work, "begun")); err == nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	r.rt.End(box.ID(), "OOMKilled", "used more than 1Gi")
	var lost *sandbox.Lost
	if err := <-failed; !errors.As(err, &lost) || lost.ID != box.ID() || !strings.Contains(lost.Reason, "OOMKilled: used more than 1Gi") {
		t.Errorf("the command under way: %v", err)
	}
	if _, err := box.Exec(t.Context(), sandbox.Command{Shell: "true", Timeout: time.Minute}); !errors.As(err, &lost) || lost.Reason != "OOMKilled" {
		t.Errorf("the next command: %v", err)
	}
}

// A service that would run a repeat twice is refused.
func TestOriginalServiceIsRefused(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"service":"sandbox-orchestrator","version":"0.1.0","status":"running"}`)
	}))
	defer server.Close()
	if _, err := newClient(t, server.URL, key).Create(context.Background(), sandbox.Spec{Image: "i"}); err == nil || !strings.Contains(err.Error(), "orchard-controller is needed") {
		t.Errorf("Create: %v", err)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	other := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(other.Close)
	for _, c := range []struct {
		name, url, key string
		code           int
		says           string
	}{
		{"right", r.url, key, exit.OK, ""},
		{"wrong key", r.url, "wrong", exit.Config, "SANDBOX_API_KEY"},
		{"no key", r.url, "", exit.Config, "SANDBOX_API_KEY"},
		{"something else", other.URL, key, exit.Config, "--sandbox-url"},
		{"nobody", "http://127.0.0.1:1", key, exit.Retry, "check that it runs"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			err := newClient(t, c.url, c.key).Check(t.Context())
			if exit.Code(err) != c.code || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("exit %d, %v; want %d and %q", exit.Code(err), err, c.code, c.says)
			}
		})
	}
}

// A malformed field is told in words, not in JSON.
func TestRefusedField(t *testing.T) {
	t.Parallel()
	_, err := newClient(t, newRig(t, nil).url, key).Create(t.Context(), sandbox.Spec{Image: "i", Memory: "9x"})
	if want := `sandbox of image "i" refused: memory: "9x" is not a quantity`; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}

// No request is longer than the limit of a usual proxy, however long the command is.
func TestNoLongRequests(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var waits []string
	r := newRig(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if strings.HasSuffix(q.URL.Path, "/exec") {
				b, err := io.ReadAll(q.Body)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				waits = append(waits, string(b))
				mu.Unlock()
				q.Body = io.NopCloser(bytes.NewReader(bytes.Replace(b, []byte(`"wait_seconds":25`), []byte(`"wait_seconds":0.05`), 1)))
			}
			h.ServeHTTP(w, q)
		})
	})
	box := create(t, newClient(t, r.url, key), sandbox.Spec{})
	got, err := box.Exec(t.Context(), sandbox.Command{Shell: "sleep 0.5; echo end", Timeout: time.Hour})
	if err != nil || string(got.Stdout) != "end\n" || got.Duration < 400*time.Millisecond {
		t.Errorf("exec: %+v, %v", got, err)
	}
	if len(waits) != 1 || !strings.Contains(waits[0], `"wait_seconds":25`) {
		t.Errorf("submissions: %q", waits)
	}
}

// Every field of a spec comes to the runtime, or to the service.
func TestTheWholeSpecIsAskedFor(t *testing.T) {
	t.Parallel()
	var asked struct{ Egress []map[string]any }
	r := newRig(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			raw, err := io.ReadAll(req.Body)
			if req.URL.Path == "/sandboxes" && bytes.Contains(raw, []byte("pypi")) {
				err = errors.Join(err, json.Unmarshal(raw, &asked))
			}
			if err != nil {
				t.Error(err)
			}
			req.Body = io.NopCloser(bytes.NewReader(raw))
			h.ServeHTTP(w, req)
		})
	})
	want := sandbox.Spec{
		ID: "whole", Image: "host", CPU: "2", Memory: "1Gi", Reserve: sandbox.Reserve{CPU: "100m", Memory: "256Mi"}, Disk: "5Gi",
		Placement: sandbox.Placement{
			GPU: 1, NodeSelector: map[string]string{"pool": "a"}, Tolerations: []sandbox.Toleration{{Key: "k", Operator: "Equal", Value: "v", Effect: "NoSchedule"}},
			RuntimeClass: "gvisor", PriorityClass: "low", PullSecrets: []string{"registry"}, Spot: true,
		},
		Env: map[string]string{"A": "b"}, Workdir: t.TempDir(), Egress: []sandbox.EgressRule{{Domain: "pypi.org", Ports: []uint16{443}, For: time.Minute}, {CIDR: "203.0.113.0/24"}},
		ReadyTimeout: time.Minute, Lifetime: time.Hour, Lease: 10 * time.Minute, Labels: map[string]string{"x": "y"},
	}
	for _, part := range []any{want, want.Reserve, want.Placement, want.Placement.Tolerations[0]} {
		for v, i := reflect.ValueOf(part), 0; i < v.NumField(); i++ {
			if name := v.Type().Field(i).Name; v.Field(i).IsZero() && name != "Owner" && name != "OpenNetwork" {
				t.Errorf("the test says nothing of %s in %v", name, v.Type())
			}
		}
	}
	// This runtime opens nothing, and says so.
	c, refused := newClient(t, r.url, key), new(sandbox.Refused)
	if _, err := c.Create(t.Context(), want); !errors.As(err, &refused) || !strings.HasPrefix(refused.Reason, "egress: ") {
		t.Errorf("with rules: %v", err)
	}
	rules := []map[string]any{{"domain": "pypi.org", "ports": []any{443.0}, "seconds": 60.0}, {"cidr": "203.0.113.0/24"}}
	if d := cmp.Diff(rules, asked.Egress); d != "" {
		t.Errorf("rules asked for (-want +got):\n%s", d)
	}
	want.Egress = []sandbox.EgressRule{}
	create(t, c, want)
	st, err := r.rt.Get(t.Context(), "whole")
	if err != nil {
		t.Fatal(err)
	}
	want.Owner = st.Spec.Owner // by the key
	if d := cmp.Diff(want, st.Spec); d != "" {
		t.Errorf("asked for and come to the runtime (-want +got):\n%s", d)
	}
}
