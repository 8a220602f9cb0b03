package kube

import (
	"context"
	"net"
	"testing"
	"time"

	"orchard/internal/sandbox"
	"orchard/internal/sandbox/control"
	"orchard/internal/sandbox/httpclient"
	"orchard/internal/sandbox/sandboxtest"
)

// serve is the sandbox service over r, and a client of it.
func serve(t *testing.T, r *Runtime) sandbox.Client {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	set := control.Defaults()
	set.DefaultCPU, set.DefaultMemory = "1", "512Mi"
	set.ReadyWait = time.Minute
	key := control.NewKey()
	set.Keys = control.ParseKeys(key)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- control.Serve(ctx, l, r, set) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	c, err := httpclient.New(httpclient.Options{URL: "http://" + l.Addr().String(), Key: key})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// What every sandbox.Client does, over the real service and the real cluster.
func TestClusterSuite(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	sandboxtest.Suite(t, serve(t, s.open(t)), sandbox.Spec{
		Image: imageBash, CPU: "250m", Memory: "256Mi", ReadyTimeout: 2 * time.Minute,
	})
}
