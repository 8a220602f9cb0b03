package agent_test

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"orchard/agent/wire"
)

// exitCode waits for the agent's end.
func (b *box) exitCode() int {
	b.t.Helper()
	select {
	case err := <-b.exited:
		b.exited <- err
	case <-time.After(20 * time.Second):
		b.t.Fatal("the agent did not end")
	}
	return b.cmd.ProcessState.ExitCode()
}

func TestOnlySignedRequests(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	_, stranger, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	plain := b.client("", b.key).Transport.(*wire.Transport).Base
	for name, client := range map[string]*http.Client{
		"unsigned":        {Transport: plain},
		"another sandbox": b.client(testUID+"x", b.key),
		"another key":     b.client(testUID, stranger),
	} {
		for _, route := range []string{"POST /v1/jobs", "GET /v1/jobs", "GET /v1/jobs/a", "POST /v1/jobs/a/kill", "PUT /v1/jobs/a/delivered", "GET /v1/jobs/a/output", "GET /v1/files?path=/etc/passwd", "PUT /v1/files?path=f", "GET /v1/files/list?path=/", "POST /v1/lease", "POST /v1/shutdown", "GET /nothing", "GET /v1//jobs", "GET /v1/health/../jobs"} {
			method, path, _ := strings.Cut(route, " ")
			req, err := http.NewRequest(method, "http://agent"+path, strings.NewReader(`{"id":"a","shell":"echo x > ran","timeout_ms":1000}`))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			var e wire.Error
			_ = json.NewDecoder(resp.Body).Decode(&e)
			resp.Body.Close()
			if resp.StatusCode != http.StatusUnauthorized || e.Code != wire.CodeUnsigned {
				t.Errorf("%s, %s: got %d %+v", name, route, resp.StatusCode, e)
			}
		}
	}
	if _, err := os.Stat(b.dir + "/ran"); err == nil {
		t.Error("an unsigned command ran")
	}
	// Health is open and says no more than that.
	resp, err := (&http.Client{Transport: plain}).Get("http://agent/v1/health")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var h wire.Health
	if err := json.NewDecoder(resp.Body).Decode(&h); err != nil || h.Status != "ok" || h.Protocol != wire.Version || h.PID != b.cmd.Process.Pid {
		t.Errorf("health: %+v, %v", h, err)
	}
}

// Connections that never prove anything, however many, do not keep a controller out.
func TestStrangersDoNotFillTheAgent(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	b.sh("true") // a proven connection
	for range 500 {
		conn, err := net.Dial("unix", b.socket)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprint(conn, "POST /v1/jobs HTTP/1.1\r\n")
	}
	if n := b.sh("ls /proc/%d/fd | wc -l", b.cmd.Process.Pid); len(strings.TrimSpace(n)) > 2 && n > "150" {
		t.Errorf("the agent has %s descriptors open", n)
	}
	fresh := *b
	fresh.http = b.client(testUID, b.key)
	fresh.sh("true")
	b.sh("true")
}

func TestLease(t *testing.T) {
	t.Parallel()
	b := start(t, nil, "--lease", "60s")
	nap := naptime()
	j := b.submit(wire.ExecRequest{Shell: "(setsid " + nap + " &); sleep 60"}, "")
	b.await(j.ID, wire.Running)
	eventually(t, "it runs", func() bool { return alive(nap) })
	for range 5 { // heartbeats keep it alive beyond a lease
		var l wire.Lease
		b.want(200, "POST", "/v1/lease", wire.Lease{Seconds: 5}, &l)
		if left := time.Until(time.UnixMicro(l.ExpiresUS)); l.Seconds != 5 || left > 5*time.Second || left < 0 {
			t.Errorf("got %+v", l)
		}
	}
	var never wire.Lease
	b.want(200, "POST", "/v1/lease", wire.Lease{}, &never)
	if never.ExpiresUS != 0 {
		t.Errorf("got %+v, want no end", never)
	}
	for _, bad := range []string{`{"seconds":-1}`, `{"seconds":1e300}`, `{"seconds":"x"}`, ``} {
		if resp, text := b.do("POST", "/v1/lease", strings.NewReader(bad)); resp.StatusCode != 400 {
			t.Errorf("%s: got %d %s", bad, resp.StatusCode, text)
		}
	}
	if !alive(nap) {
		t.Error("it ended early")
	}
	b.want(200, "POST", "/v1/lease", wire.Lease{Seconds: 0.1}, nil)
	if code := b.exitCode(); code != 44 {
		t.Errorf("got exit %d, want 44", code)
	}
	if alive(nap) {
		t.Error("a process outlived the sandbox")
	}
	if left, _ := os.ReadDir(b.spool); len(left) != 0 {
		t.Errorf("the spool folder is left: %v", left)
	}
}

// A lease counts from the first request that is signed: whoever is to renew it has to find out
// first that the sandbox is ready.
func TestLeaseBegins(t *testing.T) {
	t.Parallel()
	b := start(t, nil, "--lease", "300ms")
	time.Sleep(600 * time.Millisecond)
	if resp, text := b.do("GET", "/v1/jobs", nil); resp.StatusCode != 200 {
		t.Errorf("after its lease, which nobody could renew: got %d %s", resp.StatusCode, text)
	}
	if code := b.exitCode(); code != 44 {
		t.Errorf("got exit %d, want 44", code)
	}
}

func TestShutdown(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"route", "SIGTERM"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			b := start(t, nil)
			nap := naptime()
			j := b.submit(wire.ExecRequest{Shell: nap + " & wait"}, "")
			eventually(t, "it runs", func() bool { return alive(nap) })
			if how == "route" {
				b.want(204, "POST", "/v1/shutdown", nil, nil)
			} else {
				b.cmd.Process.Signal(syscall.SIGTERM)
			}
			if code := b.exitCode(); code != 0 {
				t.Errorf("got exit %d", code)
			}
			if alive(nap) {
				t.Errorf("a process of job %s outlived the sandbox", j.ID)
			}
		})
	}
}

// A long poll that is open when the sandbox ends gets an answer.
func TestShutdownAnswersWhoWaits(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	id := newID()
	answer := make(chan wire.Job, 1)
	go func() {
		defer close(answer)
		answer <- b.submit(wire.ExecRequest{ID: id, Shell: "echo begun; sleep 60"}, "50")
	}()
	eventually(t, "it is there", func() bool {
		resp, _ := b.do("GET", "/v1/jobs/"+id, nil)
		return resp.StatusCode == 200
	})
	b.await(id, wire.Running)
	b.want(204, "POST", "/v1/shutdown", nil, nil)
	if j := <-answer; j.Reason != wire.ReasonEnded || !strings.Contains(j.Error, "sandbox ended") {
		t.Errorf("got %+v", j)
	}
}

// After SIGKILL of an agent another one serves at the same socket.
func TestSocketOfAKilledAgent(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	b.cmd.Process.Kill()
	b.exitCode()
	again := exec.Command(b.cmd.Path, b.cmd.Args[1:]...)
	again.Env = b.cmd.Env
	if err := again.Start(); err != nil {
		t.Fatal(err)
	}
	b.awaitHealthy()
	b.sh("true")
	again.Process.Signal(syscall.SIGTERM)
	if err := again.Wait(); err != nil {
		t.Error(err)
	}
}

// As PID 1 of a namespace the agent reaps orphans, cannot be killed by user code and
// takes everything with it.
func TestAsPID1(t *testing.T) {
	unshare := []string{"unshare", "--pid", "--fork", "--kill-child", "--mount-proc"}
	if err := exec.Command(unshare[0], append(unshare[1:], "true")...).Run(); err != nil {
		t.Skipf("no PID namespace: %v", err)
	}
	t.Parallel()
	b := startProgram(t, binary(t), unshare)
	if got := b.sh("cat /proc/1/comm"); got != "orchard-agent\n" {
		t.Errorf("PID 1 is %q", got)
	}
	nap := naptime()
	b.sh("(setsid %s &)", nap)
	eventually(t, "it runs", func() bool { return alive(nap) })
	j := b.run(wire.ExecRequest{Shell: "kill -9 -1; for s in KILL STOP TERM INT QUIT HUP ABRT USR1; do kill -$s 1; done; echo here"})
	if *j.ExitCode != 0 || string(j.Stdout.Data) != "here\n" {
		t.Errorf("got %+v", j)
	}
	eventually(t, "kill -9 -1 reached the others", func() bool { return !alive(nap) })
	eventually(t, "no zombie is left", func() bool { return b.sh("grep -l '^State:.Z' /proc/[0-9]*/status || true") == "" })
	b.want(204, "POST", "/v1/shutdown", nil, nil)
	if code := b.exitCode(); code != 0 {
		t.Errorf("got exit %d", code)
	}
}
