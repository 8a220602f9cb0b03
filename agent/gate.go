package agent

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"slices"
	"sync"
)

// maxStrangers is how many connections may be open that have not brought a signed
// request yet.
const maxStrangers = 64

// gate keeps whoever can reach the port, user code in this very sandbox included, from
// using up the agent's connections: the oldest stranger goes when there are too many.
// Safe for concurrent use.
type gate struct {
	mu        sync.Mutex
	strangers []net.Conn // oldest first
}

type guest struct {
	gate *gate
	conn net.Conn
}

type guestKey struct{}

// enter is an http.Server's ConnContext.
func (g *gate) enter(ctx context.Context, conn net.Conn) context.Context {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.strangers = append(g.strangers, conn)
	if len(g.strangers) > maxStrangers {
		hangUp(g.strangers[0])
		g.strangers = slices.Delete(g.strangers, 0, 1)
	}
	return context.WithValue(ctx, guestKey{}, guest{g, conn})
}

// hangUp closes a connection at once. TLS would say goodbye first, and wait for whoever
// does not listen.
func hangUp(conn net.Conn) {
	if secured, ok := conn.(*tls.Conn); ok {
		conn = secured.NetConn()
	}
	conn.Close()
}

// state is an http.Server's ConnState.
func (g *gate) state(conn net.Conn, state http.ConnState) {
	if state == http.StateClosed {
		g.leave(conn)
	}
}

func (g *gate) leave(conn net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.strangers, conn); i >= 0 {
		g.strangers = slices.Delete(g.strangers, i, i+1)
	}
}

// proven says that the connection of ctx has brought a signed request.
func proven(ctx context.Context) {
	if guest, ok := ctx.Value(guestKey{}).(guest); ok {
		guest.gate.leave(guest.conn)
	}
}
