package agent_test

import (
	"os/exec"
	"sync"
	"testing"

	"orchard/agent/wire"
)

// An agent that is told to end while it starts commands, one after the other, ends at once
// and leaves no process behind: neither one of theirs nor its own child on the way to one.
// A busy machine makes that way long.
func TestEndWhileCommandsStart(t *testing.T) {
	for range 4 {
		busy := exec.Command("/bin/sh", "-c", "while :; do :; done")
		if err := busy.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { busy.Process.Kill(); busy.Wait() })
	}
	for i := range 4 {
		b := start(t, nil)
		var clients sync.WaitGroup
		for range 4 {
			clients.Go(func() {
				for range 20 {
					b.submit(wire.ExecRequest{Argv: []string{"/bin/sleep", "60"}, Concurrent: true}, "0")
				}
			})
		}
		clients.Wait()
		b.want(204, "POST", "/v1/shutdown", nil, nil)
		if code := b.exitCode(); code != 0 || alive(b.socket) {
			t.Fatalf("round %d: exit code %d; a process of it is left: %v", i, code, alive(b.socket))
		}
	}
}
