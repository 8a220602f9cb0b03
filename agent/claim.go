package agent

import (
	"encoding/json"
	"maps"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"orchard/agent/wire"
)

// claim is whose sandbox this is, once somebody has claimed it. Until then, and for one
// that was made for its user from the start, the settings hold. Safe for concurrent use.
type claim struct {
	mu  sync.Mutex
	by  *wire.Claim
	env []string
	cwd string
}

func newClaim(cfg Config) *claim { return &claim{env: cfg.Env, cwd: cfg.Cwd} }

// base is the variables of every command, and the default working folder.
func (c *claim) base() (env []string, cwd string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.env, c.cwd
}

// take makes the sandbox by's; false when it is another's already. It may come several
// times, from several controllers: settle runs in the first, before any other is answered.
func (c *claim) take(by wire.Claim, settle func() bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by != nil {
		return c.by.Sandbox == by.Sandbox && c.by.Cwd == by.Cwd && c.by.LeaseSeconds == by.LeaseSeconds && maps.Equal(c.by.Env, by.Env)
	}
	if !settle() {
		return false
	}
	c.by, c.env = &by, overlay(c.env, by.Env)
	if by.Cwd != "" {
		c.cwd = by.Cwd
	}
	return true
}

func (s *Server) claimed(w http.ResponseWriter, r *http.Request) error {
	var by wire.Claim
	if err := json.NewDecoder(r.Body).Decode(&by); err != nil {
		return badRequest("the body is not a claim: %v", err)
	}
	switch {
	case by.Sandbox == "":
		return badRequest("sandbox: missing")
	case by.Cwd != "" && !filepath.IsAbs(by.Cwd):
		return badRequest("cwd: %q is not an absolute path", by.Cwd)
	case math.IsNaN(by.LeaseSeconds) || by.LeaseSeconds < 0 || by.LeaseSeconds > longestLease.Seconds():
		return badRequest("lease_seconds: %v is not within 0 (no end) and %.0f", by.LeaseSeconds, longestLease.Seconds())
	}
	if err := checkEnv(by.Env); err != nil {
		return badRequest("%v", err)
	}
	if !s.claim.take(by, func() bool { return s.settleIn(by) }) {
		return conflict("the sandbox is another's already, or ending")
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// settleIn begins by's lease and makes its folder.
func (s *Server) settleIn(by wire.Claim) bool {
	if by.LeaseSeconds > 0 {
		if _, ok := s.lease.extend(time.Duration(by.LeaseSeconds * float64(time.Second))); !ok {
			return false
		}
	}
	if by.Cwd != "" {
		if err := os.MkdirAll(by.Cwd, 0o755); err != nil {
			s.log.Warn("default working folder", "path", by.Cwd, "err", err.Error()) // commands fall back to /
		}
	}
	return true
}
