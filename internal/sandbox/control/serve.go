package control

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"orchard/internal/serve"
)

// Serve answers requests on l, which it closes, until ctx is over; then it lets
// requests end, waiting ones early, for at most settings.Drain, and returns nil. The
// sandboxes of rt are left as they are. Requests log through ctx's logger.
func Serve(ctx context.Context, l net.Listener, rt Runtime, settings Settings) error {
	s, err := New(rt, settings)
	if err != nil {
		l.Close()
		return err
	}
	server := &http.Server{
		Handler: s,
		// Clients keep idle connections for up to two minutes; a server that closes first
		// loses their next request. No WriteTimeout: long polls last an hour.
		IdleTimeout: 150 * time.Second,
		// Requests outlive ctx, to be drained.
		BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
	}
	server.RegisterOnShutdown(s.Drain)
	if err := serve.Until(ctx, l, server, settings.Drain); err != nil {
		return fmt.Errorf("sandbox service: %w", err)
	}
	return nil
}
