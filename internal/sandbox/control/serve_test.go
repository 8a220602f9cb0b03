package control_test

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"orchard/internal/sandbox/control"
	"orchard/internal/sandbox/sandboxtest/plain"
)

// logBuffer is a log that requests write to at the same time.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}
func (l *logBuffer) String() string { l.mu.Lock(); defer l.mu.Unlock(); return l.b.String() }

// On SIGTERM what waits is answered with what there is, and the command goes on.
func TestServeDrains(t *testing.T) {
	t.Parallel()
	set := control.Defaults()
	set.Keys, set.DefaultWorkdir = control.ParseKeys(testKey), t.TempDir()
	log := &logBuffer{}
	ctx, cancel := context.WithCancel(zerolog.New(log).WithContext(context.Background()))
	defer cancel()
	l, rt := listen(t), plain.New(t)
	served := make(chan error, 1)
	go func() { served <- control.Serve(ctx, l, rt, set) }()
	r := &rig{t, "http://" + l.Addr().String(), rt, set.DefaultWorkdir, set, nil}
	id := r.box()
	job := r.do("POST", "/sandboxes/"+id+"/exec", obj{"command": "echo secret-word; sleep 300"}).str("job_id")
	eventually(t, "running", func() bool { return r.do("GET", "/jobs/"+job, nil).str("status") == "running" })
	rt.Hold("slow")
	r.do("POST", "/sandboxes", obj{"image": "i", "sandbox_id": "slow"})

	answers := make(chan answer, 3)
	var wg sync.WaitGroup
	for _, c := range []struct {
		method, path string
		body         any
	}{
		{"GET", "/jobs/" + job + "/wait?timeout=600", nil},
		{"POST", "/sandboxes/" + id + "/exec", obj{"command": "sleep 301", "wait": true, "concurrent": true}},
		{"GET", "/sandboxes/slow/wait?timeout=600", nil},
	} {
		wg.Go(func() {
			a, err := r.try(r.url, c.method, c.path, c.body)
			if err != nil {
				t.Errorf("%s: %v", c.path, err)
			}
			answers <- a
		})
	}
	r.inFlight("/jobs/{id}/wait", "/sandboxes/{id}/exec", "/sandboxes/{id}/wait")
	cancel()
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
	wg.Wait()
	close(answers)
	for a := range answers {
		if alive := a.status == http.StatusOK && (a.str("status") == "running" || a.str("status") == "queued"); !alive && a.status != http.StatusServiceUnavailable {
			t.Errorf("answer while draining: %d %s", a.status, a.raw)
		}
	}
	if st, err := rt.Get(context.Background(), id); err != nil || st.Phase != control.Ready {
		t.Errorf("the sandbox after the service: %+v, %v", st.Phase, err)
	}
	text := log.String()
	if !strings.Contains(text, `"route":"/sandboxes"`) || !strings.Contains(text, id) {
		t.Errorf("requests are not logged:\n%s", text)
	}
	for _, never := range []string{"secret-word", "sleep", testKey, job} {
		if strings.Contains(text, never) {
			t.Errorf("the log holds %q:\n%s", never, text)
		}
	}
}

func TestServeRefusesBadSettings(t *testing.T) {
	t.Parallel()
	l := listen(t)
	if err := control.Serve(context.Background(), l, plain.New(t), control.Defaults()); err == nil || !strings.Contains(err.Error(), "API_KEYS") {
		t.Errorf("Serve without keys: %v", err)
	}
	if c, err := l.Accept(); err == nil {
		c.Close()
		t.Error("the listener is still open")
	}
}
