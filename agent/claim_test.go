package agent_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"orchard/agent/wire"
)

// A claim gives an idle sandbox its variables, folder and lease: once, however often it
// comes, and to nobody else after that.
func TestClaim(t *testing.T) {
	t.Parallel()
	b := start(t, nil, "--env", "KEPT=before", "--env", "TOLD=before")
	mine := wire.Claim{Sandbox: "mine", Env: map[string]string{"TOLD": "a $HOME=b"}, Cwd: b.dir + "/deep/work", LeaseSeconds: 600}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			b.want(http.StatusNoContent, "POST", "/v1/claim", mine, nil)
			if got := b.sh(`echo "$KEPT $TOLD $PWD"`); got != "before a $HOME=b "+mine.Cwd+"\n" {
				t.Errorf("right after the claim: %q", got)
			}
		})
	}
	all.Wait()
	for name, change := range map[string]func(*wire.Claim){
		"sandbox": func(c *wire.Claim) { c.Sandbox = "yours" },
		"env":     func(c *wire.Claim) { c.Env = map[string]string{"TOLD": "yours"} },
		"cwd":     func(c *wire.Claim) { c.Cwd = "/" },
		"lease":   func(c *wire.Claim) { c.LeaseSeconds = 0 },
	} {
		other := mine
		change(&other)
		var said wire.Error
		b.want(http.StatusConflict, "POST", "/v1/claim", other, &said)
		if said.Code != wire.CodeConflict {
			t.Errorf("%s: %+v", name, said)
		}
	}
	if got := b.sh(`echo "$TOLD"`); !strings.HasPrefix(got, "a $HOME=b") {
		t.Errorf("after refused claims: %q", got)
	}
}

// What is no claim changes nothing.
func TestBadClaim(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	for _, bad := range []wire.Claim{{}, {Sandbox: "a", Cwd: "relative"}, {Sandbox: "a", LeaseSeconds: -1}, {Sandbox: "a", Env: map[string]string{"A=B": "c"}}} {
		b.want(http.StatusBadRequest, "POST", "/v1/claim", bad, nil)
	}
	b.want(http.StatusNoContent, "POST", "/v1/claim", wire.Claim{Sandbox: "a", LeaseSeconds: 0.2}, nil)
	if code := b.exitCode(); code != 44 {
		t.Errorf("exit code %d after the claim's lease, want 44", code)
	}
}
