package control_test

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"orchard/internal/sandbox/control"
)

// An id is a name and nothing else, however much it looks like a part of the service.
func TestIDsAreOnlyNames(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for _, id := range []string{"all", "jobs", "list", "wait", "health", "default", "0", strings.Repeat("a", 63)} {
		if a := r.do("POST", "/sandboxes", obj{"image": "i-" + id[:1], "sandbox_id": id}); a.status != 200 {
			t.Errorf("create %s: %d %s", id, a.status, a.raw)
		}
		if a := r.do("GET", "/sandboxes/"+id, nil); a.str("sandbox_id") != id {
			t.Errorf("get %s: %s", id, a.raw)
		}
	}
	if boxes := r.do("GET", "/sandboxes", nil).json["sandboxes"].([]any); len(boxes) != 8 {
		t.Errorf("%d sandboxes are listed, want 8", len(boxes))
	}
}

// A new sandbox under the id of a deleted one is waited for as any other: the old one's
// end is not its own.
func TestIDUsedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for i := range 5 {
		if a := r.do("POST", "/sandboxes", obj{"image": fmt.Sprint("i", i), "sandbox_id": "again"}); a.status != 200 {
			t.Fatalf("create: %d %s", a.status, a.raw)
		}
		if a := r.do("GET", "/sandboxes/again/wait?timeout=30", nil); a.json["ready"] != true || a.str("status") != "ready" || a.str("image") != fmt.Sprint("i", i) {
			t.Errorf("wait at once: %s", a.raw)
		}
		if i%2 == 0 {
			r.do("DELETE", "/sandboxes/again", nil)
		} else {
			r.rt.End("again", control.ReasonOOMKilled, "")
		}
	}
}

// Ready is never said of what has failed, and a job of a sandbox that ended through no
// fault of its own says that another try may do better.
func TestEndsAreTyped(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for reason, retryable := range map[string]bool{control.ReasonOOMKilled: false, control.ReasonLifetime: false, control.ReasonPreempted: true, control.ReasonEvicted: true, control.ReasonNodeLost: true} {
		id := r.box()
		job := r.do("POST", "/sandboxes/"+id+"/exec", obj{"command": "sleep 300"}).str("job_id")
		r.rt.End(id, reason, "it was so")
		view := r.do("GET", "/sandboxes/"+id, nil)
		if view.json["ready"] != false || view.str("status") != "failed" || view.str("reason") != reason || view.json["retryable"] != retryable {
			t.Errorf("%s: %s", reason, view.raw)
		}
		lost := r.do("GET", "/jobs/"+job+"/wait", nil)
		if lost.str("reason") != "lost" || lost.str("sandbox_reason") != reason || lost.json["retryable"] != retryable || lost.json["exit_code"] != nil {
			t.Errorf("%s: job %s", reason, lost.raw)
		}
		exec := r.do("POST", "/sandboxes/"+id+"/exec", obj{"command": "true"})
		if again, _ := exec.json["retryable"].(bool); exec.status != 404 || exec.str("reason") != reason || again != retryable {
			t.Errorf("%s: exec %d %s", reason, exec.status, exec.raw)
		}
	}
	id := r.box()
	if a := r.run(id, obj{"command": "true"}); a.json["retryable"] != nil || a.json["sandbox_reason"] != nil {
		t.Errorf("a job that is not lost: %s", a.raw)
	}
	var kinds []string
	for _, e := range r.do("GET", "/sandboxes/"+id+"/events", nil).json["events"].([]any) {
		kinds = append(kinds, e.(map[string]any)["type"].(string))
	}
	if got := strings.Join(kinds, " "); got != "created scheduled ready" {
		t.Errorf("events %q", got)
	}
}

// Heartbeats that race with a delete bring nothing back.
func TestHeartbeatsDoNotResurrect(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for range 5 {
		id := r.box()
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if a := r.do("POST", "/sandboxes/"+id+"/heartbeat", nil); a.status != 200 && a.status != 404 && a.status != 503 {
					t.Errorf("heartbeat: %d %s", a.status, a.raw)
				}
			})
		}
		r.do("DELETE", "/sandboxes/"+id, nil)
		wg.Wait()
		if a := r.do("GET", "/sandboxes/"+id, nil); a.status != 404 {
			t.Errorf("after the delete: %d %s", a.status, a.raw)
		}
		if a := r.do("POST", "/sandboxes/"+id+"/heartbeat", nil); a.status != 404 {
			t.Errorf("a heartbeat after the delete: %d %s", a.status, a.raw)
		}
	}
}

// A follower gets each event once, as it comes, and the end of the stream with the end
// of the sandbox.
func TestEventsFollow(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for reason, want := range map[string]string{control.ReasonEvicted: "created scheduled ready evicted", control.ReasonDeleted: "created scheduled ready"} {
		id := r.box()
		req, err := http.NewRequest("GET", r.url+"/sandboxes/"+id+"/events?follow=1", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-API-Key", testKey)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var kinds []string
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			if kind, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				if kinds = append(kinds, kind); kind == "ready" {
					r.rt.End(id, reason, "")
				}
			}
		}
		if got := strings.Join(kinds, " "); got != want || resp.Header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("%s: %q, want %q", reason, got, want)
		}
	}
	if a := r.do("GET", "/sandboxes/"+r.box()+"/events?follow=perhaps", nil); a.status != 422 {
		t.Errorf("follow=perhaps: %d %s", a.status, a.raw)
	}
}
