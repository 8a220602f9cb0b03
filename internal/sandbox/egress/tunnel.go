package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"time"
)

// tunnel joins the client to w until either ends or ctx does. A way by name carries TLS
// for that very name: the address may be shared by names that no rule has.
func (p *Proxy) tunnel(ctx context.Context, w http.ResponseWriter, to way) error {
	far, err := p.dial(ctx, to)
	if err != nil {
		return err
	}
	defer far.Close()
	hijacker, ok := w.(http.Hijacker)
	if !ok {
		return refuse(http.StatusHTTPVersionNotSupported, "malformed", "egress: CONNECT needs HTTP/1.1")
	}
	near, buffered, err := hijacker.Hijack()
	if err != nil {
		return fmt.Errorf("egress: take over the connection: %w", err)
	}
	defer near.Close()
	stop := context.AfterFunc(ctx, func() { near.Close(); far.Close() })
	defer stop()
	if _, err := io.WriteString(near, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return fmt.Errorf("egress: answer CONNECT: %w", err)
	}
	var client io.Reader = buffered.Reader
	if to.byName {
		_ = near.SetReadDeadline(time.Now().Add(helloTime))
		name, hello, err := readHello(buffered.Reader)
		if err != nil {
			return fmt.Errorf("egress: connection to %s does not begin with TLS: %w", to.host, err)
		}
		if name != to.host {
			return fmt.Errorf("egress: connection to %s asks for another name, %q", to.host, name)
		}
		_ = near.SetReadDeadline(time.Time{})
		client = io.MultiReader(hello, buffered.Reader)
	}
	return p.join(ctx, near, far, client)
}

// join copies both ways until both are done, or ctx is.
func (p *Proxy) join(ctx context.Context, near, far net.Conn, client io.Reader) error {
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		n, _ := io.Copy(far, client) // its end is the connection's, whatever it was
		p.bytes.WithLabelValues("out").Add(float64(n))
		closeWrite(far)
	}()
	n, _ := io.Copy(near, far)
	p.bytes.WithLabelValues("in").Add(float64(n))
	closeWrite(near)
	select {
	case <-sent:
	case <-ctx.Done():
		near.Close()
		far.Close()
		<-sent
	}
	if ctx.Err() != nil {
		return errors.New("egress: cut: the rule is over or was taken back")
	}
	return nil
}

func closeWrite(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // the other side may have gone
	} else {
		c.Close()
	}
}

// forward sends an http:// request on. The target sees the host that the rule was
// checked with, whatever the client's Host header says.
func (p *Proxy) forward(ctx context.Context, w http.ResponseWriter, r *http.Request, to way) error {
	far, err := p.dial(ctx, to)
	if err != nil {
		return err
	}
	defer far.Close()
	stop := context.AfterFunc(ctx, func() { far.Close() })
	defer stop()
	var failed error
	proxy := &httputil.ReverseProxy{
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.Out.Host = pr.In.URL.Host
			pr.Out.Header.Del("Proxy-Authorization")
			pr.Out.Header["X-Forwarded-For"] = nil // the target has no business with addresses in here
		},
		Transport: &http.Transport{
			DialContext:       func(context.Context, string, string) (net.Conn, error) { return far, nil },
			DisableKeepAlives: true, DisableCompression: true,
		},
		FlushInterval: -1,
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) {
			failed = refuse(http.StatusBadGateway, "unreachable", "egress: %s: %v", to.host, err)
		},
	}
	proxy.ServeHTTP(w, r.WithContext(ctx))
	return failed
}
