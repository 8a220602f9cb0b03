package egress

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// way is where a request goes: the host it names and the addresses that may be dialled.
type way struct {
	host   string
	port   uint16
	byName bool
	addrs  []netip.Addr
}

// hostPort is what r asks for.
func hostPort(r *http.Request) (host string, port uint16, err error) {
	text, fallback := r.Host, ""
	if r.Method != http.MethodConnect {
		if r.URL.Scheme != "http" || r.URL.Host == "" {
			return "", 0, refuse(http.StatusBadRequest, "malformed", "egress: this is a proxy: it takes CONNECT, and requests for a whole http:// URL")
		}
		text, fallback = r.URL.Host, ":80"
	}
	host, number, err := net.SplitHostPort(text)
	if err != nil {
		host, number, err = net.SplitHostPort(text + fallback)
	}
	n, convErr := strconv.ParseUint(number, 10, 16)
	if err != nil || convErr != nil || n == 0 || host == "" {
		return "", 0, refuse(http.StatusBadRequest, "malformed", "egress: %q is not HOST:PORT", text)
	}
	return strings.TrimSuffix(strings.ToLower(host), "."), uint16(n), nil
}

// route finds a way to host:port that g opens now.
func (p *Proxy) route(ctx context.Context, g Grant, host string, port uint16) (way, error) {
	w := way{host: host, port: port}
	closed := func() error {
		return refuse(http.StatusForbidden, "closed", "egress: %s is not open to sandbox %s: no rule for it, or its time is up",
			net.JoinHostPort(host, strconv.Itoa(int(port))), g.Sandbox)
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		_, ok := g.ByAddr(addr.Unmap(), port, p.o.Now(), p.o.Closed)
		if !ok || addr.Zone() != "" {
			return w, closed()
		}
		w.addrs = []netip.Addr{addr.Unmap()}
		return w, nil
	}
	// A name that no rule has is not even looked up: a question to a name server can
	// carry what the sandbox knows.
	if _, ok := g.ByName(host, port, p.o.Now()); !ok {
		return w, closed()
	}
	lookup, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	addrs, err := p.o.Resolve(lookup, host)
	if err != nil {
		return w, refuse(http.StatusBadGateway, "unresolved", "egress: %s: %v", host, err)
	}
	w.byName = true
	var special netip.Addr
	for _, addr := range addrs {
		addr = addr.Unmap()
		_, listed := g.ByAddr(addr, port, p.o.Now(), p.o.Closed)
		if !listed && slices.ContainsFunc(p.o.Closed, func(c netip.Prefix) bool { return c.Contains(addr) }) {
			special = addr
			continue
		}
		w.addrs = append(w.addrs, addr)
	}
	if len(w.addrs) == 0 {
		return w, refuse(http.StatusForbidden, "special", "egress: %s is at %s, a private address: that needs a rule with a cidr as well", host, special)
	}
	return w, nil
}

// allowed is until when a request that took w may go on under g.
func (p *Proxy) allowed(g Grant, w way) (until time.Time, ok bool) {
	if w.byName {
		return g.ByName(w.host, w.port, p.o.Now())
	}
	return g.ByAddr(w.addrs[0], w.port, p.o.Now(), p.o.Closed)
}

// whileOpen is a context that ends when w is no longer open to the sandbox at addr: its
// time is up, another grant holds, or the address is another's.
func (p *Proxy) whileOpen(parent context.Context, addr netip.Addr, g Grant, w way) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	go func() {
		defer cancel()
		for {
			now, changed, ok := p.o.Source.Lookup(addr)
			if !ok || now.UID != g.UID {
				return
			}
			until, ok := p.allowed(now, w)
			if !ok {
				return
			}
			var over <-chan time.Time
			if !until.IsZero() {
				over = time.After(until.Sub(p.o.Now()))
			}
			select {
			case <-over:
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, cancel
}

// dial connects to the first address of w that answers.
func (p *Proxy) dial(ctx context.Context, w way) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	var last error
	for _, addr := range w.addrs {
		c, err := p.o.Dial(ctx, netip.AddrPortFrom(addr, w.port))
		if err == nil {
			return c, nil
		}
		last = err
	}
	return nil, refuse(http.StatusBadGateway, "unreachable", "egress: %s: %v", w.host, last)
}
