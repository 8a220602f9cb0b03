package control

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"orchard/internal/exit"
	"orchard/internal/serve"
)

// Serve answers requests on l, which it closes, until ctx is over. Then GET /ready says
// no for settings.DrainDelay while all else is answered as ever, so that balancers send
// nobody any more; then requests end, waiting ones early, for at most settings.Drain, and it
// returns nil. The sandboxes of rt are left as they are. Requests log through ctx's logger.
func Serve(ctx context.Context, l net.Listener, rt Runtime, settings Settings) error {
	s, err := New(rt, settings)
	if err != nil {
		l.Close()
		return err
	}
	stopDebug, err := s.serveDebug(ctx)
	if err != nil {
		l.Close()
		return err
	}
	defer stopDebug()
	// Requests outlive ctx, to be drained.
	lasting := context.WithoutCancel(ctx)
	open, shut := context.WithCancel(lasting)
	defer shut()
	leaving := context.AfterFunc(ctx, func() {
		s.Leave()
		t := time.AfterFunc(settings.DrainDelay, shut)
		context.AfterFunc(open, func() { t.Stop() })
	})
	defer leaving()
	server := s.server()
	server.BaseContext = func(net.Listener) context.Context { return lasting }
	if err := serve.Until(open, l, server, settings.Drain); err != nil {
		return fmt.Errorf("sandbox service: %w", err)
	}
	return nil
}

// server is how requests are taken. Clients keep idle connections for up to two minutes;
// a server that closes first loses their next request. There is no timeout of a whole
// request or answer: a command may run for a day, and a file be of any size. Only a
// client that sends no header is cut off, by serve.
func (s *Service) server() *http.Server {
	server := &http.Server{Handler: s, IdleTimeout: 150 * time.Second, MaxHeaderBytes: 64 << 10}
	server.RegisterOnShutdown(s.Drain)
	return server
}

// Leave makes GET /ready say no; all else goes on. It cannot be undone.
func (s *Service) Leave() { s.leaving.Store(true) }

func (s *Service) readiness(w http.ResponseWriter, _ *http.Request) error {
	if s.leaving.Load() || s.drain.Err() != nil {
		return away(1, "the service is stopping")
	}
	writeJSON(w, http.StatusOK, map[string]string{"status": "ready"})
	return nil
}

// serveDebug serves net/http/pprof on its own loopback port until stop is called, which
// returns when it has ended.
func (s *Service) serveDebug(ctx context.Context) (stop func(), err error) {
	if s.set.DebugListen == "" {
		return func() {}, nil
	}
	l, err := net.Listen("tcp", s.set.DebugListen)
	if err != nil {
		return nil, exit.Configf("--debug-listen: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = serve.Until(ctx, l, &http.Server{Handler: mux}, 0) // of no consequence to the service
	}()
	return func() { cancel(); <-done }, nil
}
