package control_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"orchard/internal/sandbox/control"
)

// event is a server-sent event.
type event struct {
	name, id string
	data     struct {
		Offset   int64
		Dropped  int64
		Data     []byte
		JobID    string `json:"job_id"`
		Status   string
		Reason   string
		ExitCode *int `json:"exit_code"`
		Stdout   *string
	}
}

// tape is what a client of a stream has.
type tape struct {
	r    *rig
	id   string // of the newest event
	job  string
	text map[string][]byte
	end  *event
}

// play opens a stream and reads at most so many events; -1 is all.
func (tp *tape) play(method, path, body string, most int, header ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, tp.r.url+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("X-API-Key", testKey)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if kind := resp.Header.Get("Content-Type"); resp.StatusCode != 200 || kind != "text/event-stream" {
		return fmt.Errorf("%s, %s", resp.Status, kind)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	var e event
	for most != 0 && lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "event":
			e.name = value
		case "id":
			e.id = value
		case "data":
			if err := json.Unmarshal([]byte(value), &e.data); err != nil {
				return err
			}
		case "":
			if e.name == "" { // the end of a comment
				continue
			}
			if err := tp.take(e); err != nil {
				return err
			}
			e = event{}
			most--
		}
	}
	return nil
}

func (tp *tape) take(e event) error {
	tp.id = e.id
	switch e.name {
	case "job":
		tp.job = e.data.JobID
	case "exit":
		tp.end = &e
	case "stdout", "stderr":
		if int64(len(tp.text[e.name])) != e.data.Offset {
			return fmt.Errorf("%s at %d, have %d", e.name, e.data.Offset, len(tp.text[e.name]))
		}
		tp.text[e.name] = append(tp.text[e.name], e.data.Data...)
	}
	return nil
}

func (r *rig) tape() *tape { return &tape{r: r, text: map[string][]byte{}} }

const chatter = `for i in $(seq 200); do echo out $i; echo err $i >&2; [ $((i % 20)) = 0 ] && sleep 0.02; done; head -c 300000 /dev/zero | tr '\0' z; exit 5`

// However a stream is cut, and whichever replica goes on with it, each byte comes once.
func TestStreamCutAnywhere(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id, other := r.box(), r.another()
	random := rand.New(rand.NewPCG(3, 4))
	tp := r.tape()
	raw, _ := json.Marshal(obj{"command": chatter})
	if err := tp.play("POST", "/sandboxes/"+id+"/exec?stream=1", string(raw), 3); err != nil || tp.job == "" {
		t.Fatal(tp.job, err)
	}
	for cuts := 0; tp.end == nil; cuts++ {
		tp.r = []*rig{r, other}[cuts%2]
		most := random.IntN(40)
		if cuts > 150 {
			most = -1
		}
		var err error
		if cuts%3 == 0 {
			err = tp.play("GET", fmt.Sprintf("/jobs/%s/stream?stdout=%d&stderr=%d", tp.job, len(tp.text["stdout"]), len(tp.text["stderr"])), "", most)
		} else {
			err = tp.play("GET", "/jobs/"+tp.job+"/stream", "", most, "Last-Event-ID", tp.id)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var out, errs strings.Builder
	for i := 1; i <= 200; i++ {
		fmt.Fprintln(&out, "out", i)
		fmt.Fprintln(&errs, "err", i)
	}
	out.WriteString(strings.Repeat("z", 300000))
	if string(tp.text["stdout"]) != out.String() || string(tp.text["stderr"]) != errs.String() {
		t.Errorf("the output is another: %d and %d bytes", len(tp.text["stdout"]), len(tp.text["stderr"]))
	}
	if e := tp.end.data; e.Status != "failed" || e.ExitCode == nil || *e.ExitCode != 5 || e.Stdout == nil || *e.Stdout != "" {
		t.Errorf("exit: %+v", e)
	}
}

func TestStreamOfEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := r.box()
	tp := r.tape()
	if err := tp.play("POST", "/sandboxes/"+id+"/exec", `{"command":"printf 'a\\377'; sleep 60","timeout_seconds":1}`, -1, "Accept", "text/event-stream"); err != nil {
		t.Fatal(err)
	}
	if string(tp.text["stdout"]) != "a\xff" || tp.end == nil || tp.end.data.Reason != "timeout" || *tp.end.data.ExitCode != 124 {
		t.Errorf("timeout: %q %+v", tp.text, tp.end)
	}
	missing := r.tape()
	if err := missing.play("POST", "/sandboxes/"+id+"/exec?stream=1", `{"argv":["no-such-program"]}`, -1); err != nil || *missing.end.data.ExitCode != 127 {
		t.Errorf("missing: %v %+v", err, missing.end)
	}
	// A sandbox that ends takes its jobs along, and the stream says so, then and later.
	cut := r.tape()
	done := make(chan error, 1)
	go func() {
		done <- cut.play("POST", "/sandboxes/"+id+"/exec?stream=1", `{"command":"echo here; sleep 600"}`, -1)
	}()
	r.inFlight("/sandboxes/{id}/exec")
	eventually(t, "it runs", func() bool {
		return len(r.do("GET", "/sandboxes/"+id+"/jobs?state=running", nil).json["jobs"].([]any)) == 1
	})
	r.rt.End(id, control.ReasonOOMKilled, "")
	if err := <-done; err != nil || cut.end == nil || cut.end.data.Reason != "lost" || cut.end.data.ExitCode != nil {
		t.Fatalf("lost: %v %+v", err, cut.end)
	}
	late := r.tape()
	if err := late.play("GET", "/jobs/"+cut.job+"/stream", "", -1); err != nil || late.end == nil || late.end.data.Reason != "lost" {
		t.Errorf("later: %v %+v", err, late.end)
	}
}

// While the service drains a stream ends without an exit, and another replica goes on.
func TestStreamDrains(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id, tp := r.box(), r.tape()
	done := make(chan error, 1)
	go func() {
		done <- tp.play("POST", "/sandboxes/"+id+"/exec?stream=1", `{"command":"echo one; while [ ! -e go ]; do sleep 0.01; done; echo two"}`, -1)
	}()
	eventually(t, "it runs", func() bool {
		return len(r.do("GET", "/sandboxes/"+id+"/jobs?state=running", nil).json["jobs"].([]any)) == 1
	})
	r.s.Drain()
	if err := <-done; err != nil || tp.end != nil {
		t.Fatalf("%v %+v", err, tp.end)
	}
	tp.r = r.another()
	tp.r.do("PUT", "/sandboxes/"+id+"/raw?path=go", "")
	if err := tp.play("GET", "/jobs/"+tp.job+"/stream", "", -1, "Last-Event-ID", tp.id); err != nil || string(tp.text["stdout"]) != "one\ntwo\n" {
		t.Errorf("%v %q", err, tp.text)
	}
}

func TestStreamRefusals(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := r.box()
	job := r.run(id, obj{"command": "echo four"}).str("job_id")
	for path, want := range map[string]int{
		"/jobs/" + job + "/stream?stdout=-1": 422, "/jobs/" + job + "/stream?stderr=x": 422, "/jobs/" + job + "/stream?stdout=6": 400,
		"/jobs/nosuch/stream": 404, "/jobs/" + job[:len(job)-len(id)-2] + "a-" + id + "/stream": 404,
	} {
		if a := r.do("GET", path, nil); a.status != want {
			t.Errorf("%s: got %d %s, want %d", path, a.status, a.raw, want)
		}
	}
	if a := r.do("GET", "/jobs/"+job+"/stream", nil, "Last-Event-ID", "five"); a.status != 422 {
		t.Errorf("a bad event id: %d", a.status)
	}
}
