package serve

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// A request that is being answered when the end comes is answered to its end.
func TestUntilLetsRequestsEnd(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	l, draining := listen(t), make(chan struct{})
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		stop()
		<-draining
		_, _ = io.WriteString(w, "whole")
	})}
	server.RegisterOnShutdown(func() { close(draining) })
	served := make(chan error, 1)
	go func() { served <- Until(ctx, l, server, time.Minute) }()
	resp, err := http.Get("http://" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); string(b) != "whole" || err != nil {
		t.Errorf("answer %q, %v", b, err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// A request that does not end within patience is cut off.
func TestUntilCutsOff(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	l := listen(t)
	server := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		stop()
		<-r.Context().Done()
	})}
	served := make(chan error, 1)
	go func() { served <- Until(ctx, l, server, time.Millisecond) }()
	if resp, err := http.Get("http://" + l.Addr().String()); err == nil {
		resp.Body.Close()
		t.Error("a request that never ends was answered")
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func TestUntilListenerBreaks(t *testing.T) {
	t.Parallel()
	l := listen(t)
	l.Close()
	if err := Until(t.Context(), l, &http.Server{}, time.Second); err == nil {
		t.Error("no error on a closed listener")
	}
}
