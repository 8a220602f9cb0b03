package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// scene is a proxy, and a web server that answers for example.com with TLS. Sandboxes
// are addresses of the loopback network.
type scene struct {
	*testing.T
	store   Store
	proxy   *Proxy
	at      string // the proxy's address
	tls     *httptest.Server
	lookups atomic.Int32
}

var (
	sandboxAddr  = netip.MustParseAddr("127.0.0.2")
	neighbour    = netip.MustParseAddr("127.0.0.3")
	metadataAddr = "127.0.0.9"
)

func newScene(t *testing.T) *scene {
	s := &scene{T: t}
	s.tls = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "host ", r.Host) }))
	s.tls.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes that the proxy cuts
	s.tls.StartTLS()
	t.Cleanup(s.tls.Close)
	s.proxy = New(Options{
		Source: &s.store,
		Closed: []netip.Prefix{netip.MustParsePrefix(metadataAddr + "/32")},
		Resolve: func(_ context.Context, host string) ([]netip.Addr, error) {
			s.lookups.Add(1)
			switch host {
			case "example.com", "www.example.com":
				return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
			case "rebound.example.com":
				return []netip.Addr{netip.MustParseAddr(metadataAddr)}, nil
			}
			return nil, errors.New("no such host")
		},
	})
	server := httptest.NewServer(s.proxy)
	t.Cleanup(server.Close)
	s.at = server.Listener.Addr().String()
	return s
}

func (s *scene) port() uint16 { return s.tls.Listener.Addr().(*net.TCPAddr).AddrPort().Port() }

// grant gives the sandbox rules; each call is a later generation.
func (s *scene) grant(rules ...Rule) {
	g, _, _ := s.store.Lookup(sandboxAddr)
	s.store.Set(sandboxAddr, Grant{Sandbox: "one", UID: "u-1", Generation: g.Generation + 1, TokenSum: TokenSum("token"), Rules: rules})
}

func (s *scene) name(host string) Rule { return Rule{Domain: host, Ports: []uint16{s.port()}} }

// dial is a connection to the proxy from a sandbox's address.
func (s *scene) dial(from netip.Addr) net.Conn {
	s.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: from.AsSlice()}}
	c, err := d.DialContext(s.Context(), "tcp", s.at)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	return c
}

// client is a sandbox's web client with a proxy URL.
func (s *scene) client(from netip.Addr, token string) *http.Client {
	roots := x509.NewCertPool()
	roots.AddCert(s.tls.Certificate())
	proxy := &url.URL{Scheme: "http", Host: s.at}
	if token != "" {
		proxy.User = url.UserPassword("one", token)
	}
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: from.AsSlice()}}
	return &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
		Proxy: http.ProxyURL(proxy), DialContext: d.DialContext, TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true}}
}

// get is the body of an answer, or the error's text.
func (s *scene) get(c *http.Client, target string) string {
	resp, err := c.Get(target)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(resp.StatusCode, " ", string(b))
}

func TestProxyByName(t *testing.T) {
	s := newScene(t)
	target := fmt.Sprintf("https://example.com:%d/x", s.port())
	mine := s.client(sandboxAddr, "token")
	want := func(what, got, part string) {
		t.Helper()
		if !strings.Contains(got, part) {
			t.Errorf("%s: %q, want %q in it", what, got, part)
		}
	}
	want("nothing granted", s.get(mine, target), "Forbidden")
	s.grant(s.name("example.com"), s.name("rebound.example.com"))
	want("granted", s.get(mine, target), fmt.Sprintf("200 host example.com:%d", s.port()))
	want("upper case and a final dot", s.get(mine, fmt.Sprintf("https://EXAMPLE.com:%d/", s.port())), "200 host")
	want("no token", s.get(s.client(sandboxAddr, ""), target), "Proxy Authentication Required")
	want("wrong token", s.get(s.client(sandboxAddr, "tokem"), target), "Forbidden")
	want("a neighbour with the token", s.get(s.client(neighbour, "token"), target), "Forbidden")
	before := s.lookups.Load()
	want("another name", s.get(mine, fmt.Sprintf("https://www.example.com:%d/", s.port())), "Forbidden")
	want("another port", s.get(mine, "https://example.com:1/"), "Forbidden")
	want("its address", s.get(mine, fmt.Sprintf("https://127.0.0.1:%d/", s.port())), "Forbidden")
	if n := s.lookups.Load() - before; n != 0 {
		t.Errorf("%d names were looked up that no rule has", n)
	}
	want("a name for a private address", s.get(mine, fmt.Sprintf("http://rebound.example.com:%d/", s.port())), "403 egress: rebound.example.com is at 127.0.0.9, a private address")
	want("not a proxy request", s.get(&http.Client{Transport: &http.Transport{DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: sandboxAddr.AsSlice()}}).DialContext}}, "http://"+s.at+"/x"), "407")
	if n := testutil.ToFloat64(s.proxy.requests.WithLabelValues("special")); n != 1 {
		t.Errorf("%v special ones counted", n)
	}
}

// connect asks for a tunnel and gives the connection once it stands.
func (s *scene) connect(target string) (net.Conn, *bufio.Reader) {
	s.Helper()
	c := s.dial(sandboxAddr)
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\nProxy-Authorization: Basic b25lOnRva2Vu\r\n\r\n", target, target)
	r := bufio.NewReader(c)
	resp, err := http.ReadResponse(r, &http.Request{Method: http.MethodConnect})
	if err != nil || resp.StatusCode != 200 {
		s.Fatalf("CONNECT %s: %v, %v", target, resp, err)
	}
	return c, r
}

// A tunnel by name carries TLS for that name and nothing else.
func TestProxyHello(t *testing.T) {
	s := newScene(t)
	s.grant(s.name("example.com"))
	target := fmt.Sprintf("example.com:%d", s.port())
	c, _ := s.connect(target)
	err := tls.Client(c, &tls.Config{ServerName: "www.example.com", InsecureSkipVerify: true}).HandshakeContext(t.Context())
	if err == nil {
		t.Error("a tunnel for one name carried another")
	}
	c, r := s.connect(target)
	fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: other\r\n\r\n")
	if line, err := r.ReadString('\n'); err == nil {
		t.Errorf("no TLS, and the answer is %q", line)
	}
}

// echo is a server that sends back what it gets.
func echo(t *testing.T) netip.AddrPort {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); c.Close() }()
		}
	}()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

func (s *scene) says(c net.Conn, r *bufio.Reader) error {
	if _, err := io.WriteString(c, "ping\n"); err != nil {
		return err
	}
	line, err := r.ReadString('\n')
	if err == nil && line != "ping\n" {
		s.Errorf("echo of %q", line)
	}
	return err
}

// An open tunnel lives as long as its rule: other rules may come and go, time and
// taking it back end it.
func TestProxyCut(t *testing.T) {
	for name, end := range map[string]func(s *scene, r Rule){
		"taken back":   func(s *scene, _ Rule) { s.grant() },
		"sandbox gone": func(s *scene, _ Rule) { s.store.Drop(sandboxAddr, "u-1") },
		"address reused": func(s *scene, _ Rule) {
			s.store.Set(sandboxAddr, Grant{UID: "u-2", Rules: []Rule{{CIDR: "0.0.0.0/0"}}})
		},
		"its time is up": func(s *scene, r Rule) { r.UntilUS = time.Now().Add(50 * time.Millisecond).UnixMicro(); s.grant(r) },
		"already over":   func(s *scene, r Rule) { r.UntilUS = 1; s.grant(r) },
		"given another end": func(s *scene, r Rule) {
			r.UntilUS = time.Now().Add(time.Hour).UnixMicro()
			s.grant(r)
			r.UntilUS = 1
			s.grant(r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			target := echo(t)
			rule := Rule{CIDR: "127.0.0.1", Ports: []uint16{target.Port()}}
			s.grant(rule)
			c, r := s.connect(target.String())
			if err := s.says(c, r); err != nil {
				t.Fatal(err)
			}
			s.grant(rule, s.name("example.com"))
			s.store.Drop(sandboxAddr, "u-0")
			if err := s.says(c, r); err != nil {
				t.Fatalf("cut when another rule came: %v", err)
			}
			end(s, rule)
			if line, err := r.ReadString('\n'); err == nil || errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "timeout") {
				t.Errorf("still open: %q, %v", line, err)
			}
		})
	}
}

func TestProxyPlain(t *testing.T) {
	s := newScene(t)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, r.Host, r.URL.Path, r.Header.Get("Proxy-Authorization"), r.Header.Get("X-Forwarded-For"))
	}))
	defer web.Close()
	port := web.Listener.Addr().(*net.TCPAddr).Port
	s.grant(Rule{Domain: "example.com", Ports: []uint16{uint16(port)}})
	c := s.client(sandboxAddr, "token")
	host := fmt.Sprintf("example.com:%d", port)
	if got := s.get(c, "http://"+host+"/a"); got != "200 "+host+" /a  \n" {
		t.Errorf("got %q", got)
	}
	raw := s.dial(sandboxAddr)
	fmt.Fprintf(raw, "GET http://%s/a HTTP/1.1\r\nHost: internal.example\r\nProxy-Authorization: Basic b25lOnRva2Vu\r\n\r\n", host)
	resp, err := http.ReadResponse(bufio.NewReader(raw), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); err != nil || !strings.HasPrefix(string(b), host+" ") {
		t.Errorf("a Host header chose the site: %q, %v", b, err)
	}
}

func TestProxyBusy(t *testing.T) {
	s := newScene(t)
	target := echo(t)
	s.grant(Rule{CIDR: "127.0.0.1"})
	for range maxOpen {
		s.connect(target.String())
	}
	if got := s.get(s.client(sandboxAddr, "token"), fmt.Sprintf("http://%s/", target)); !strings.HasPrefix(got, "429") {
		t.Errorf("got %q", got)
	}
}
