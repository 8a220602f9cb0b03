package agent

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"orchard/agent/wire"
)

const (
	probePause = 50 * time.Millisecond
	probeTries = 3
)

// probeTimes is how long an answer is waited for, one after the other: silence may be a
// policy that drops packets, or a machine that is busy, so it counts when it lasts. A
// policy that drops costs the sum, once; one that rejects costs nothing.
var probeTimes = []time.Duration{300 * time.Millisecond, time.Second}

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

// reachable reports whether address answers, or may: whatever is not refused must be
// silent for all of probeTimes.
func reachable(ctx context.Context, address string) bool {
	for _, wait := range probeTimes {
		switch answer := probe(ctx, address, wait); {
		case answer == nil:
			return true
		case !isTimeout(answer):
			return false
		}
	}
	return false
}

// isTimeout tells silence from a refusal. Dialers name it in more than one way.
func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout() || errors.Is(err, os.ErrDeadlineExceeded)
}

// probe tries several times at once: one packet that is lost must not look like a closed
// network. It returns nil when a try is answered, and else the error of the last.
func probe(ctx context.Context, address string, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	tries := make(chan error, probeTries)
	for range probeTries {
		go func() {
			var d net.Dialer
			c, err := d.DialContext(ctx, "tcp", address)
			if err == nil {
				c.Close()
			}
			tries <- err
		}()
	}
	var err error
	for range probeTries {
		if err = <-tries; err == nil {
			return nil
		}
	}
	return err
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
