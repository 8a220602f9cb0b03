package agent_test

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"net"
	"net/http"
	"os/exec"
	"testing"
	"time"

	"orchard/agent/wire"
)

// startProven runs the real program with an identity, and is a client that insists on it.
func startProven(t testing.TB) *box {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	seed, err := wire.IdentitySeed(private, "name")
	if err != nil {
		t.Fatal(err)
	}
	config, err := wire.DialTLS(private, "name")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	b := &box{t: t, socket: dir + "/s"}
	b.cmd = exec.Command(binary(t), "--listen", "unix:"+b.socket, "--uid", testUID, "--keys", wire.FormatPublicKey(public), "--cwd", dir, "--spool", dir+"/spool")
	b.cmd.Env = []string{"ORCHARD_AGENT_IDENTITY=" + wire.FormatSeed(seed)}
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.cmd.Process.Kill(); _ = b.cmd.Wait() })
	b.http = b.client(testUID, private)
	b.http.Transport.(*wire.Transport).Base.(*http.Transport).DialTLSContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", b.socket)
		if err != nil {
			return nil, err
		}
		secured := tls.Client(conn, config)
		return secured, secured.HandshakeContext(ctx)
	}
	b.http.Transport = asHTTPS{b.http.Transport}
	eventually(t, "the agent proves itself", func() bool {
		resp, err := b.http.Get("http://agent/v1/health")
		if err == nil {
			resp.Body.Close()
		}
		return err == nil
	})
	return b
}

// asHTTPS sends what a box asks for over TLS.
type asHTTPS struct{ http.RoundTripper }

func (a asHTTPS) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Scheme = "https"
	return a.RoundTripper.RoundTrip(r)
}

// An agent with an identity answers nobody who does not let it prove that, and no TLS that is old.
func TestOnlyTLSWithAnIdentity(t *testing.T) {
	t.Parallel()
	b := startProven(t)
	b.sh("test -z \"$ORCHARD_AGENT_IDENTITY\"")
	base := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", b.socket)
	}}
	defer base.CloseIdleConnections()
	resp, err := (&http.Client{Transport: base}).Get("http://agent/v1/health")
	if err == nil {
		resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("plainly: %s", resp.Status)
		}
	}
	conn, err := net.Dial("unix", b.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}).Handshake(); err == nil {
		t.Error("it speaks TLS 1.2")
	}
}

// BenchmarkTLS is a command over a kept connection, and a connection made and proven, with
// an identity against without.
func BenchmarkTLS(b *testing.B) {
	var each [2][2]time.Duration
	for i, start := range []func() *box{func() *box { return startProgram(b, binary(b), nil) }, func() *box { return startProven(b) }} {
		box := start()
		base := func() *http.Transport {
			if s, ok := box.http.Transport.(asHTTPS); ok {
				return s.RoundTripper.(*wire.Transport).Base.(*http.Transport)
			}
			return box.http.Transport.(*wire.Transport).Base.(*http.Transport)
		}()
		const times = 200
		began := time.Now()
		for range times {
			box.run(wire.ExecRequest{Argv: []string{"/bin/true"}})
		}
		each[i][0] = time.Since(began) / times
		began = time.Now()
		for range times {
			base.CloseIdleConnections()
			box.want(200, "GET", "/v1/health", nil, nil)
		}
		each[i][1] = time.Since(began) / times
	}
	for b.Loop() { // what is compared was timed above
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(each[1][0])/float64(each[0][0]), "x-plain-exec")
	b.ReportMetric(float64(each[1][1]-each[0][1])/1e3, "µs-handshake")
}
