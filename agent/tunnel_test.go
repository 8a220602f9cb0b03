package agent_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"orchard/agent/wire"
)

// echo listens on loopback and answers what it hears.
func echo(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(conn, conn); conn.Close() }()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

// cut fails when a connection is not at its end within 20 s.
func cut(t testing.TB, conn io.Reader) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); _, _ = io.Copy(io.Discard, conn) }()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Error("the connection lives on")
	}
}

// tunnel opens a connection by a token; nil and the status when that is refused.
func (b *box) tunnel(token string) (io.ReadWriteCloser, int) {
	b.t.Helper()
	req, err := http.NewRequest("GET", "http://agent/v1/tunnel?token="+token, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", wire.TunnelProtocol)
	resp, err := b.http.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		resp.Body.Close()
		return nil, resp.StatusCode
	}
	return resp.Body.(io.ReadWriteCloser), resp.StatusCode
}

func (b *box) grant(port int, seconds float64) wire.Port {
	b.t.Helper()
	var made wire.Port
	b.want(200, "POST", "/v1/ports", wire.Port{Port: port, Seconds: seconds}, &made)
	return made
}

func TestTunnel(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	made := b.grant(echo(t), 600)
	conn, status := b.tunnel(made.Token)
	if status != 101 {
		t.Fatalf("got %d", status)
	}
	fmt.Fprintln(conn, "hello")
	lines := bufio.NewReader(conn)
	if line, err := lines.ReadString('\n'); line != "hello\n" {
		t.Fatalf("got %q, %v", line, err)
	}
	var all []wire.Port
	b.want(200, "GET", "/v1/ports", nil, &all)
	if len(all) != 1 || all[0].ID != made.ID || all[0].Open != 1 || all[0].Token != "" {
		t.Errorf("got %+v", all)
	}
	// An end takes open connections along.
	b.want(204, "DELETE", "/v1/ports/"+made.ID, nil, nil)
	cut(t, lines)
	conn.Close()
	if _, status := b.tunnel(made.Token); status != 410 {
		t.Errorf("revoked: got %d", status)
	}
	if _, status := b.tunnel("nonsense"); status != 404 {
		t.Errorf("no token: got %d", status)
	}
	b.want(404, "DELETE", "/v1/ports/"+made.ID, nil, nil)
	for _, wrong := range []wire.Port{{Port: 0, Seconds: 1}, {Port: 65536, Seconds: 1}, {Port: 80}, {Port: 80, Seconds: -1}, {Port: 80, Seconds: 1e12}} {
		b.want(400, "POST", "/v1/ports", wrong, nil)
	}
}

func TestTunnelExpires(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	made := b.grant(echo(t), 1)
	conn, status := b.tunnel(made.Token)
	if status != 101 {
		t.Fatalf("got %d", status)
	}
	cut(t, conn)
	if _, status := b.tunnel(made.Token); status != 410 {
		t.Errorf("got %d", status)
	}
}

func TestTunnelToNothing(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	gone := httptest.NewServer(nil)
	_, port, _ := strings.Cut(strings.TrimPrefix(gone.URL, "http://"), ":")
	gone.Close()
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	if _, status := b.tunnel(b.grant(number, 60).Token); status != 409 {
		t.Errorf("got %d", status)
	}
	if resp, _ := b.do("GET", "/v1/tunnel?token=x", nil); resp.StatusCode != 400 {
		t.Errorf("no upgrade: got %d", resp.StatusCode)
	}
}

// The end of the sandbox is the end of its connections.
func TestTunnelEndsWithTheSandbox(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	conn, _ := b.tunnel(b.grant(echo(t), 600).Token)
	b.want(204, "POST", "/v1/shutdown", nil, nil)
	cut(t, conn)
}
