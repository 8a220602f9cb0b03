package agent

import (
	"encoding/json"
	"math"
	"net/http"
	"sync"
	"time"

	"orchard/agent/wire"
)

// longestLease keeps arithmetic on leases far from overflow.
const longestLease = 10 * 365 * 24 * time.Hour

// lease is how long the sandbox may live without another heartbeat. Safe for
// concurrent use.
type lease struct {
	mu      sync.Mutex
	over    chan struct{} // closed when it ran out
	asked   chan struct{} // closed by the shutdown route
	ended   bool
	expires time.Time // zero: never
	timer   *time.Timer
}

// unreached is the least that a sandbox lives before anybody has reached it: a shorter lease
// would run out while its controller finds out that it is ready.
const unreached = 30 * time.Second

// newLease starts a lease of d; 0 is without end.
func newLease(d time.Duration) *lease {
	l := &lease{over: make(chan struct{}), asked: make(chan struct{})}
	l.timer = time.AfterFunc(longestLease, l.check)
	l.extend(d)
	return l
}

// extend makes the lease end d from now, or never for 0; false when it is over already.
func (l *lease) extend(d time.Duration) (expires time.Time, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return l.expires, false
	}
	l.expires = time.Time{}
	if d == 0 {
		l.timer.Stop()
		return l.expires, true
	}
	l.expires = time.Now().Add(d)
	l.timer.Reset(d)
	return l.expires, true
}

// check ends the lease unless it was extended after the timer had fired.
func (l *lease) check() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || l.expires.IsZero() || time.Now().Before(l.expires) {
		return
	}
	l.ended = true
	close(l.over)
}

// shutdown ends the lease because a controller said so.
func (l *lease) shutdown() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.ended = true
		close(l.asked)
	}
}

// startLease begins the time until somebody reaches the sandbox.
func (s *Server) startLease() {
	if s.cfg.Lease > 0 {
		s.lease.extend(max(s.cfg.Lease, unreached))
	}
}

// reached begins the lease with the first request: before, nobody could know that there is
// something to renew.
func (s *Server) reached(next http.Handler) http.Handler {
	var first sync.Once
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		first.Do(func() { s.lease.extend(s.cfg.Lease) })
		next.ServeHTTP(w, r)
	})
}

func (s *Server) extendLease(w http.ResponseWriter, r *http.Request) error {
	var asked wire.Lease
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		return badRequest("the body is not a lease: %v", err)
	}
	if math.IsNaN(asked.Seconds) || asked.Seconds < 0 || asked.Seconds > longestLease.Seconds() {
		return badRequest("seconds: %v is not within 0 (no end) and %.0f", asked.Seconds, longestLease.Seconds())
	}
	expires, ok := s.lease.extend(time.Duration(asked.Seconds * float64(time.Second)))
	if !ok {
		return conflict("the sandbox is ending")
	}
	asked.ExpiresUS = 0
	if !expires.IsZero() {
		asked.ExpiresUS = expires.UnixMicro()
	}
	return writeJSON(w, http.StatusOK, asked)
}

func (s *Server) shutdown(w http.ResponseWriter, _ *http.Request) error {
	w.WriteHeader(http.StatusNoContent)
	s.lease.shutdown()
	return nil
}
