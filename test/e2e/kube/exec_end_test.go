package kube_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// shells are the images in which commands are text.
var shells = []string{bashImage, shImage}

func short(image string) string {
	return strings.TrimSuffix(image[strings.LastIndex(image, "/")+1:], ":1")
}

// A1: a command that leaves something in the background is not answered before that ends.
func TestA1_BackgroundChildrenDoNotHoldTheAnswer(t *testing.T) {
	t.Parallel()
	url := Controller(t).URL
	for _, image := range shells {
		id := Begin(t, Roomy(image)).ID()
		leave, left := "sleep 6001 & (sh -c 'sleep 6001' &) ; echo ok", "2"
		if image == bashImage { // with -m a child has a process group of its own
			leave, left = "nohup sleep 6001 & (set -m; sleep 6001 &) ; sleep 6001 & echo ok", "3"
		}
		began := time.Now()
		if j := Exec(t, url, id, leave); j.Stdout != "ok\n" || j.Status != "succeeded" || time.Since(began) > prompt {
			t.Errorf("%s: after %v: %v", short(image), time.Since(began), j)
		}
		alive := "n=0; for p in /proc/[0-9]*; do case $(tr '\\0' ' ' <$p/cmdline 2>/dev/null) in *'sleep 6001'*) n=$((n+1));; esac; done; echo $n"
		if image == shImage { // no tr: read stops at NUL
			alive = "n=0; for p in /proc/[0-9]*; do read -r -d '' c <$p/cmdline 2>/dev/null; [ \"$c\" = sleep ] && n=$((n+1)); done; echo $n"
		}
		if j := Exec(t, url, id, alive); j.Stdout < left {
			t.Errorf("%s: a later command does not see the children: %v", short(image), j)
		}
	}
}

// A3: a command that reads its standard input waits for input that never comes.
func TestA3_StandardInputIsEmpty(t *testing.T) {
	t.Parallel()
	for _, image := range shells {
		j := Exec(t, Controller(t).URL, Common(t, image).ID(), "while read -r x; do echo $x; done; echo done", "concurrent", true)
		if j.Stdout != "done\n" || j.Status != "succeeded" {
			t.Errorf("%s: %v", short(image), j)
		}
	}
}

// A4: what was printed before a timeout is lost, and the sandbox with it.
func TestA4_OutputBeforeTimeoutIsKept(t *testing.T) {
	t.Parallel()
	url := Controller(t).URL
	for _, image := range shells {
		id := Common(t, image).ID()
		j := Exec(t, url, id, "echo partial; sleep 600", "timeout_seconds", 2, "concurrent", true)
		if j.Stdout != "partial\n" || j.ExitCode == nil || *j.ExitCode != 124 || j.Reason != "timeout" || !strings.Contains(j.Stderr, "timed out after 2s") {
			t.Errorf("%s: %v", short(image), j)
		}
		if j := Exec(t, url, id, "echo usable", "concurrent", true); j.Stdout != "usable\n" {
			t.Errorf("%s, afterwards: %v", short(image), j)
		}
	}
}

// A5: there is no way to stop what has gone silent and leave alone what takes long.
func TestA5_IdleTimeout(t *testing.T) {
	t.Parallel()
	url, id := Controller(t).URL, Common(t, bashImage).ID()
	// Longer than the idle timeout in all, and far from it between two lines.
	chatty := Exec(t, url, id, "for i in $(seq 24); do echo $i; sleep 0.5; done", "idle_timeout_seconds", 8, "concurrent", true)
	if chatty.Status != "succeeded" || !strings.HasSuffix(chatty.Stdout, "\n24\n") {
		t.Errorf("a command that prints: %v", chatty)
	}
	silent := Exec(t, url, id, "echo begun; sleep 600", "idle_timeout_seconds", 2, "concurrent", true, "timeout_seconds", 600)
	if silent.Reason != "idle_timeout" || silent.Status != "failed" || silent.Stdout != "begun\n" {
		t.Errorf("a command that does not: %v", silent)
	}
}

// A6: a timeout that a model made up ends the command at once, or never.
func TestA6_AnyTimeout(t *testing.T) {
	t.Parallel()
	url, id := Controller(t).URL, Common(t, bashImage).ID()
	for _, c := range []struct {
		timeout any
		status  int
		// holds is the timeout that the job has in the end; 0 is not looked at.
		holds float64
	}{
		{-1, http.StatusUnprocessableEntity, 0}, {"abc", http.StatusUnprocessableEntity, 0}, {[]int{1}, http.StatusUnprocessableEntity, 0},
		{0, http.StatusOK, 300}, {nil, http.StatusOK, 300}, {"7", http.StatusOK, 7}, {0.5, http.StatusOK, 0.5}, {1e9, http.StatusOK, -1},
	} {
		a := Reply(t, "POST", url+"/sandboxes/"+id+"/exec", map[string]any{"command": "echo ok", "wait": true, "concurrent": true, "timeout_seconds": c.timeout})
		if a.Status != c.status {
			t.Errorf("timeout %v: %d: %s", c.timeout, a.Status, a.Body)
			continue
		}
		if c.status != http.StatusOK {
			if !strings.Contains(string(a.Body), "timeout_seconds") {
				t.Errorf("timeout %v: the refusal names no field: %s", c.timeout, a.Body)
			}
			continue
		}
		var j Job
		if err := json.Unmarshal(a.Body, &j); err != nil || j.Stdout != "ok\n" {
			t.Errorf("timeout %v: %s", c.timeout, a.Body)
		}
		// An enormous one is cut to what is left of the sandbox's life.
		if c.holds > 0 && j.TimeoutSeconds != c.holds || c.holds < 0 && (j.TimeoutSeconds <= 0 || j.TimeoutSeconds > 86400) {
			t.Errorf("timeout %v became %v", c.timeout, j.TimeoutSeconds)
		}
	}
	if j := Exec(t, url, id, "yes", "timeout_seconds", 1, "concurrent", true); j.Reason != "timeout" || j.StdoutBytes == 0 {
		t.Errorf("endless output: %v", j)
	}
}

// A9: a command that was ended for time is told as a success.
func TestA9_EveryTimeoutIsAFailure(t *testing.T) {
	t.Parallel()
	url := Controller(t).URL
	for _, image := range []string{bashImage, shImage, bareImage} {
		path := url + "/sandboxes/" + Common(t, image).ID() + "/exec"
		for name, fields := range map[string]map[string]any{
			"timeout": {"wait": true, "timeout_seconds": 1}, "timeout, not waited for": {"timeout_seconds": 1},
			"timeout, waited for too short": {"wait": true, "wait_seconds": 0.2, "timeout_seconds": 1}, "idle_timeout": {"wait": true, "idle_timeout_seconds": 1},
		} {
			body := map[string]any{"argv": []string{"sh", "-c", "sleep 600"}, "concurrent": true}
			if image == bareImage {
				body["argv"] = []string{"/bare", "sleep"}
			}
			for k, v := range fields {
				body[k] = v
			}
			var j Job
			Call(t, "POST", path, body, &j)
			if fields["wait"] == nil || fields["wait_seconds"] != nil {
				if j.Status == "succeeded" || j.Status == "failed" {
					t.Errorf("%s, %s: over before its time: %v", short(image), name, j)
				}
				Call(t, "GET", url+"/jobs/"+j.ID+"/wait?timeout=60", nil, &j)
			}
			want := strings.Split(name, ",")[0]
			if j.Status != "failed" || j.Reason != want || j.Error == nil || *j.Error == "" || j.ExitCode == nil || *j.ExitCode == 0 {
				t.Errorf("%s, %s: %v", short(image), name, j)
			}
			if again := JobOf(t, url, j.ID); fmt.Sprint(again) != fmt.Sprint(j) {
				t.Errorf("%s, %s: first %v, then %v", short(image), name, j, again)
			}
		}
	}
}
