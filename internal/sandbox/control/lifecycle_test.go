package control_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"orchard/internal/sandbox/control"
)

func TestCreateRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for _, c := range []struct {
		name string
		send obj
		want string
	}{
		{"no image", obj{}, `"loc":["body","image"],"msg":"field required"`},
		{"empty image", obj{"image": ""}, "image must be"},
		{"image with a space", obj{"image": "a b"}, "image must be"},
		{"upper-case id", obj{"image": "i", "sandbox_id": "Abc"}, "sandbox_id must be 1 to 63 lower-case"},
		{"long id", obj{"image": "i", "sandbox_id": strings.Repeat("a", 64)}, "sandbox_id must be"},
		{"path as id", obj{"image": "i", "sandbox_id": "../x"}, "sandbox_id must be"},
		{"empty id", obj{"image": "i", "sandbox_id": ""}, "sandbox_id must be"},
		{"cpu", obj{"image": "i", "cpu": "four"}, `is not a quantity`},
		{"negative cpu", obj{"image": "i", "cpu": -1}, `is not a quantity`},
		{"memory", obj{"image": "i", "memory": "2 GiB"}, `is not a quantity`},
		{"timeout", obj{"image": "i", "timeout": -5}, "greater than or equal to 0"},
		{"lifetime", obj{"image": "i", "lifetime_seconds": "long"}, `"lifetime_seconds"`},
		{"workdir", obj{"image": "i", "workdir": "rel"}, "workdir must be an absolute path"},
		{"label", obj{"image": "i", "labels": obj{"a b": "c"}}, "is not a Kubernetes label"},
		{"env", obj{"image": "i", "env": obj{"": "c"}}, "a name must not be empty"},
		{"never starts", obj{"image": "never"}, `"refused":true`},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := r.do("POST", "/sandboxes", c.send)
			if a.status != http.StatusUnprocessableEntity || !strings.Contains(string(a.raw), c.want) {
				t.Errorf("answer %d %s, want 422 with %s", a.status, a.raw, c.want)
			}
		})
	}
	if r.rt.Starts() != 0 {
		t.Errorf("%d sandboxes started", r.rt.Starts())
	}
}

func TestLifecycle(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	a := r.do("POST", "/sandboxes", obj{
		"image": "host", "sandbox_id": "one", "cpu": "500m", "memory": nil, "block_network": 0, "env": obj{"WORD": "w"},
		"labels": obj{"team": "x"}, "lifetime_seconds": 600, "lease_seconds": 60,
	})
	if a.status != 200 || a.json["expires_at"] == nil || a.json["block_network"] != false {
		t.Fatalf("create: %s", a.raw)
	}
	if again := r.do("POST", "/sandboxes", obj{
		"image": "host", "sandbox_id": "one", "cpu": 0.5, "block_network": "off", "env": obj{"WORD": "w"},
		"labels": obj{"team": "x"}, "lifetime_seconds": 600, "lease_seconds": 60,
	}); again.status != 200 || r.rt.Starts() != 1 {
		t.Errorf("the same create again: %d %s, %d starts", again.status, again.raw, r.rt.Starts())
	}
	for field, value := range map[string]any{"image": "x", "cpu": 2, "memory": "1Gi", "env": obj{}, "labels": nil, "lifetime_seconds": 5, "lease_seconds": nil, "workdir": "/x", "block_network": true} {
		send := obj{"image": "host", "sandbox_id": "one", "cpu": 0.5, "block_network": false, "env": obj{"WORD": "w"}, "labels": obj{"team": "x"}, "lifetime_seconds": 600, "lease_seconds": 60}
		send[field] = value
		if a := r.do("POST", "/sandboxes", send); a.status != http.StatusConflict || !strings.HasSuffix(a.str("detail"), field) {
			t.Errorf("another %s answered %d %s", field, a.status, a.raw)
		}
	}
	r.do("GET", "/sandboxes/one/wait", nil)
	view := r.do("GET", "/sandboxes/one", nil)
	if view.json["ready"] != true || view.str("status") != "ready" || view.json["lease_seconds"] != 60.0 || view.str("limits") != "partial" {
		t.Errorf("view: %s", view.raw)
	}
	if strings.Contains(string(view.raw), "WORD") {
		t.Errorf("the view shows the environment: %s", view.raw)
	}
	if a := r.run("one", obj{"command": "echo $WORD"}); a.str("stdout") != "w\n" {
		t.Errorf("environment: %s", a.raw)
	}
	beat := r.do("POST", "/sandboxes/one/heartbeat", nil)
	if at, _ := beat.json["lease_expires_at"].(float64); at < float64(time.Now().Unix()+50) {
		t.Errorf("heartbeat: %s", beat.raw)
	}
	list := r.do("GET", "/sandboxes", nil)
	if boxes, _ := list.json["sandboxes"].([]any); len(boxes) != 1 {
		t.Errorf("list: %s", list.raw)
	}
	for range 2 {
		if a := r.do("DELETE", "/sandboxes/one", nil); a.status != 200 || a.str("status") != "deleted" {
			t.Errorf("delete: %s", a.raw)
		}
	}
	for _, path := range []string{"", "/wait", "/files?path=/etc/hostname", "/files/list", "/raw?path=/etc/hostname"} {
		if a := r.do("GET", "/sandboxes/one"+path, nil); a.status != 404 || a.str("detail") != "Sandbox one not found" || a.json["gone"] != true {
			t.Errorf("GET %s of a deleted sandbox: %d %s", path, a.status, a.raw)
		}
	}
	if a := r.do("POST", "/sandboxes/one/heartbeat", nil); a.status != 404 {
		t.Errorf("heartbeat of a deleted sandbox: %d", a.status)
	}
	if list := r.do("GET", "/sandboxes", nil); strings.Contains(string(list.raw), "one") {
		t.Errorf("list after the end: %s", list.raw)
	}
	if a := r.do("POST", "/sandboxes", obj{"image": "i", "sandbox_id": "one"}); a.status != 200 {
		t.Errorf("an id whose sandbox is deleted: %s", a.raw)
	}
}

// The first heartbeat of a sandbox without a lease starts one, as in the original.
func TestLeaseByHeartbeat(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(s *control.Settings) { s.HeartbeatLease = 200 * time.Millisecond })
	id := r.box()
	done := make(chan answer, 1)
	go func() {
		a, err := r.try(r.url, "POST", "/sandboxes/"+id+"/exec", obj{"command": "touch begun; sleep 300", "timeout_seconds": 400, "wait": true})
		if err != nil {
			t.Error(err)
		}
		done <- a
	}()
	eventually(t, "an exec under way", func() bool { return exists(r.work + "/begun") })
	if a := r.do("POST", "/sandboxes/"+id+"/heartbeat", nil); a.json["lease_expires_at"] == nil {
		t.Errorf("heartbeat: %s", a.raw)
	}
	if a := <-done; a.str("reason") != "lost" || a.json["exit_code"] != nil {
		t.Errorf("a command under which the lease ran out: %s", a.raw)
	}
	if a := r.do("GET", "/sandboxes/"+id, nil); a.str("status") != "failed" {
		t.Errorf("after the end of the lease: %s", a.raw)
	}
	none := newRig(t, func(s *control.Settings) { s.HeartbeatLease = 0 })
	if a := none.do("POST", "/sandboxes/"+none.box()+"/heartbeat", nil); a.status != 200 || a.json["lease_expires_at"] != nil {
		t.Errorf("heartbeat without leases: %s", a.raw)
	}
}

func TestWait(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for _, id := range []string{"slow", "fails", "deleted"} {
		r.rt.Hold(id)
		r.do("POST", "/sandboxes", obj{"image": "i", "sandbox_id": id})
	}
	if a := r.do("GET", "/sandboxes/slow/wait?timeout=0", nil); a.status != http.StatusRequestTimeout || a.str("detail") != "Sandbox slow did not become ready within 0s" {
		t.Errorf("wait: %d %s", a.status, a.raw)
	}
	for _, bad := range []string{"-1", "x", ""} {
		if a := r.do("GET", "/sandboxes/slow/wait?timeout="+bad, nil); a.status != 422 || !strings.Contains(string(a.raw), `["query","timeout"]`) {
			t.Errorf("timeout=%s: %d %s", bad, a.status, a.raw)
		}
	}
	for id, want := range map[string]struct{ reason, status, message string }{
		"fails":   {"OOMKilled", "failed", "OOMKilled: it was too much"},
		"deleted": {control.ReasonDeleted, "not_found", "deleted while it was waited for"},
	} {
		waited := make(chan answer, 1)
		go func() {
			a, err := r.try(r.url, "GET", "/sandboxes/"+id+"/wait", nil)
			if err != nil {
				t.Error(err)
			}
			waited <- a
		}()
		r.inFlight("/sandboxes/{id}/wait")
		r.rt.End(id, want.reason, "it was too much")
		a := <-waited
		// A wait that looked after the end of a deleted sandbox finds none.
		if late := a.status == 404 && id == "deleted"; !late && (a.status != 200 || a.json["ready"] != false || a.str("status") != want.status || a.str("status_message") != want.message) {
			t.Errorf("wait for %s: %d %s", id, a.status, a.raw)
		}
	}
	exec := r.run("slow", obj{"command": "true"})
	if exec.status != 503 || exec.header.Get("Retry-After") != "5" {
		t.Errorf("exec before it is ready: %d %v %s", exec.status, exec.header, exec.raw)
	}
}

func TestAuthorisation(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	uuid4 := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	ids := map[string]bool{}
	for _, c := range []struct {
		method, path, key string
		status            int
		detail            string
	}{
		{"GET", "/", "", 200, ""},
		{"GET", "/health", "", 200, ""},
		{"GET", "/metrics", "", 200, ""},
		{"GET", "/resources", "", 401, "Missing API key. Please provide X-API-Key header."},
		{"GET", "/resources", testKey + "x", 403, "Invalid API key"},
		{"GET", "/resources", testKey, 200, ""},
		{"POST", "/sandboxes", "", 401, "Missing API key. Please provide X-API-Key header."},
		{"DELETE", "/sandboxes/x", "bad", 403, "Invalid API key"},
		{"PUT", "/sandboxes/x/raw?path=/x", "bad", 403, "Invalid API key"},
		{"GET", "/jobs/x/output", "", 401, "Missing API key. Please provide X-API-Key header."},
		{"GET", "/nope", testKey, 404, "Not Found"},
		{"GET", "/sandboxes/x/nope", "", 404, "Not Found"},
		{"PUT", "/sandboxes", testKey, 405, "Method Not Allowed"},
		{"POST", "/health", "", 405, "Method Not Allowed"},
		{"GET", "/sandboxes/%2e%2e%2fx", testKey, 404, "Sandbox ../x not found"},
	} {
		a := r.do(c.method, c.path, nil, "X-API-Key", c.key, "X-Request-ID", "mine")
		if a.status != c.status || a.str("detail") != c.detail {
			t.Errorf("%s %s with %q: %d %s, want %d %q", c.method, c.path, c.key, a.status, a.raw, c.status, c.detail)
		}
		id := a.header.Get("X-Request-Id")
		if !uuid4.MatchString(id) || ids[id] {
			t.Errorf("%s %s: X-Request-ID %q is no new uuid4", c.method, c.path, id)
		}
		ids[id] = true
		if c.path != "/metrics" && a.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s: content type %q", c.method, c.path, a.header.Get("Content-Type"))
		}
	}
	open := newRig(t, func(s *control.Settings) { s.RequireKey, s.Keys = false, control.Keys{} })
	if a := open.do("GET", "/resources", nil, "X-API-Key", ""); a.status != 200 {
		t.Errorf("without keys required: %d", a.status)
	}
}

func TestPathPrefix(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(s *control.Settings) { s.PathPrefix = "/a/b" })
	for path, status := range map[string]int{"/a/b/health": 200, "/health": 200, "/a/b/sandboxes/x": 404, "/a/b/": 200, "/a/health": 404} {
		if a := r.do("GET", path, nil); a.status != status {
			t.Errorf("%s: %d, want %d", path, a.status, status)
		}
	}
}

func TestResources(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.do("POST", "/sandboxes", obj{"image": "i", "sandbox_id": "a"})
	a := r.do("GET", "/resources", nil)
	want := `{"status":"ok","nodes":[{"name":"test","capacity":{"cpu":4,"memory_bytes":8589934592},"allocatable":{"cpu":3,"memory_bytes":7516192768}}],` +
		`"total_capacity":{"cpu":4,"memory_bytes":8589934592},"total_allocatable":{"cpu":3,"memory_bytes":7516192768},` +
		`"total_requested":{"cpu":4,"memory_bytes":1073741824},"available":{"cpu":0,"memory_bytes":6442450944},` +
		`"sandbox_pods":[{"name":"sandbox-a","namespace":"sandbox-pods","phase":"Running","cpu_request":4,"memory_request_bytes":1073741824}]}`
	if string(a.raw) != want {
		t.Errorf("resources\n got %s\nwant %s", a.raw, want)
	}
}

// What users type never becomes a metric's label.
func TestMetrics(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := r.box()
	r.run(id, obj{"command": "echo secret-word"})
	r.do("GET", "/made-up-path", nil)
	r.do("BREW", "/sandboxes", nil)
	m := string(r.do("GET", "/metrics", nil).raw)
	for _, want := range []string{
		`orchard_http_requests_total{code="200",method="POST",route="/sandboxes/{id}/exec"} 1`,
		`orchard_http_requests_total{code="404",method="GET",route="/"} 1`,
		`orchard_http_requests_total{code="405",method="other",route="/sandboxes"} 1`,
		`orchard_sandboxes{phase="ready"} 1`,
	} {
		if !strings.Contains(m, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	for _, never := range []string{id, "secret-word", "made-up", "BREW", testKey} {
		if strings.Contains(m, never) {
			t.Errorf("metrics hold %q", never)
		}
	}
}
