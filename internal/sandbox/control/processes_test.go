package control_test

import (
	"strings"
	"testing"
	"time"

	"orchard/internal/sandbox/control"
)

// jobs is the ids of a sandbox's jobs in a state.
func (r *rig) jobs(id, state string) []string {
	r.t.Helper()
	a := r.do("GET", "/sandboxes/"+id+"/jobs?state="+state, nil)
	if a.status != 200 {
		r.t.Fatalf("jobs: %d %s", a.status, a.raw)
	}
	var ids []string
	for _, one := range a.json["jobs"].([]any) {
		ids = append(ids, one.(obj)["job_id"].(string))
	}
	return ids
}

// A process in the background is found again, fed, signalled and seen to its end.
func TestBackgroundProcess(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := r.box()
	done := r.run(id, obj{"command": "exit 1"}).str("job_id")
	job := r.do("POST", "/sandboxes/"+id+"/exec", obj{"command": "trap 'echo usr' USR1; while read line; do echo got $line; done; echo end", "stdin": "zero\n", "stdin_open": true, "concurrent": true}).str("job_id")
	eventually(t, "it runs", func() bool { return strings.Join(r.jobs(id, "running"), "") == job })
	if got := r.jobs(id, ""); len(got) != 2 || got[0] != done || got[1] != job {
		t.Errorf("all: %v", got)
	}
	if got := r.jobs(id, "failed"); len(got) != 1 || got[0] != done {
		t.Errorf("failed: %v", got)
	}
	if a := r.do("GET", "/sandboxes/"+id+"/jobs?state=odd", nil); a.status != 422 {
		t.Errorf("odd state: %d", a.status)
	}
	if a := r.do("POST", "/jobs/"+job+"/stdin", "one\n"); a.status != 200 || a.json["bytes"] != 4.0 {
		t.Errorf("stdin: %d %s", a.status, a.raw)
	}
	if a := r.do("POST", "/jobs/"+job+"/stdin?offset=0", "one\ntwo\n"); a.status != 200 || a.json["bytes"] != 8.0 {
		t.Errorf("stdin again: %d %s", a.status, a.raw)
	}
	if a := r.do("POST", "/jobs/"+job+"/stdin?offset=9", "x"); a.status != 409 {
		t.Errorf("a gap: %d %s", a.status, a.raw)
	}
	eventually(t, "it has read all", func() bool {
		return strings.Contains(string(r.do("GET", "/jobs/"+job+"/output", nil).raw), "got two\n")
	})
	if a := r.do("POST", "/jobs/"+job+"/signal", obj{"sig": "USR1"}); a.status != 200 {
		t.Errorf("signal: %d %s", a.status, a.raw)
	}
	for _, wrong := range []obj{{"sig": "NOPE"}, {}, {"sig": nil}} {
		if a := r.do("POST", "/jobs/"+job+"/signal", wrong); a.status != 400 && a.status != 422 {
			t.Errorf("%v: %d", wrong, a.status)
		}
	}
	eventually(t, "the signal was seen", func() bool {
		return strings.Contains(string(r.do("GET", "/jobs/"+job+"/output", nil).raw), "usr\n")
	})
	if a := r.do("POST", "/jobs/"+job+"/stdin?close=1", ""); a.status != 200 || a.json["closed"] != true {
		t.Errorf("close: %d %s", a.status, a.raw)
	}
	a := r.do("GET", "/jobs/"+job+"/wait?timeout=30", nil)
	if a.str("stdout") != "got zero\ngot one\ngot two\nusr\nend\n" || a.str("status") != "succeeded" {
		t.Errorf("got %s", a.raw)
	}
	for path, want := range map[string]int{"/jobs/" + job + "/stdin": 409, "/jobs/" + done + "/stdin": 409, "/jobs/nosuch/stdin": 404} {
		if a := r.do("POST", path, "x"); a.status != want {
			t.Errorf("%s: %d %s, want %d", path, a.status, a.raw, want)
		}
	}
	if a := r.do("POST", "/jobs/"+job+"/signal", obj{"sig": "TERM"}); a.status != 409 {
		t.Errorf("signal after the end: %d", a.status)
	}
}

// A command that nobody waits for may run for as long as its sandbox lives.
func TestBackgroundTimeout(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(s *control.Settings) { s.MaxTimeout = 10 * time.Minute })
	id := r.do("POST", "/sandboxes", obj{"image": "host", "lifetime_seconds": 7200}).str("sandbox_id")
	r.do("GET", "/sandboxes/"+id+"/wait?timeout=30", nil)
	for _, c := range []struct {
		fields obj
		want   float64
	}{
		{obj{"command": "true", "timeout_seconds": 3600}, 3600},
		{obj{"command": "true", "timeout_seconds": 1e9}, 7200},
		{obj{"command": "true", "timeout_seconds": 3600, "wait": true}, 600},
	} {
		job := r.do("POST", "/sandboxes/"+id+"/exec", c.fields).str("job_id")
		if got := r.do("GET", "/jobs/"+job, nil).json["timeout_seconds"]; got != c.want {
			t.Errorf("%v: got %v, want %v", c.fields, got, c.want)
		}
	}
}
