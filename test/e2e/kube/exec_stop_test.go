package kube_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A8: something on the way cuts what takes longer than its own limit. Here that is 30 s, the
// longest that a replica asks an agent at a time; in the soak 200 s.
func TestA8_NoHopCutsALongExec(t *testing.T) {
	t.Parallel()
	seconds := 33
	if soak {
		seconds = 200
	}
	id := Begin(t, Roomy(shImage)).ID()
	j := Exec(t, Controller(t).URL, id, fmt.Sprintf("sleep %d; echo through", seconds), "timeout_seconds", 2*seconds)
	if j.Status != "succeeded" || j.Stdout != "through\n" {
		t.Errorf("after %d s of silence: %v", seconds, j)
	}
}

// A11: a command that hangs cannot be stopped, and holds up those behind it.
func TestA11_KillEndsAJobAndFreesTheQueue(t *testing.T) {
	t.Parallel()
	replicas := Replicas(t)
	for _, image := range []string{bashImage, shImage, bareImage} {
		id := Begin(t, Roomy(image)).ID()
		hang, next := []string{"sh", "-c", "sleep 6011"}, []string{"sh", "-c", "exit 0"}
		if image == bareImage {
			hang, next = []string{"/bare", "sleep"}, []string{"/bare", "exit", "0"}
		}
		var hung, queued Job
		Call(t, "POST", replicas[0]+"/sandboxes/"+id+"/exec", map[string]any{"argv": hang, "timeout_seconds": 600}, &hung)
		Call(t, "POST", replicas[0]+"/sandboxes/"+id+"/exec", map[string]any{"argv": next}, &queued)
		UntilJob(t, replicas[0], hung.ID, "running")
		if j := JobOf(t, replicas[0], queued.ID); j.Status != "queued" {
			t.Errorf("%s: the second: %v", short(image), j)
		}
		other, began := replicas[len(replicas)-1], time.Now()
		Call(t, "POST", other+"/jobs/"+hung.ID+"/kill", nil, &hung)
		if hung.Status != "failed" || hung.Reason != "killed" || hung.Error == nil || time.Since(began) > prompt {
			t.Errorf("%s: killed, after %v: %v", short(image), time.Since(began), hung)
		}
		if j := UntilJob(t, other, queued.ID, "succeeded", "failed"); j.Status != "succeeded" {
			t.Errorf("%s: the one behind it: %v", short(image), j)
		}
	}
}

// A12: a stopped command leaves its children running.
func TestA12_KillLeavesNoChildren(t *testing.T) {
	t.Parallel()
	url, id := Controller(t).URL, Common(t, bashImage).ID()
	var j Job
	Call(t, "POST", url+"/sandboxes/"+id+"/exec", map[string]any{"timeout_seconds": 600, "concurrent": true,
		"command": `bash -c 'sleep 6012 & (trap "" TERM HUP INT; sleep 6012) & (set -m; sleep 6012 &) ; (bash -c "set -m; sleep 6012 & sleep 6012 &" &) ; wait'`}, &j)
	Eventually(t, "five children", func(context.Context) string {
		if n := Processes(t, id, "^sleep 6012"); n != "5" {
			return n
		}
		return ""
	})
	Call(t, "POST", url+"/jobs/"+j.ID+"/kill", nil, &j)
	if n := Processes(t, id, "sleep 6012"); n != "0" {
		t.Errorf("%s processes live on after the kill: %v", n, j)
	}
}

// A14: when a command has all of the sandbox's processor, nothing else is answered.
func TestA14_AHogDoesNotStarveTheAgent(t *testing.T) {
	t.Parallel()
	url, spec := Controller(t).URL, Roomy(bashImage)
	spec.CPU = "300m"
	id := Begin(t, spec).ID()
	var hog Job
	Call(t, "POST", url+"/sandboxes/"+id+"/exec", map[string]any{"command": "for i in $(seq 60); do (while :; do :; done) & done; wait", "timeout_seconds": 600}, &hog)
	Eventually(t, "all hogs", func(context.Context) string { // seen without the agent's help
		if n := Processes(t, id, "while :"); n != "61" {
			return n
		}
		return ""
	})
	for name, ask := range map[string]func(ctx context.Context) (Answer, error){
		"exec": func(ctx context.Context) (Answer, error) {
			return Request(ctx, t, "POST", url+"/sandboxes/"+id+"/exec", map[string]any{"command": ":", "wait": true, "concurrent": true})
		},
		"put": func(ctx context.Context) (Answer, error) {
			return Request(ctx, t, "PUT", url+"/sandboxes/"+id+"/raw?path=/tmp/put", []byte("put"))
		},
		"list": func(ctx context.Context) (Answer, error) {
			return Request(ctx, t, "GET", url+"/sandboxes/"+id+"/files/list?path=/usr/bin", nil)
		},
		"heartbeat": func(ctx context.Context) (Answer, error) {
			return Request(ctx, t, "POST", url+"/sandboxes/"+id+"/heartbeat", nil)
		},
	} {
		ctx, stop := context.WithTimeout(t.Context(), prompt)
		if a, err := ask(ctx); err != nil || a.Status != http.StatusOK || strings.Contains(string(a.Body), `"failed"`) {
			t.Errorf("%s beside 60 busy processes: %v, %d: %s", name, err, a.Status, a.Body)
		}
		stop()
	}
	Call(t, "POST", url+"/jobs/"+hog.ID+"/kill", nil, &hog)
}

// A16: a client that sends a command again after its connection broke has it run again.
func TestA16_ACutConnectionRunsNothingTwice(t *testing.T) {
	t.Parallel()
	replicas, id := Replicas(t), Begin(t, Roomy(bashImage)).ID()
	for name, header := range map[string][]string{"same body": nil, "idempotency key": {"Idempotency-Key", "a16"}} {
		file := "/tmp/a16-" + name[:4]
		body := map[string]any{"command": "echo ran >>" + file + "; sleep 3; cat " + file, "wait": true}
		ctx, cut := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() {
			_, err := Request(ctx, t, "POST", replicas[0]+"/sandboxes/"+id+"/exec", body, header...)
			gone <- err
		}()
		Eventually(t, "the command runs", func(context.Context) string {
			if a := Reply(t, "GET", replicas[1]+"/sandboxes/"+id+"/jobs?state=running", nil); !strings.Contains(string(a.Body), file) {
				return string(a.Body)
			}
			return ""
		})
		cut()
		if err := <-gone; err == nil {
			t.Fatal("the first request was answered before it could be cut")
		}
		// Twice more: once while it runs, once when that answer is known.
		var first, second Job
		into(t, Reply(t, "POST", replicas[1]+"/sandboxes/"+id+"/exec", body, header...), &first)
		if first.Stdout != "ran\n" {
			t.Errorf("%s: the repeat, at another replica: %v", name, first)
		}
		if header != nil {
			into(t, Reply(t, "POST", replicas[2]+"/sandboxes/"+id+"/exec", body, header...), &second)
			if second.ID != first.ID || second.Stdout != "ran\n" {
				t.Errorf("%s: a repeat long after: %v, first %v", name, second, first)
			}
		}
	}
}
