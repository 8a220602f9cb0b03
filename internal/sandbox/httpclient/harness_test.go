package httpclient_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"orchard/internal/sandbox"
	"orchard/internal/sandbox/control"
	"orchard/internal/sandbox/httpclient"
	"orchard/internal/sandbox/sandboxtest/plain"
)

const key = "key-of-the-test"

// rig is a real service over real agents, behind a handler that a test may put first.
type rig struct {
	rt   *plain.Runtime
	work string
	url  string
}

func newRig(t *testing.T, wrap func(http.Handler) http.Handler) *rig {
	t.Helper()
	set := control.Defaults()
	set.Keys, set.DefaultWorkdir = control.ParseKeys(key), t.TempDir()
	set.ReadyWait, set.RetryWindow = 200*time.Millisecond, 3*time.Second
	rt := plain.New(t)
	s, err := control.New(rt, set)
	if err != nil {
		t.Fatal(err)
	}
	h := http.Handler(s)
	if wrap != nil {
		h = wrap(h)
	}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	t.Cleanup(s.Drain)
	return &rig{rt, set.DefaultWorkdir, server.URL}
}

func newClient(t *testing.T, url, key string) *httpclient.Client {
	t.Helper()
	c, err := httpclient.New(httpclient.Options{URL: url, Key: key, Patience: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func create(t *testing.T, c sandbox.Client, spec sandbox.Spec) sandbox.Sandbox {
	t.Helper()
	if spec.Image == "" {
		spec.Image = "host"
	}
	box, err := c.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return box
}

// flaky is a TCP proxy that breaks connections: in turn before the request, after the
// request, and within the answer; every fourth goes through.
func flaky(t *testing.T, target string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var turn atomic.Int64
	t.Cleanup(func() { l.Close(); wg.Wait() })
	forward := func(down net.Conn) {
		defer down.Close()
		n := turn.Add(1) % 4
		if n == 1 {
			return
		}
		req, err := http.ReadRequest(bufio.NewReader(down))
		if err != nil {
			return
		}
		up, err := net.Dial("tcp", strings.TrimPrefix(target, "http://"))
		if err != nil {
			return
		}
		defer up.Close()
		req.Header.Set("Connection", "close")
		if req.Write(up) != nil || n == 2 {
			return
		}
		if n == 3 {
			io.CopyN(down, up, 60)
			return
		}
		io.Copy(down, up)
	}
	wg.Go(func() {
		for {
			down, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { forward(down) })
		}
	})
	return "http://" + l.Addr().String()
}
