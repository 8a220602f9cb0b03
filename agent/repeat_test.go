package agent_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"orchard/agent/wire"
)

func TestSameIDRunsOnce(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	req := wire.ExecRequest{ID: "once", Shell: "echo x >> f; sleep 0.2; cat f", Concurrent: true}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if j := b.run(req); string(j.Stdout.Data) != "x\n" || j.ID != "once" {
				t.Errorf("got %+v", j)
			}
		})
	}
	all.Wait()
	if j := b.run(req); !j.Attached || string(j.Stdout.Data) != "x\n" {
		t.Errorf("after its end: %+v", j)
	}
	other := req
	other.Shell, other.TimeoutMS = "echo y", 60_000
	var e wire.Error
	b.want(409, "POST", "/v1/jobs", other, &e)
	if e.Code != wire.CodeConflict || !strings.Contains(e.Detail, "once") {
		t.Errorf("got %+v", e)
	}
	if got := b.get("f"); got != "x\n" {
		t.Errorf("it ran more than once: %q", got)
	}
}

func TestKeysAttach(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	count := 0
	// ran submits the command and reports whether it was run anew.
	ran := func(req wire.ExecRequest) bool {
		t.Helper()
		j := b.run(req)
		lines := strings.Count(b.get("f"), "\n")
		anew := lines > count
		count = lines
		if anew == j.Attached {
			t.Errorf("ran anew: %v, attached: %v", anew, j.Attached)
		}
		return anew
	}
	const shell = "echo x >> f"
	first := newID()
	dedup := wire.ExecRequest{ID: first, Shell: shell, DedupKey: "d"}
	if !ran(dedup) {
		t.Error("the first did not run")
	}
	dedup.ID = ""
	if ran(dedup) {
		t.Error("an equal request ran while the first was undelivered")
	}
	if j := b.submit(wire.ExecRequest{ID: first, Shell: shell}, ""); !j.AckPending {
		t.Errorf("no acknowledgement is asked for: %+v", j)
	}
	b.want(200, "PUT", "/v1/jobs/"+first+"/delivered", nil, nil)
	if !ran(dedup) {
		t.Error("an equal request after the delivery was attached")
	}
	if ran(dedup) {
		t.Error("and its repeat ran")
	}
	other := dedup
	other.Shell += "; true"
	if !ran(other) || ran(other) || ran(dedup) {
		t.Error("commands with the same key were mixed up")
	}
	keyed := wire.ExecRequest{Shell: shell, IdempotencyKey: "k"}
	if !ran(keyed) {
		t.Error("the first of a key did not run")
	}
	for range 2 {
		if ran(keyed) {
			t.Error("the same key ran again")
		}
	}
	keyed.Shell, keyed.TimeoutMS, keyed.ID = "true", 1000, newID()
	b.want(409, "POST", "/v1/jobs", keyed, nil)
	b.want(404, "PUT", "/v1/jobs/none/delivered", nil, nil)
}

func TestListOfJobs(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	var ids []string
	for i := range 3 {
		ids = append(ids, b.run(wire.ExecRequest{Shell: fmt.Sprint("echo ", i)}).ID)
	}
	var jobs []wire.Job
	b.want(200, "GET", "/v1/jobs", nil, &jobs)
	if len(jobs) != 3 {
		t.Fatalf("got %d jobs", len(jobs))
	}
	for i, j := range jobs {
		if j.ID != ids[i] || j.State != wire.Done || j.Stdout.Bytes != 2 || j.Stdout.Data != nil {
			t.Errorf("job %d: %+v", i, j)
		}
	}
}

func TestBadCommands(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	for _, c := range []struct{ name, body, says string }{
		{"no JSON", `{`, "not a command"},
		{"another type", `[]`, "not a command"},
		{"no id", `{"shell":"true","timeout_ms":1}`, "id:"},
		{"id with a slash", `{"id":"../x","shell":"true","timeout_ms":1}`, "id:"},
		{"nothing to run", `{"id":"a","timeout_ms":1}`, "shell, argv:"},
		{"both", `{"id":"a","shell":"true","argv":["true"],"timeout_ms":1}`, "shell, argv:"},
		{"empty program", `{"id":"a","argv":[""],"timeout_ms":1}`, "argv:"},
		{"no timeout", `{"id":"a","shell":"true"}`, "timeout_ms:"},
		{"negative timeout", `{"id":"a","shell":"true","timeout_ms":-1}`, "timeout_ms:"},
		{"endless timeout", `{"id":"a","shell":"true","timeout_ms":9223372036854775807}`, "timeout_ms:"},
		{"timeout as text", `{"id":"a","shell":"true","timeout_ms":"abc"}`, "timeout_ms"},
		{"negative idle timeout", `{"id":"a","shell":"true","timeout_ms":1,"idle_timeout_ms":-5}`, "idle_timeout_ms:"},
		{"negative cap", `{"id":"a","shell":"true","timeout_ms":1,"output_cap":-5}`, "output_cap:"},
		{"NUL in shell", `{"id":"a","shell":"a\u0000b","timeout_ms":1}`, "shell:"},
		{"NUL in argv", `{"id":"a","argv":["a","\u0000"],"timeout_ms":1}`, "argv:"},
		{"env name", `{"id":"a","shell":"true","timeout_ms":1,"env":{"A=B":"x"}}`, "env:"},
		{"empty env name", `{"id":"a","shell":"true","timeout_ms":1,"env":{"":"x"}}`, "env:"},
		{"NUL in env", `{"id":"a","shell":"true","timeout_ms":1,"env":{"A":"\u0000"}}`, "env:"},
		{"login argv", `{"id":"a","argv":["true"],"login":true,"timeout_ms":1}`, "login:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			resp, text := b.do("POST", "/v1/jobs", bytes.NewReader([]byte(c.body)))
			if resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(text), wire.CodeBadRequest) || !strings.Contains(string(text), c.says) {
				t.Errorf("got %d %s, want 400 with %q", resp.StatusCode, text, c.says)
			}
		})
	}
	for _, path := range []string{"/v1/jobs/x?wait=abc", "/v1/jobs/x?wait=-1", "/v1/jobs/x?wait=NaN"} {
		if resp, text := b.do("GET", path, nil); resp.StatusCode != 400 || !strings.Contains(string(text), "wait:") {
			t.Errorf("%s: got %d %s", path, resp.StatusCode, text)
		}
	}
	b.want(404, "GET", "/v1/jobs/none", nil, nil)
	b.want(404, "GET", "/v1/nothing", nil, nil)
	huge := wire.ExecRequest{ID: "huge", Argv: []string{"true", strings.Repeat("x", 200<<10)}, TimeoutMS: 1000}
	if j := b.run(huge); *j.ExitCode != 126 || j.State != wire.Failed || !strings.Contains(j.Error, "E2BIG") {
		t.Errorf("an argument the kernel does not take: %+v", j)
	}
}

// A delivery is over when its request ends: well, and an equal request is a new command;
// broken off, as by a controller that dies, and it is the same one. Until then nobody knows,
// so an equal request waits.
func TestDeliveryEndsWithItsRequest(t *testing.T) {
	t.Parallel()
	for _, well := range []bool{true, false} {
		t.Run(fmt.Sprintf("well=%v", well), func(t *testing.T) {
			t.Parallel()
			b := start(t, nil)
			first := wire.ExecRequest{ID: newID(), Shell: "echo x >> f", DedupKey: "d"}
			b.run(first)
			body, end := io.Pipe()
			req, err := http.NewRequest("PUT", "http://agent/v1/jobs/"+first.ID+"/delivered", body)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := b.http.Do(req) // answered while its body is still to come
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			again := make(chan wire.Job, 1)
			go func() {
				second := first
				second.ID = newID()
				again <- b.run(second)
			}()
			select {
			case j := <-again:
				t.Fatalf("an equal request did not wait: %+v", j)
			case <-time.After(500 * time.Millisecond):
			}
			if well {
				end.Close()
			} else {
				end.CloseWithError(errors.New("the controller is gone"))
			}
			if j := <-again; j.Attached == well {
				t.Errorf("attached: %v", j.Attached)
			}
			if lines := strings.Count(b.get("f"), "x"); lines != 1 && !well || lines != 2 && well {
				t.Errorf("it ran %d times", lines)
			}
		})
	}
}
