// Package breaking is networks that break, between a client and a service. It is for
// tests only.
package breaking

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Flaky is the address of a TCP proxy that breaks connections: in turn before the request,
// after the request, and within the answer; every fourth goes through.
func Flaky(t testing.TB, target string) string {
	t.Helper()
	var turn atomic.Int64
	return listen(t, func(down net.Conn) {
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
	})
}

// Cutter is a TCP proxy whose connections a test cuts. Safe for concurrent use.
type Cutter struct {
	URL string

	mu   sync.Mutex
	open map[net.Conn]bool
	n    int
}

// NewCutter is a proxy to a service.
func NewCutter(t testing.TB, target string) *Cutter {
	t.Helper()
	c := &Cutter{open: map[net.Conn]bool{}}
	c.URL = listen(t, func(down net.Conn) {
		up, err := net.Dial("tcp", strings.TrimPrefix(target, "http://"))
		if err != nil {
			return
		}
		defer up.Close()
		c.mu.Lock()
		c.open[down], c.n = true, c.n+1
		c.mu.Unlock()
		defer func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			delete(c.open, down)
		}()
		var back sync.WaitGroup
		back.Go(func() { defer down.Close(); io.Copy(down, up) })
		io.Copy(up, down)
		up.Close()
		back.Wait()
	})
	t.Cleanup(c.Cut)
	return c
}

// Cut breaks every connection that is open now.
func (c *Cutter) Cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.open {
		conn.Close()
	}
}

// Connections is how many there were.
func (c *Cutter) Connections() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// listen is the address of a server that ends with the test.
func listen(t testing.TB, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() { l.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			down, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { defer down.Close(); serve(down) })
		}
	})
	return "http://" + l.Addr().String()
}
