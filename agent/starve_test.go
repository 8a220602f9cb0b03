package agent_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"orchard/agent/wire"
)

// User code takes every process that the sandbox may have. The agent lives, says so,
// and its kill makes the sandbox usable again.
func TestOutOfProcesses(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("a limit of processes for one user needs root to set up")
	}
	t.Parallel()
	b := startProgram(t, binary(t), []string{"prlimit", "--nproc=80:80", "setpriv", "--reuid", "54399", "--clear-groups"})
	hog := b.submit(wire.ExecRequest{Shell: "n=0; while [ $n -lt 500 ]; do sleep 600.54399 & n=$((n+1)); done 2>/dev/null; echo full; sleep 600.54399", Concurrent: true}, "")
	full := func() bool {
		j := b.run(wire.ExecRequest{Argv: []string{"true"}, Concurrent: true})
		return j.Reason == wire.ReasonSpawn && strings.Contains(j.Error, "EAGAIN")
	}
	eventually(t, "no process is left", full)
	for i := range 50 { // many at once: each must find a thread
		b.put(fmt.Sprint("file", i), strings.Repeat("x", 100_000))
		b.want(200, "GET", "/v1/files/list?path=/usr/bin", nil, nil)
		b.submit(wire.ExecRequest{Argv: []string{"true"}, Concurrent: true}, "")
	}
	b.want(200, "POST", "/v1/jobs/"+hog.ID+"/kill", nil, nil)
	if alive("sleep 600.54399") {
		t.Error("the hog is alive")
	}
	if got := b.sh("echo usable"); got != "usable\n" {
		t.Errorf("got %q", got)
	}
}

// Busy processors keep neither health nor a second command from being answered.
func TestBusyProcessors(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	hog := b.submit(wire.ExecRequest{Shell: "for i in 1 2 3 4 5 6 7 8; do while :; do :; done & done; wait"}, "")
	b.await(hog.ID, wire.Running)
	b.awaitHealthy()
	if j := b.run(wire.ExecRequest{Shell: "echo ok", Concurrent: true}); string(j.Stdout.Data) != "ok\n" {
		t.Errorf("got %+v", j)
	}
	b.want(200, "POST", "/v1/jobs/"+hog.ID+"/kill", nil, nil)
}
