package agent

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"orchard/agent/wire"
)

const dialPatience = 5 * time.Second

// tunnel is one connection to a port of the sandbox. What goes through is nobody's
// business here.
type tunnel struct {
	mu   sync.Mutex
	ends []net.Conn
	is   bool // cut
}

// cut closes both ends, and those still to come.
func (t *tunnel) cut() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.is = true
	for _, end := range t.ends {
		hangUp(end)
	}
}

func (t *tunnel) add(end net.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ends = append(t.ends, end)
	if t.is {
		hangUp(end)
	}
}

// tunnel connects whoever has a token with its port.
func (s *Server) tunnel(w http.ResponseWriter, r *http.Request) error {
	if !strings.EqualFold(r.Header.Get("Upgrade"), wire.TunnelProtocol) {
		return badRequest("this is no Upgrade to %s", wire.TunnelProtocol)
	}
	found, err := s.grants.find(r.URL.Query().Get("token"))
	if err != nil {
		return err
	}
	t := &tunnel{}
	if err := s.grants.hold(found, t); err != nil {
		return err
	}
	defer s.grants.release(found, t)
	defer t.cut()
	port, err := dialPort(r.Context(), found.view.Port)
	if err != nil {
		return err
	}
	t.add(port)
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return fmt.Errorf("take over the connection: %w", err)
	}
	t.add(conn)
	stop := context.AfterFunc(s.end, t.cut)
	defer stop()
	if _, err := io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+wire.TunnelProtocol+"\r\n\r\n"); err != nil {
		return nil
	}
	// Who is done ends it: HTTP closes no half of a connection.
	var back sync.WaitGroup
	back.Go(func() {
		defer t.cut()
		_, _ = copyBlocks(conn, port)
	})
	_, _ = copyBlocks(port, buffered)
	t.cut()
	back.Wait()
	return nil
}

// dialPort connects with what listens in the sandbox, by either family.
func dialPort(ctx context.Context, port int) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialPatience)
	defer cancel()
	var dialer net.Dialer
	first, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err == nil {
		return first, nil
	}
	if second, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort("::1", strconv.Itoa(port))); err == nil {
		return second, nil
	}
	return nil, &problem{http.StatusConflict, wire.CodeRefused, fmt.Sprintf("port %d of the sandbox: %s", port, describe(err))}
}
