// Package serve answers HTTP on a listener for as long as a context lasts.
//
// It opens no port and decides nothing about requests. When Until returns, no request
// is being answered any more and the listener is closed.
package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/rs/zerolog"
)

// headerTimeout keeps a client that sends nothing from holding a connection for ever.
const headerTimeout = 10 * time.Second

// Until serves server on l, which it closes, until ctx is over; then it lets requests
// end for at most patience and returns nil. Functions of server.RegisterOnShutdown run
// when that begins. A ReadHeaderTimeout of 0 becomes 10 s.
func Until(ctx context.Context, l net.Listener, server *http.Server, patience time.Duration) error {
	if server.ReadHeaderTimeout == 0 {
		server.ReadHeaderTimeout = headerTimeout
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	if err := server.Shutdown(limit); err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Msg("requests cut off")
		server.Close()
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve on %s: %w", l.Addr(), err)
	}
	return nil
}
