package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/rs/zerolog"
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
	log := zerolog.Ctx(ctx)
	server := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: 10 * time.Second,
		// Clients keep idle connections for up to two minutes; a server that closes first
		// loses their next request. No WriteTimeout: long polls last an hour.
		IdleTimeout: 150 * time.Second,
		// Requests outlive ctx, to be drained.
		BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve sandboxes on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	s.Drain()
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), settings.Drain)
	defer cancel()
	if err := server.Shutdown(limit); err != nil {
		log.Warn().Err(err).Msg("requests cut off")
		server.Close()
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve sandboxes on %s: %w", l.Addr(), err)
	}
	return nil
}
