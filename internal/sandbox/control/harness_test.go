package control_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"orchard/internal/sandbox/control"
	"orchard/internal/sandbox/sandboxtest/plain"
)

const testKey = "key-of-the-test"

// rig is a real service over real agents, reached over loopback.
type rig struct {
	t    testing.TB
	url  string
	rt   *plain.Runtime
	work string // the sandboxes' working folder
	set  control.Settings
	s    *control.Service
}

func newRig(t testing.TB, edit func(*control.Settings)) *rig {
	t.Helper()
	set := control.Defaults()
	set.Keys, set.DefaultWorkdir = control.ParseKeys(testKey), t.TempDir()
	set.ReadyWait, set.RetryWindow = 300*time.Millisecond, 3*time.Second
	if edit != nil {
		edit(&set)
	}
	rt := plain.New(t)
	s, err := control.New(rt, set)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	t.Cleanup(s.Drain)
	return &rig{t, server.URL, rt, set.DefaultWorkdir, set, s}
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	raw    []byte
	json   map[string]any // nil when it is no object
}

func (a answer) str(field string) string { s, _ := a.json[field].(string); return s }

// do sends body, a string as it is and anything else as JSON, with the test's key
// unless header says otherwise.
func (r *rig) do(method, path string, body any, header ...string) answer {
	r.t.Helper()
	a, err := r.try(r.url, method, path, body, header...)
	if err != nil {
		r.t.Fatalf("%s %s: %v", method, path, err)
	}
	return a
}

func (r *rig) try(base, method, path string, body any, header ...string) (answer, error) {
	r.t.Helper()
	var sent []byte
	switch b := body.(type) {
	case nil:
	case string:
		sent = []byte(b)
	case []byte:
		sent = b
	default:
		var err error
		if sent, err = json.Marshal(b); err != nil {
			r.t.Fatal(err)
		}
	}
	req, err := http.NewRequestWithContext(context.Background(), method, base+path, bytes.NewReader(sent))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("X-API-Key", testKey)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, err
	}
	a := answer{status: resp.StatusCode, header: resp.Header, raw: raw}
	if resp.Header.Get("Content-Type") == "application/json" && json.Unmarshal(raw, &a.json) != nil {
		a.json = nil
	}
	documented(r.t, r.set.PathPrefix, req, sent, a)
	return a, nil
}

type obj = map[string]any

// box makes a ready sandbox and returns its id.
func (r *rig) box() string {
	r.t.Helper()
	a := r.do("POST", "/sandboxes", obj{"image": "host"})
	id := a.str("sandbox_id")
	if a = r.do("GET", "/sandboxes/"+id+"/wait?timeout=30", nil); a.json["ready"] != true {
		r.t.Fatalf("sandbox %s is not ready: %s", id, a.raw)
	}
	return id
}

// run executes a command and returns its finished job.
func (r *rig) run(id string, fields obj, header ...string) answer {
	r.t.Helper()
	body := obj{"wait": true, "timeout_seconds": 30}
	for k, v := range fields {
		body[k] = v
	}
	return r.do("POST", "/sandboxes/"+id+"/exec", body, header...)
}

// eventually waits for something that another process brings about.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("never came: %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// inFlight waits until a request to each route is being answered.
func (r *rig) inFlight(routes ...string) {
	r.t.Helper()
	for _, route := range routes {
		eventually(r.t, route+" in flight", func() bool {
			return strings.Contains(string(r.do("GET", "/metrics", nil).raw), `orchard_http_requests_in_flight{route="`+route+`"} 1`)
		})
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// another is a second replica of the service over the same sandboxes.
func (r *rig) another() *rig {
	r.t.Helper()
	return r.over(r.rt)
}

// over is a service with the same settings over a runtime of its own.
func (r *rig) over(rt control.Runtime) *rig {
	r.t.Helper()
	s, err := control.New(rt, r.set)
	if err != nil {
		r.t.Fatal(err)
	}
	server := httptest.NewServer(s)
	r.t.Cleanup(server.Close)
	r.t.Cleanup(s.Drain)
	return &rig{r.t, server.URL, r.rt, r.work, r.set, s}
}
