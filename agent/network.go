package agent

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"orchard/agent/wire"
)

const probePause = 50 * time.Millisecond

// probeTimes is how long an answer is waited for, one after the other: silence may be a
// policy that drops packets, or a machine that is busy, so it counts when it lasts. A
// policy that drops costs the sum, once; one that rejects costs nothing.
var probeTimes = []time.Duration{300 * time.Millisecond, time.Second}

// network is whether the sandbox's network is closed as it must be before commands run.
// A cluster puts a Pod's policies in place some time after the Pod has started, and
// until then everything is open.
type network struct {
	beyond []netip.AddrPort // addresses where something listens, out of reach of a closed network
	log    *slog.Logger
	closed chan struct{} // closed when the network is
}

func newNetwork(beyond []netip.AddrPort, log *slog.Logger) *network {
	n := &network{beyond: beyond, log: log, closed: make(chan struct{})}
	if len(beyond) == 0 {
		close(n.closed)
	}
	return n
}

// awaitClosed returns true when none of the addresses can be reached, false when ctx is over.
// It is seen twice: rules may be on their way, and what listens may be away for a moment.
func (n *network) awaitClosed(ctx context.Context) bool {
	told := false
	for _, address := range n.beyond {
		for seen := 0; seen < 2; {
			if reachable(ctx, address) {
				if seen = 0; !told {
					told = true
					n.log.Warn("the network is open: nothing runs until its policy is in force", "reachable", address)
				}
			} else {
				seen++
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

// reachable reports whether address answers, or may: what is not refused must be silent for
// all of probeTimes, and what could not be tried says nothing.
func reachable(ctx context.Context, address netip.AddrPort) bool {
	for _, wait := range probeTimes {
		switch probe(ctx, address, wait) {
		case refused:
			return false
		case silent: // it is waited for longer
		default:
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

// awaitClosed returns when the network is closed, or ctx is over. No lease counts
// before: nobody can use the sandbox, nor renew it.
func (s *Server) awaitClosed(ctx context.Context) {
	if !s.network.isClosed() && s.network.awaitClosed(ctx) {
		s.startLease()
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
