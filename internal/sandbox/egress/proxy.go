package egress

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"orchard/internal/logx"
)

const (
	dialTime        = 10 * time.Second // for a name and a connection, each
	helloTime       = 10 * time.Second // for a client to begin with TLS
	maxOpen         = 256              // connections of one sandbox at a time
	proxyAuthScheme = "Basic "
)

// Options are a Proxy's; Source is required.
type Options struct {
	Source Source
	// Closed are addresses that only a rule which names them opens: Special, and the
	// cluster's own networks. Nil is Special.
	Closed []netip.Prefix
	// Resolve is net.DefaultResolver's when nil, Dial net.Dialer's, Now time.Now.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	Dial    func(ctx context.Context, addr netip.AddrPort) (net.Conn, error)
	Now     func() time.Time
}

// Proxy is an HTTP proxy (CONNECT, and http:// requests) that opens what grants say.
// Its errors have a body that says which rule is missing or over. Safe for concurrent use.
type Proxy struct {
	o    Options
	mu   sync.Mutex
	open map[string]int // connections by sandbox UID
	*metrics
}

// New is a proxy over o.Source.
func New(o Options) *Proxy {
	if o.Closed == nil {
		o.Closed = Special()
	}
	if o.Resolve == nil {
		o.Resolve = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	if o.Dial == nil {
		o.Dial = func(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", addr.String())
		}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Proxy{o: o, open: map[string]int{}, metrics: newMetrics()}
}

// refusal is an answer that is not what the client asked for.
type refusal struct {
	status int
	result string // in metrics
	text   string
}

func (e *refusal) Error() string { return e.text }

func refuse(status int, result, format string, args ...any) error {
	return &refusal{status, result, fmt.Sprintf(format, args...)}
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g, err := p.serve(w, r)
	result := "open"
	if err != nil {
		result = "error"
		var no *refusal
		if errors.As(err, &no) {
			result = no.result
			if no.status == http.StatusProxyAuthRequired {
				w.Header().Set("Proxy-Authenticate", `Basic realm="orchard egress"`)
			}
			http.Error(w, no.text, no.status)
		}
	}
	p.requests.WithLabelValues(result).Inc()
	event := zerolog.Ctx(r.Context()).Info()
	if err != nil {
		event = event.Err(err)
	}
	event.Str(logx.Sandbox, g.Sandbox).Str("method", r.Method).Str("target", target(r)).Str("result", result).Msg("egress")
}

// target is the host and port that r is for; no path, which may hold a secret.
func target(r *http.Request) string {
	if r.Method == http.MethodConnect {
		return r.Host
	}
	return r.URL.Host
}

// serve answers r, or returns a *refusal that is not written yet, or what went wrong
// after it was.
func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) (Grant, error) {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return Grant{}, refuse(http.StatusForbidden, "unknown", "egress: no address to know the client by")
	}
	addr := from.Addr().Unmap()
	g, _, ok := p.o.Source.Lookup(addr)
	if !ok {
		return Grant{}, refuse(http.StatusForbidden, "unknown", "egress: nothing is granted to %s", addr)
	}
	token, ok := proxyToken(r)
	if !ok {
		return g, refuse(http.StatusProxyAuthRequired, "unauthenticated", "egress: use the proxy URL of the sandbox's environment (https_proxy)")
	}
	if !g.holds(token) {
		return g, refuse(http.StatusForbidden, "unauthenticated", "egress: this is another sandbox's proxy URL")
	}
	if !p.enter(g.UID) {
		return g, refuse(http.StatusTooManyRequests, "busy", "egress: sandbox %s has %d connections open, the most allowed", g.Sandbox, maxOpen)
	}
	defer p.leave(g.UID)
	host, port, err := hostPort(r)
	if err != nil {
		return g, err
	}
	to, err := p.route(r.Context(), g, host, port)
	if err != nil {
		return g, err
	}
	ctx, cancel := p.whileOpen(r.Context(), addr, g, to)
	defer cancel()
	if r.Method == http.MethodConnect {
		return g, p.tunnel(ctx, w, to)
	}
	return g, p.forward(ctx, w, r, to)
}

func proxyToken(r *http.Request) (string, bool) {
	text, ok := strings.CutPrefix(r.Header.Get("Proxy-Authorization"), proxyAuthScheme)
	if !ok {
		return "", false
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return "", false
	}
	_, token, ok := strings.Cut(string(raw), ":")
	return token, ok && token != ""
}

func (p *Proxy) enter(uid string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open[uid] >= maxOpen {
		return false
	}
	p.open[uid]++
	p.connections.Inc()
	return true
}

func (p *Proxy) leave(uid string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.connections.Dec()
	if p.open[uid]--; p.open[uid] == 0 {
		delete(p.open, uid)
	}
}
