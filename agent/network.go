package agent

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"

	"orchard/agent/wire"
)

const (
	probeTime  = 300 * time.Millisecond // a policy that drops packets costs so long, once
	probePause = 50 * time.Millisecond
	probeTries = 3
)

// network is whether the sandbox's network is closed as it must be before commands run.
// A cluster puts a Pod's policies in place some time after the Pod has started, and
// until then everything is open.
type network struct {
	beyond []string // addresses where something listens, out of reach of a closed network
	log    *slog.Logger
	closed chan struct{} // closed when the network is
}

func newNetwork(beyond []string, log *slog.Logger) *network {
	n := &network{beyond: beyond, log: log, closed: make(chan struct{})}
	if len(beyond) == 0 {
		close(n.closed)
	}
	return n
}

// awaitClosed returns true when none of the addresses can be reached, false when ctx is over.
func (n *network) awaitClosed(ctx context.Context) bool {
	told := false
	for _, address := range n.beyond {
		for reachable(ctx, address) {
			if !told {
				told = true
				n.log.Warn("the network is open: nothing runs until its policy is in force", "reachable", address)
			}
			select {
			case <-ctx.Done():
				return false
			case <-time.After(probePause):
			}
		}
	}
	return ctx.Err() == nil
}

// reachable tries several times at once: one packet that is lost must not look like a
// closed network.
func reachable(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	reached := make(chan bool, probeTries)
	for range probeTries {
		go func() {
			var d net.Dialer
			c, err := d.DialContext(ctx, "tcp", address)
			if err == nil {
				c.Close()
			}
			reached <- err == nil
		}()
	}
	for range probeTries {
		if <-reached {
			return true
		}
	}
	return false
}

func (n *network) isClosed() bool {
	select {
	case <-n.closed:
		return true
	default:
		return false
	}
}

// awaitClosed returns when the network is closed, or ctx is over. The lease counts from
// then: before, nobody can use the sandbox, nor renew it.
func (s *Server) awaitClosed(ctx context.Context) {
	if !s.network.isClosed() && s.network.awaitClosed(ctx) {
		s.lease.extend(s.cfg.Lease)
		close(s.network.closed)
	}
}

// whenClosed refuses everything until the network is closed.
func (s *Server) whenClosed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.network.isClosed() {
			s.fail(w, r, &problem{http.StatusServiceUnavailable, wire.CodeNetworkOpen, "the network policy of this sandbox is not in force yet"})
			return
		}
		next.ServeHTTP(w, r)
	})
}
