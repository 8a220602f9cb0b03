package envctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"orchard/envctl/client"
	"orchard/internal/exit"
)

func (p *Program) port() *cli.Command {
	return &cli.Command{
		Name: "port", Usage: "reach what a sandbox serves, over HTTP and WebSocket",
		Subcommands: []*cli.Command{
			{
				Name: "expose", Usage: "print a URL that leads to a port, good for a while; it is a secret", ArgsUsage: "ID PORT",
				Flags:  []cli.Flag{&cli.DurationFlag{Name: "ttl", Value: time.Hour, Usage: "good for `TIME`"}},
				Action: p.expose,
			},
			{
				Name: "forward", Usage: "lead a port of this machine to it, until Ctrl-C", ArgsUsage: "ID PORT",
				Description: "It listens on loopback only, and passes HTTP and WebSocket on.",
				Flags:       []cli.Flag{&cli.IntFlag{Name: "listen", Aliases: []string{"L"}, Usage: "listen on this local `PORT`; default: any free one"}},
				Action:      p.forwardPort,
			},
			{Name: "ls", Usage: "list the ports that are exposed", ArgsUsage: "ID", Action: p.portList},
			{Name: "revoke", Usage: "end what was exposed, and cut its connections", ArgsUsage: "ID GRANT...", Action: p.revoke},
		},
	}
}

func portNumber(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > 65535 {
		return 0, exit.Configf("%q is no port from 1 to 65535", s)
	}
	return n, nil
}

func (p *Program) expose(c *cli.Context) error {
	args, err := want(c, 2, 2)
	if err != nil {
		return err
	}
	n, err := portNumber(args[1])
	if err != nil {
		return err
	}
	return p.with(c.Context, func(sdk *client.Client) error {
		grant, err := sdk.Sandbox(args[0]).Expose(c.Context, n, c.Duration("ttl"))
		if err != nil {
			return err
		}
		return p.print(grant, func(w io.Writer) { fmt.Fprintln(w, grant.URL) })
	})
}

func (p *Program) portList(c *cli.Context) error {
	args, err := want(c, 1, 1)
	if err != nil {
		return err
	}
	return p.with(c.Context, func(sdk *client.Client) error {
		all, err := sdk.Sandbox(args[0]).Ports(c.Context)
		if err != nil {
			return err
		}
		return p.print(listed(all), func(w io.Writer) {
			rows := make([][]string, len(all))
			for i, g := range all {
				rows[i] = []string{g.ID, strconv.Itoa(g.Port), short(time.Until(g.Expires.Time)), strconv.Itoa(g.Open)}
			}
			table(w, "GRANT PORT EXPIRES OPEN", rows)
		})
	})
}

func (p *Program) revoke(c *cli.Context) error {
	args, err := want(c, 2, -1)
	if err != nil {
		return err
	}
	return p.with(c.Context, func(sdk *client.Client) error {
		return each(args[1:], func(id string) error { return sdk.Sandbox(args[0]).Revoke(c.Context, id) })
	})
}

// forwardTime is how long a grant of a forwarded port is good; it is revoked at the end.
const forwardTime = 24 * time.Hour

// forwardPort serves a port of this machine until Ctrl-C.
func (p *Program) forwardPort(c *cli.Context) error {
	args, err := want(c, 2, 2)
	if err != nil {
		return err
	}
	n, err := portNumber(args[1])
	if err != nil {
		return err
	}
	return p.with(c.Context, func(sdk *client.Client) error {
		box := sdk.Sandbox(args[0])
		grant, err := box.Expose(c.Context, n, forwardTime)
		if err != nil {
			return err
		}
		defer func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Context), 10*time.Second)
			defer cancel()
			if err := box.Revoke(ctx, grant.ID); err != nil {
				p.say("envctl: %v", err)
			}
		}()
		// The service's address as we have it: what it calls itself may not lead there.
		to, err := url.Parse(sdk.URL() + "/p/" + url.PathEscape(box.ID()) + "/_")
		if err != nil {
			return err
		}
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(c.Int("listen"))))
		if err != nil {
			return fmt.Errorf("--listen: %w", err)
		}
		if err := p.print(map[string]string{"url": "http://" + l.Addr().String()}, func(w io.Writer) { fmt.Fprintf(w, "http://%s\n", l.Addr()) }); err != nil {
			return err
		}
		return serveUntil(c.Context, l, tunnel(to, grant.Token))
	})
}

// tunnel passes requests on to a port of a sandbox. The token goes in a header, and the
// program sees the path that was asked for.
func tunnel(to *url.URL, token string) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.URL.Path, r.Out.URL.RawPath = to.Path+r.In.URL.Path, to.EscapedPath()+r.In.URL.EscapedPath()
			r.Out.Header.Set("X-Port-Token", token)
		},
		ModifyResponse: func(r *http.Response) error {
			// A program that leads to its own "/x" is told so by the service as "/p/ID/_/x".
			if at := r.Header.Get("Location"); strings.HasPrefix(at, to.Path+"/") {
				r.Header.Set("Location", strings.TrimPrefix(at, to.Path))
			}
			return nil
		},
	}
}

// serveUntil serves until ctx is over.
func serveUntil(ctx context.Context, l net.Listener, h http.Handler) error {
	s := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	defer context.AfterFunc(ctx, func() { s.Close() })()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	}
	return nil // Ctrl-C is how one leaves
}
