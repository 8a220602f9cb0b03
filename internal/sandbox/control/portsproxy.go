package control

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	"orchard/agent/wire"
)

// portPrefix is where ports are served: /p/{sandbox}/{token}/… It needs no API key, and
// no router sees it: a path goes to the program as it was sent.
const portPrefix = "/p/"

// anyToken in a path's place of the token says that it comes in the X-Port-Token header
// or the port_token parameter, for clients that put no secret into paths.
const anyToken = "_"

// visit is a request to a port.
type visit struct {
	sandbox, token string
	path           string // of the program, escaped as it was sent
	query          string
	prefix         string // what the program's "/" is to the client
}

// parseVisit reads a request whose path begins with portPrefix.
func parseVisit(r *http.Request) visit {
	parts := strings.SplitN(strings.TrimPrefix(r.URL.EscapedPath(), portPrefix), "/", 3)
	for len(parts) < 3 {
		parts = append(parts, "")
	}
	v := visit{sandbox: parts[0], token: parts[1], path: "/" + parts[2], query: r.URL.RawQuery}
	v.prefix = portPrefix + v.sandbox + "/" + v.token
	if v.token != anyToken {
		return v
	}
	v.token = r.Header.Get("X-Port-Token")
	var rest []string
	for _, part := range strings.Split(v.query, "&") {
		if given, ok := strings.CutPrefix(part, "port_token="); !ok {
			rest = append(rest, part)
		} else if v.token == "" {
			v.token = given
		}
	}
	v.query = strings.Join(rest, "&")
	return v
}

// portal passes a request to the program that listens on a port of a sandbox.
func (s *Service) portal(w http.ResponseWriter, r *http.Request) {
	v := parseVisit(r)
	v.prefix = s.prefixOf(r) + v.prefix
	if rec, ok := w.(*recorder); ok {
		rec.route, rec.sandbox = portPrefix, v.sandbox
	}
	err := s.visit(w, r, v)
	if err != nil && r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // as in handle
	}
	if err != nil {
		contain(w.Header())
		writeFailure(w, w.Header().Get("X-Request-ID"), err)
	}
}

func (s *Service) visit(w http.ResponseWriter, r *http.Request, v visit) error {
	if v.token == "" {
		return fail(http.StatusUnauthorized, "a port's token is missing")
	}
	// Whoever has a token may use its port: only the agent knows which tokens are good, so
	// this much is done for anybody, and nothing else with it.
	ctx := context.WithValue(r.Context(), callerKey{}, caller{name: "port", admin: true})
	st, err := s.look(ctx, v.sandbox)
	var f *failure
	if errors.As(err, &f) && f.reason != "" && f.reason != ReasonDeleted {
		f.status = http.StatusGone
	}
	if err != nil {
		return err
	}
	a, err := s.agent(ctx, v.sandbox)
	if err != nil { // a stranger is not waited for
		return away(5, "Sandbox %s agent not ready", v.sandbox)
	}
	if r.Method == http.MethodOptions && r.Header.Get("Origin") == "null" && r.Header.Get("Access-Control-Request-Method") != "" {
		return preflight(w, r)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(s.drain, func() {
		if r.Header.Get("Upgrade") != "" {
			cancel() // others end by themselves
		}
	})
	defer stop()
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return a.tunnel(ctx, v.token) },
		// A connection is one grant's, and is looked at again for each request.
		DisableKeepAlives: true, DisableCompression: true,
	}
	var refused error
	proxy := &httputil.ReverseProxy{
		Rewrite:        func(p *httputil.ProxyRequest) { v.rewrite(p) },
		Transport:      transport,
		FlushInterval:  -1,
		ModifyResponse: func(resp *http.Response) error { v.contain(resp, r); return nil },
		ErrorHandler:   func(_ http.ResponseWriter, _ *http.Request, err error) { refused = err },
		ErrorLog:       log.New(io.Discard, "", 0),
	}
	proxy.ServeHTTP(w, r.WithContext(ctx))
	if refused != nil {
		return s.visitFault(ctx, st, refused)
	}
	return nil
}

// visitFault is why a program was not reached.
func (s *Service) visitFault(ctx context.Context, st State, err error) error {
	var refusal *agentError
	if errors.As(err, &refusal) {
		switch refusal.wire.Code {
		case wire.CodeBadToken:
			return fail(http.StatusUnauthorized, "this is no port's token")
		case wire.CodeGone:
			return fail(http.StatusGone, "%s", refusal.wire.Detail)
		case wire.CodeRefused:
			return fail(http.StatusBadGateway, "%s", refusal.wire.Detail)
		}
		return fromAgent(err, "Sandbox "+st.Spec.ID+" not found")
	}
	if end := s.endOf(ctx, st); end != nil {
		f := gone(end.(*ended).State)
		f.status = http.StatusGone
		return f
	}
	return fail(http.StatusBadGateway, "the program on the port did not answer: %v", err)
}

// rewrite makes the request the program's: as if it came from the same machine.
func (v visit) rewrite(p *httputil.ProxyRequest) {
	path, err := url.PathUnescape(v.path)
	if err != nil {
		path = v.path
	}
	p.Out.URL = &url.URL{Scheme: "http", Host: "localhost", Path: path, RawPath: v.path, RawQuery: v.query}
	p.Out.Host = "localhost"
	p.SetXForwarded()
	p.Out.Header.Set("X-Forwarded-Proto", scheme(p.In))
	p.Out.Header.Set("X-Forwarded-Prefix", v.prefix)
	// The program is nobody's to trust with what is the service's.
	for _, name := range []string{"X-API-Key", "X-Port-Token", "Referer"} {
		p.Out.Header.Del(name)
	}
	v.cookiesIn(p.Out.Header)
}

// tunnel is a connection to the port that a token stands for.
func (a agentClient) tunnel(ctx context.Context, token string) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	late := time.AfterFunc(answerTime, cancel)
	defer late.Stop()
	resp, err := a.do(ctx, http.MethodGet, "/v1/tunnel", url.Values{"token": {token}}, nil, func(r *http.Request) {
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", wire.TunnelProtocol)
	})
	if err != nil {
		return nil, err
	}
	conn, ok := resp.Body.(io.ReadWriteCloser)
	if !ok || resp.StatusCode != http.StatusSwitchingProtocols {
		resp.Body.Close()
		return nil, errors.New("the agent does not upgrade")
	}
	return tunnelConn{conn}, nil
}

// tunnelConn is an upgraded connection to an agent. It has no deadlines: closing it ends
// what waits.
type tunnelConn struct{ io.ReadWriteCloser }

var _ net.Conn = tunnelConn{}

func (tunnelConn) LocalAddr() net.Addr              { return &net.UnixAddr{Name: "tunnel", Net: "unix"} }
func (tunnelConn) RemoteAddr() net.Addr             { return &net.UnixAddr{Name: "port", Net: "unix"} }
func (tunnelConn) SetDeadline(time.Time) error      { return nil }
func (tunnelConn) SetReadDeadline(time.Time) error  { return nil }
func (tunnelConn) SetWriteDeadline(time.Time) error { return nil }
