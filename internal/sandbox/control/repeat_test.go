package control_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"orchard/internal/sandbox/control"
)

// cutter is a proxy that forwards each request whole and then cuts both connections,
// for as long as cuts are left; then it forwards answers too.
type cutter struct {
	url  string
	left atomic.Int64
	seen atomic.Int64 // requests forwarded
}

func newCutter(t *testing.T, target string, cuts int64) *cutter {
	t.Helper()
	l := listen(t)
	c := &cutter{url: "http://" + l.Addr().String()}
	c.left.Store(cuts)
	var wg sync.WaitGroup
	t.Cleanup(func() { l.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			down, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { c.forward(down, strings.TrimPrefix(target, "http://")) })
		}
	})
	return c
}

func (c *cutter) forward(down net.Conn, target string) {
	defer down.Close()
	req, err := http.ReadRequest(bufio.NewReader(down))
	if err != nil {
		return
	}
	up, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer up.Close()
	req.Header.Set("Connection", "close")
	if req.Write(up) != nil {
		return
	}
	c.seen.Add(1)
	if c.left.Add(-1) < 0 {
		io.Copy(down, up)
	}
}

// lines is how many lines a file has.
func lines(t *testing.T, path string) int {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Count(string(b), "\n")
}

// The original's client sends a command up to six times when connections break: three
// times with wait, three times without. It must run once.
func TestBrokenConnections(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := r.box()
	proxy := newCutter(t, r.url, 5)
	const command = "echo x >> count; sleep 0.2"
	var got answer
	for i := range 6 {
		body := obj{"command": command, "timeout_seconds": 30, "cwd": nil, "env": nil, "login_shell": false}
		if i < 3 {
			body["wait"] = true
		}
		a, err := r.try(proxy.url, "POST", "/sandboxes/"+id+"/exec", body)
		if (err == nil) != (i == 5) {
			t.Fatalf("submission %d: %v, %s", i, err, a.raw)
		}
		got = a
	}
	job := r.do("GET", "/jobs/"+got.str("job_id")+"/wait", nil)
	if job.str("status") != "succeeded" || job.str("command") != command {
		t.Errorf("the job that was attached to: %s", job.raw)
	}
	if n := lines(t, filepath.Join(r.work, "count")); n != 1 || proxy.seen.Load() != 6 {
		t.Errorf("%d submissions ran %d times, want 6 and once", proxy.seen.Load(), n)
	}
}

// A client that got its answer and asks the same again means it.
func TestRepeatedCommands(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := r.box()
	seen := map[string]bool{}
	for range 20 {
		a := r.run(id, obj{"command": "echo x >> repeated"})
		seen[a.str("job_id")] = true
		// On a connection of its own, so that nothing but the service orders the two.
		http.DefaultClient.CloseIdleConnections()
	}
	for range 5 {
		a := r.do("POST", "/sandboxes/"+id+"/exec", obj{"command": "echo x >> repeated"})
		seen[a.str("job_id")] = true
		r.do("GET", "/jobs/"+a.str("job_id")+"/wait", nil)
	}
	if n := lines(t, filepath.Join(r.work, "repeated")); n != 25 || len(seen) != 25 {
		t.Errorf("25 commands ran %d times as %d jobs", n, len(seen))
	}
}

// Another key, another sandbox or another body is another command, even while the
// first one's answer is outstanding.
func TestNoWrongAttachment(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(s *control.Settings) { s.Keys = control.ParseKeys(testKey + ",other-key") })
	one, two := r.box(), r.box()
	const command = "echo x >> $MARK; while ! [ -e go ]; do sleep 0.01; done"
	var jobs [4]string
	var wg sync.WaitGroup
	for i, c := range []struct{ key, sandbox, mark string }{
		{testKey, one, "a"}, {"other-key", one, "a"}, {testKey, two, "a"}, {testKey, one, "./a"},
	} {
		wg.Go(func() {
			a, err := r.try(r.url, "POST", "/sandboxes/"+c.sandbox+"/exec",
				obj{"command": command, "wait": true, "concurrent": true, "env": obj{"MARK": c.mark}}, "X-API-Key", c.key)
			if err != nil {
				t.Error(err)
			}
			jobs[i] = a.str("job_id")
		})
		eventually(t, "the command", func() bool { return lines(t, filepath.Join(r.work, "a")) == i+1 })
	}
	again := r.do("POST", "/sandboxes/"+one+"/exec", obj{"command": command, "concurrent": true, "env": obj{"MARK": "a"}, "cwd": nil})
	if err := os.WriteFile(filepath.Join(r.work, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if n := lines(t, filepath.Join(r.work, "a")); n != 4 {
		t.Errorf("four different commands ran %d times", n)
	}
	if again.str("job_id") != jobs[0] || jobs[0] == "" {
		t.Errorf("the first command again is job %s, not %s", again.raw, jobs[0])
	}
}

func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := r.box()
	first := r.run(id, obj{"command": "echo x >> keyed"}, "Idempotency-Key", "k1")
	again := r.run(id, obj{"command": "echo x >> keyed"}, "Idempotency-Key", "k1")
	if first.str("job_id") != again.str("job_id") || first.status != 200 {
		t.Errorf("one key, jobs %s and %s", first.raw, again.raw)
	}
	r.run(id, obj{"command": "echo x >> keyed"}, "Idempotency-Key", "k2")
	if n := lines(t, filepath.Join(r.work, "keyed")); n != 2 {
		t.Errorf("two keys ran %d times", n)
	}
	if a := r.run(id, obj{"command": "echo other"}, "Idempotency-Key", "k1"); a.status != http.StatusConflict {
		t.Errorf("another command under a used key answered %d %s", a.status, a.raw)
	}
	if a := r.run(id, obj{"command": "true"}, "Idempotency-Key", strings.Repeat("k", 256)); a.status != 422 {
		t.Errorf("a key that is too long answered %d", a.status)
	}
}

func TestCreateOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	var wg sync.WaitGroup
	ids := make([]string, 50)
	for i := range ids {
		wg.Go(func() {
			a, err := r.try(r.url, "POST", "/sandboxes", obj{"image": "host", "cpu": "1"}, "Idempotency-Key", "same")
			if err != nil {
				t.Error(err)
			}
			ids[i] = a.str("sandbox_id")
		})
	}
	wg.Wait()
	for _, id := range ids {
		if id != ids[0] || id == "" {
			t.Fatalf("equal creates made %q and %q", ids[0], id)
		}
	}
	if n := r.rt.Starts(); n != 1 {
		t.Errorf("%d sandboxes started, want 1", n)
	}
	if a := r.do("POST", "/sandboxes", obj{"image": "host", "cpu": 2}, "Idempotency-Key", "same"); a.status != http.StatusConflict {
		t.Errorf("another spec under the same key answered %d %s", a.status, a.raw)
	}
	// The same spec in other words is the same.
	if a := r.do("POST", "/sandboxes", obj{"image": "host", "cpu": "1000m", "timeout": 7}, "Idempotency-Key", "same"); a.status != 200 {
		t.Errorf("the same spec answered %d %s", a.status, a.raw)
	}
	r.do("DELETE", "/sandboxes/"+ids[0], nil)
	if a := r.do("POST", "/sandboxes", obj{"image": "host", "cpu": "1"}, "Idempotency-Key", "same"); a.str("sandbox_id") != ids[0] || a.str("status") != "failed" || r.rt.Starts() != 1 {
		t.Errorf("a repeat after the end answered %s", a.raw)
	}
}
