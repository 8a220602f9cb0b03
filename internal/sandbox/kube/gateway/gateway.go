// Package gateway is the egress proxy of a cluster's sandboxes as a program runs it: the
// proxy on one port, and health, readiness and metrics on another, with the grants that
// it watches at the Pods.
//
// It makes nothing and changes nothing in the cluster; it holds no private key.
package gateway

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"

	"orchard/internal/sandbox/egress"
	"orchard/internal/sandbox/kube/grants"
	"orchard/internal/serve"
)

// Config is a gateway's.
type Config struct {
	Client    kubernetes.Interface
	Namespace string              // of the sandboxes
	Keys      []ed25519.PublicKey // the controllers'
	Closed    []netip.Prefix      // see egress.Options
	Drain     time.Duration       // for connections when it is told to stop
}

// Serve proxies on l and answers GET /health, /ready and /metrics on ops until ctx is
// over. It closes both.
func Serve(ctx context.Context, l, ops net.Listener, c Config) error {
	store, ready := &egress.Store{}, &atomic.Bool{}
	proxy := egress.New(egress.Options{Source: store, Closed: c.Closed})
	registry := prometheus.NewRegistry()
	registry.MustRegister(proxy.Collectors()...)

	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		if !ready.Load() || ctx.Err() != nil {
			http.Error(w, "grants are not known yet, or the gateway is stopping", http.StatusServiceUnavailable)
		}
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))

	var all errgroup.Group
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	run := func(f func() error) {
		all.Go(func() error { defer stop(); return f() }) // whichever ends first ends the others
	}
	lasting := context.WithoutCancel(ctx)
	base := func(net.Listener) context.Context { return lasting }
	run(func() error {
		err := grants.Watch(ctx, c.Client, c.Namespace, c.Keys, store, func() {
			ready.Store(true)
			zerolog.Ctx(ctx).Info().Stringer("address", l.Addr()).Msg("egress proxy ready")
		})
		if errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	})
	run(func() error {
		server := &http.Server{Handler: proxy, BaseContext: base, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10}
		return serve.Until(ctx, l, server, c.Drain)
	})
	run(func() error { return serve.Until(ctx, ops, &http.Server{Handler: mux}, 0) })
	if err := all.Wait(); err != nil {
		return fmt.Errorf("egress gateway: %w", err)
	}
	return nil
}
