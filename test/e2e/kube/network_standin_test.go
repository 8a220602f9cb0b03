package kube_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"
)

// StandIn plays a machine that a sandbox may or may not reach: an address of this machine,
// in a range that real networks do not use, where servers say hello and remember who came.
type StandIn struct {
	t    testing.TB
	addr string
	mu   sync.Mutex
	came map[netip.Addr]int
}

// NewStandIn is at addr, one of 198.18.254.0/24 that no other test uses, until the test is over.
func NewStandIn(t testing.TB, addr string) *StandIn {
	t.Helper()
	ip := func(verb string) error {
		out, err := exec.CommandContext(context.Background(), "ip", "address", verb, addr+"/32", "dev", "lo").CombinedOutput()
		if err != nil {
			return errors.Join(err, errors.New(string(out)))
		}
		return nil
	}
	_ = ip("delete") // what a killed run left
	if err := ip("add"); err != nil {
		t.Fatalf("give this machine the address %s: %v", addr, err)
	}
	t.Cleanup(func() {
		if err := ip("delete"); err != nil {
			t.Error(err)
		}
	})
	return &StandIn{t: t, addr: addr, came: map[netip.Addr]int{}}
}

// At is HOST:PORT of a port of it.
func (s *StandIn) At(port int) string { return net.JoinHostPort(s.addr, strconv.Itoa(port)) }

func (s *StandIn) meet(addr net.Addr) {
	from, err := netip.ParseAddrPort(addr.String())
	if err != nil {
		s.t.Error(err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.came[from.Addr().Unmap()]++
}

// Met is how often somebody at addr came.
func (s *StandIn) Met(addr string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.came[netip.MustParseAddr(addr)]
}

func (s *StandIn) listen(port int) net.Listener {
	s.t.Helper()
	l, err := net.Listen("tcp", s.At(port))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { l.Close() })
	return greeted{l, s}
}

// greeted remembers whose connections it accepts.
type greeted struct {
	net.Listener
	by *StandIn
}

func (g greeted) Accept() (net.Conn, error) {
	c, err := g.Listener.Accept()
	if err == nil {
		g.by.meet(c.RemoteAddr())
	}
	return c, err
}

// TCP says hello on a port.
func (s *StandIn) TCP(port int) *StandIn {
	s.t.Helper()
	l := s.listen(port)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "hello\n")
			c.Close()
		}
	}()
	return s
}

// UDP says hello to each datagram on a port.
func (s *StandIn) UDP(port int) *StandIn {
	s.t.Helper()
	c, err := net.ListenPacket("udp", s.At(port))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	go func() {
		buffer := make([]byte, 1500)
		for {
			_, from, err := c.ReadFrom(buffer)
			if err != nil {
				return
			}
			s.meet(from)
			_, _ = c.WriteTo([]byte("hello\n"), from)
		}
	}()
	return s
}

// certificate is one for names and an address, made by itself.
func certificate(t testing.TB, addr string, names ...string) (raw []byte, key *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	made := x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "stand-in"}, DNSNames: names, IPAddresses: []net.IP{net.ParseIP(addr)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	raw, err = x509.CreateCertificate(rand.Reader, &made, &made, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return raw, key
}

// HTTPS serves names on port 443: /hello says hello, /stream goes on until either side
// ends. It returns the certificate to trust, in PEM, and a count of streams that are open.
func (s *StandIn) HTTPS(names ...string) (trust []byte, streams func() int) {
	s.t.Helper()
	raw, key := certificate(s.t, s.addr, names...)
	var mu sync.Mutex
	open := 0
	count := func(n int) int { mu.Lock(); defer mu.Unlock(); open += n; return open }
	mux := http.NewServeMux()
	mux.HandleFunc("/hello", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello\n") })
	mux.HandleFunc("/stream", func(w http.ResponseWriter, r *http.Request) {
		count(1)
		defer count(-1)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, "hello\n"); err != nil {
				return
			}
			w.(http.Flusher).Flush()
			<-tick.C
		}
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: patience, TLSConfig: &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{raw}, PrivateKey: key}}}}
	l := s.listen(443)
	go func() { _ = server.ServeTLS(l, "", "") }()
	s.t.Cleanup(func() { server.Close() })
	var out bytes.Buffer
	if err := pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: raw}); err != nil {
		s.t.Fatal(err)
	}
	return out.Bytes(), func() int { return count(0) }
}
