package control_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestExec(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := r.box()
	for _, c := range []struct {
		name string
		send obj
		want obj // these fields exactly
	}{
		{"success", obj{"command": "echo hi"}, obj{"status": "succeeded", "stdout": "hi\n", "exit_code": 0.0, "error": nil}},
		{"failure", obj{"command": "echo e >&2; exit 3"}, obj{"status": "failed", "stderr": "e\n", "exit_code": 3.0, "error": nil}},
		{"list is joined plainly", obj{"command": []string{"printf", "a b"}}, obj{"stdout": "a", "command": "printf a b"}},
		{"argv keeps words", obj{"argv": []string{"printf", "%s|", "a b", "$x"}}, obj{"stdout": "a b|$x|"}},
		{"a number is text", obj{"command": 5}, obj{"command": "5", "exit_code": 127.0}},
		{"longer than an argument may be", obj{"command": "echo " + strings.Repeat("x", 300_000) + " | wc -c"}, obj{"stdout": "300001\n"}},
		{"empty command", obj{"command": ""}, obj{"status": "succeeded", "exit_code": 0.0}},
		{"nulls", obj{"command": "pwd", "cwd": nil, "env": nil, "timeout_seconds": nil, "login_shell": nil}, obj{"stdout": r.work + "\n", "timeout_seconds": 300.0}},
		{"unknown fields", obj{"command": "true", "colour": "red"}, obj{"status": "succeeded"}},
		{"cwd and env", obj{"command": "pwd; echo $A $B", "cwd": "/tmp", "env": obj{"A": "1", "B": 2}}, obj{"stdout": "/tmp\n1 2\n"}},
		{"cwd that is not there", obj{"command": "pwd", "cwd": "/nowhere"}, obj{"stdout": r.work + "\n"}},
		{"stdin empty", obj{"command": "cat; echo done"}, obj{"stdout": "done\n"}},
		{"stdin text", obj{"command": "cat", "stdin": "é\n"}, obj{"stdout": "é\n"}},
		{"stdin bytes", obj{"command": "od -An -tx1", "stdin_base64": "AP8="}, obj{"stdout": " 00 ff\n"}},
		{"merged", obj{"command": "echo a; echo b >&2; echo c", "merge": true}, obj{"stdout": "a\nb\nc\n", "stderr": ""}},
		{"signal", obj{"command": "kill -9 $$"}, obj{"status": "failed", "exit_code": -9.0, "error": nil}},
		{"own 124", obj{"command": "exit 124"}, obj{"exit_code": 124.0, "error": nil, "stderr": ""}},
		{"timeout", obj{"command": "echo partial; sleep 60", "timeout_seconds": 1}, obj{
			"status": "failed", "exit_code": 124.0, "stdout": "partial\n", "error": "Command timed out after 1s",
			"stderr": "\nCommand timed out after 1s and was killed", "reason": "timeout"}},
		{"timeout with stderr", obj{"command": "echo e >&2; sleep 60", "timeout_seconds": 0.5}, obj{
			"stderr": "e\n\nCommand timed out after 0.5s and was killed", "error": "Command timed out after 0.5s"}},
		{"idle timeout", obj{"command": "echo x; sleep 60", "idle_timeout_seconds": 0.3}, obj{
			"status": "failed", "exit_code": 124.0, "stdout": "x\n", "reason": "idle_timeout"}},
		{"login shell", obj{"command": "echo e >&2; shopt -q login_shell && echo login", "login_shell": true}, obj{"stdout": "login\n", "stderr": "e\n"}},
		{"no such program", obj{"argv": []string{"no-such-program"}}, obj{"status": "failed", "exit_code": 127.0, "reason": "spawn"}},
		{"not UTF-8", obj{"command": `printf 'a\377\342\202z\000'`}, obj{"stdout": "a\uFFFD\uFFFDz\x00"}},
		{"blank lines", obj{"command": `printf 'a\n\n\r\nb'`}, obj{"stdout": "a\n\n\r\nb"}},
		{"background child", obj{"command": "sleep 61 & echo started"}, obj{"stdout": "started\n", "exit_code": 0.0}},
		{"huge timeout is cut", obj{"command": "true", "timeout_seconds": 1e12}, obj{"timeout_seconds": 86400.0}},
		{"timeout as text", obj{"command": "true", "timeout_seconds": "20"}, obj{"timeout_seconds": 20.0}},
		{"zero is the default", obj{"command": "true", "timeout_seconds": 0}, obj{"timeout_seconds": 300.0}},
		{"truth as text", obj{"command": "true", "wait": "yes"}, obj{"status": "succeeded"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := r.run(id, c.send)
			if a.status != http.StatusOK {
				t.Fatalf("status %d: %s", a.status, a.raw)
			}
			if diff := cmp.Diff(c.want, restrict(a.json, c.want)); diff != "" {
				t.Errorf("job differs (-want +got):\n%s", diff)
			}
			for _, field := range []string{"job_id", "created_at", "started_at", "completed_at"} {
				if a.json[field] == nil {
					t.Errorf("%s is missing: %s", field, a.raw)
				}
			}
		})
	}
}

func TestExecRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := r.box()
	for _, c := range []struct {
		name string
		send any
		want string // within the answer
	}{
		{"no command", obj{}, `"loc":["body","command"],"msg":"field required","type":"value_error.missing"`},
		{"null command", obj{"command": nil}, "none is not an allowed value"},
		{"command of a wrong type", obj{"command": obj{"a": 1}}, "str type expected"},
		{"wrong word", obj{"command": []any{"a", nil}}, `"loc":["body","command",1]`},
		{"negative timeout", obj{"command": "true", "timeout_seconds": -1}, `"timeout_seconds"],"msg":"ensure this value is greater than or equal to 0"`},
		{"timeout of a wrong type", obj{"command": "true", "timeout_seconds": "abc"}, "value is not a valid integer"},
		{"timeout NaN", obj{"command": "true", "timeout_seconds": "NaN"}, "value is not a valid integer"},
		{"env of a wrong type", obj{"command": "true", "env": []int{1}}, "value is not a valid dict"},
		{"env value of a wrong type", obj{"command": "true", "env": obj{"A": obj{}}}, `"loc":["body","env","A"]`},
		{"env name", obj{"command": "true", "env": obj{"A=B": "1"}}, "a name must not be empty or hold '='"},
		{"bool of a wrong type", obj{"command": "true", "wait": "maybe"}, "value could not be parsed to a boolean"},
		{"both", obj{"command": "true", "argv": []string{"true"}}, "give command or argv, not both"},
		{"empty argv", obj{"argv": []string{}}, "argv must begin with a program"},
		{"NUL", obj{"command": "a\x00b"}, "must not hold NUL"},
		{"two stdins", obj{"command": "cat", "stdin": "a", "stdin_base64": "YQ=="}, "not both"},
		{"no body", "", `"loc":["body"],"msg":"field required"`},
		{"no JSON", "{", "invalid JSON"},
		{"no object", "[1]", "value is not a valid dict"},
		{"null", "null", "field required"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := r.do("POST", "/sandboxes/"+id+"/exec", c.send)
			if a.status != http.StatusUnprocessableEntity || !strings.Contains(string(a.raw), c.want) {
				t.Errorf("answer %d %s, want 422 with %s", a.status, a.raw, c.want)
			}
		})
	}
}

// Two faults are told in one answer.
func TestExecFaultsTogether(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	a := r.do("POST", "/sandboxes/x/exec", obj{"timeout_seconds": -1})
	if details, _ := a.json["detail"].([]any); len(details) != 2 {
		t.Errorf("answer %s, want two faults", a.raw)
	}
}

func TestExecBytes(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := r.box()
	a := r.do("POST", "/sandboxes/"+id+"/exec?output=base64", obj{"command": `printf '\377\000x'; echo e >&2; sleep 60`, "wait": true, "timeout_seconds": 0.5})
	out, err := base64.StdEncoding.DecodeString(a.str("stdout_base64"))
	if err != nil || string(out) != "\xff\x00x" {
		t.Errorf("stdout %q, %v", out, err)
	}
	if e, _ := base64.StdEncoding.DecodeString(a.str("stderr_base64")); string(e) != "e\n" {
		t.Errorf("stderr %q, want the command's own bytes only", e)
	}
}

func TestExecLargeOutput(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := r.box()
	const whole = 10 << 20
	a := r.run(id, obj{"command": fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x", whole)})
	if got := a.str("stdout"); len(got) != whole || strings.Trim(got, "x") != "" || a.json["stdout_truncated"] != false {
		t.Errorf("10 MiB came as %d bytes, truncated %v", len(got), a.json["stdout_truncated"])
	}
	const beyond = 40 << 20
	a = r.run(id, obj{"command": fmt.Sprintf("head -c %d /dev/zero | tr '\\0' y; exit 7", beyond)})
	if a.json["stdout_truncated"] != true || a.json["stdout_bytes"] != float64(beyond) || a.json["exit_code"] != 7.0 {
		t.Errorf("40 MiB: truncated %v, bytes %v, exit %v", a.json["stdout_truncated"], a.json["stdout_bytes"], a.json["exit_code"])
	}
	rest := r.do("GET", fmt.Sprintf("/jobs/%s/output?offset=%d", a.str("job_id"), beyond-3), nil)
	if string(rest.raw) != "yyy" {
		t.Errorf("output from the offset on is %q (%d)", rest.raw, rest.status)
	}
}

func TestJobs(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := r.box()
	work := t.TempDir()
	submitted := r.do("POST", "/sandboxes/"+id+"/exec", obj{"command": "while ! [ -e " + work + "/go ]; do sleep 0.01; done; echo end"})
	job := submitted.str("job_id")
	if submitted.str("status") != "queued" || job == "" {
		t.Fatalf("submission answered %s", submitted.raw)
	}
	second := r.do("POST", "/sandboxes/"+id+"/exec", obj{"command": "echo second"}).str("job_id")
	eventually(t, "running", func() bool { return r.do("GET", "/jobs/"+job, nil).str("status") == "running" })
	if a := r.do("GET", "/jobs/"+second, nil); a.str("status") != "queued" || a.json["started_at"] != nil {
		t.Errorf("the command behind is %s", a.raw)
	}
	if a := r.run(id, obj{"command": "echo at once", "concurrent": true}); a.str("stdout") != "at once\n" {
		t.Errorf("concurrent: %s", a.raw)
	}
	if a := r.do("GET", "/jobs/"+job+"/wait?timeout=0.05", nil); a.status != 200 || a.str("status") != "running" {
		t.Errorf("a wait that ends early answered %s", a.raw)
	}
	if err := os.WriteFile(filepath.Join(work, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if a := r.do("GET", "/jobs/"+job+"/wait?timeout=20", nil); a.str("stdout") != "end\n" || a.str("status") != "succeeded" {
		t.Errorf("waited job: %s", a.raw)
	}
	if a := r.do("GET", "/jobs/"+second+"/wait", nil); a.str("stdout") != "second\n" {
		t.Errorf("second job: %s", a.raw)
	}
	// A wait shorter than the command gets the job as it is, and the job goes on.
	slow := r.run(id, obj{"command": "sleep 300", "wait_seconds": 0.1})
	if slow.str("status") != "running" {
		t.Fatalf("wait_seconds: %s", slow.raw)
	}
	killed := r.do("POST", "/jobs/"+slow.str("job_id")+"/kill", nil)
	if killed.status != 200 || killed.str("status") != "failed" || killed.json["exit_code"] != -9.0 || killed.str("reason") != "killed" {
		t.Errorf("killed job: %s", killed.raw)
	}
	forged := job[:len(job)-len(id)-1]
	for _, path := range []string{"/jobs/none", "/jobs/none/wait", "/jobs/" + forged, "/jobs/" + forged + "-" + "other", "/jobs/a%2Fb"} {
		if a := r.do("GET", path, nil); a.status != 404 || !strings.HasSuffix(a.str("detail"), "not found") {
			t.Errorf("%s answered %d %s", path, a.status, a.raw)
		}
	}
	if a := r.do("GET", "/jobs/"+job+"/wait?timeout=-1", nil); a.status != 422 {
		t.Errorf("negative wait answered %d", a.status)
	}
}

// A sandbox that ends takes its jobs along, and says why.
func TestJobsOfEndedSandbox(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := r.box()
	job := r.do("POST", "/sandboxes/"+id+"/exec", obj{"command": "sleep 300"}).str("job_id")
	waited := make(chan answer, 1)
	go func() {
		a, err := r.try(r.url, "POST", "/sandboxes/"+id+"/exec", obj{"command": "touch begun; sleep 301", "wait": true, "concurrent": true})
		if err != nil {
			t.Error(err)
		}
		waited <- a
	}()
	eventually(t, "running", func() bool { return r.do("GET", "/jobs/"+job, nil).str("status") == "running" })
	eventually(t, "the other one too", func() bool { return exists(r.work + "/begun") })
	r.rt.End(id, "OOMKilled", "used more than 512Mi")
	const why = "ended: OOMKilled: used more than 512Mi"
	for _, a := range []answer{<-waited, r.do("GET", "/jobs/"+job, nil), r.do("GET", "/jobs/"+job+"/wait", nil), r.do("POST", "/jobs/"+job+"/kill", nil)} {
		if a.status != 200 || a.str("status") != "failed" || a.json["exit_code"] != nil || a.str("reason") != "lost" || !strings.HasSuffix(a.str("error"), why) {
			t.Errorf("job of an ended sandbox: %d %s", a.status, a.raw)
		}
		if a.str("job_id") == "" || a.str("sandbox_id") != id || a.json["created_at"] == nil {
			t.Errorf("fields that clients need are missing: %s", a.raw)
		}
	}
	a := r.run(id, obj{"command": "true"})
	if a.status != 404 || a.json["gone"] != true || a.str("reason") != "OOMKilled" || !strings.Contains(a.str("detail"), "512Mi") {
		t.Errorf("exec in an ended sandbox: %d %s", a.status, a.raw)
	}
	// Its id is free again; jobs of the first one are not the second one's.
	if a := r.do("POST", "/sandboxes", obj{"image": "host", "sandbox_id": id}); a.status != 200 {
		t.Fatalf("id of an ended sandbox: %s", a.raw)
	}
	if a := r.do("GET", "/jobs/"+job, nil); a.status != 200 || a.str("status") != "failed" || !strings.Contains(a.str("error"), "replaced") {
		t.Errorf("job of a replaced sandbox: %d %s", a.status, a.raw)
	}
}

// An agent that dies without a word is an end, not a hang.
func TestAgentKilled(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := r.box()
	began := time.Now()
	done := make(chan answer, 1)
	go func() {
		a, err := r.try(r.url, "POST", "/sandboxes/"+id+"/exec", obj{"command": "touch begun; sleep 303", "wait": true})
		if err != nil {
			t.Error(err)
		}
		done <- a
	}()
	eventually(t, "an exec under way", func() bool { return exists(r.work + "/begun") })
	r.rt.KillAgent(id)
	if a := <-done; a.str("reason") != "lost" || a.json["exit_code"] != nil {
		t.Errorf("after %v: %s", time.Since(began), a.raw)
	}
}
