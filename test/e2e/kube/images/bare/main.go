// Command bare is the only program of the image without a shell. It does what tests of
// a network need: it is the one that is reached for, or the one that reaches out.
//
//	bare sleep            until it is told to end
//	bare listen ADDRESS   answers every TCP connection with "hello"
//	bare dial ADDRESS     exits with 0 when a connection says "hello", 3 when it is refused, 4 when nothing answers
//	bare connect ADDRESS  the same, but says nothing and expects nothing to be said
//	bare udp ADDRESS      sends one datagram, and exits with 0 when another comes back
//	bare fetch URL PROXY  prints what is at a URL as it comes, through the proxy of the environment, or PROXY;
//	                      exits with 5 and what the proxy says when that refuses, 4 when it ends too early
//	bare resolve NAME     prints the addresses of a name
//	bare exit CODE        prints "bare" and exits with CODE
//	bare env              prints its environment
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// patience is how long an answer may take before nothing is taken to answer.
const patience = 5 * time.Second

// hello is what a server says.
const hello = "hello\n"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	code, err := run(ctx, append(os.Args[1:], "", "", "")[:3])
	if err != nil {
		fmt.Fprintln(os.Stderr, "bare:", err)
	}
	os.Exit(code)
}

func run(ctx context.Context, args []string) (int, error) {
	var err error
	switch args[0] {
	case "sleep":
		<-ctx.Done()
	case "env":
		fmt.Println(strings.Join(os.Environ(), "\n"))
	case "exit":
		code, err := strconv.Atoi(args[1])
		fmt.Print("bare")
		return code, err
	case "listen":
		err = listen(ctx, args[1])
	case "dial":
		return dial(ctx, "tcp", args[1], true)
	case "connect":
		return dial(ctx, "tcp", args[1], false)
	case "udp":
		return dial(ctx, "udp", args[1], true)
	case "fetch":
		return fetch(ctx, args[1], args[2])
	case "resolve":
		ctx, stop := context.WithTimeout(ctx, patience)
		defer stop()
		var addrs []string
		if addrs, err = net.DefaultResolver.LookupHost(ctx, args[1]); err == nil {
			fmt.Println(strings.Join(addrs, "\n"))
		}
	default:
		err = fmt.Errorf("%q is no command of mine", args[0])
	}
	if err != nil {
		return 1, err
	}
	return 0, nil
}

func listen(ctx context.Context, address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { l.Close() })
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			io.WriteString(conn, hello)
		}()
	}
}

func dial(ctx context.Context, network, address string, greets bool) (int, error) {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return unreached(err), err
	}
	defer conn.Close()
	if !greets {
		return 0, nil
	}
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return 1, err
	}
	if network == "udp" {
		if _, err := io.WriteString(conn, "hello?"); err != nil {
			return unreached(err), err
		}
	}
	said := make([]byte, len(hello))
	if _, err := io.ReadFull(conn, said); err != nil || string(said) != hello {
		return unreached(err), fmt.Errorf("%s said %q: %w", address, said, err)
	}
	fmt.Print(string(said))
	return 0, nil
}

func unreached(err error) int {
	if errors.Is(err, syscall.ECONNREFUSED) {
		return 3
	}
	return 4
}

// errRefused is the proxy's answer.
var errRefused = errors.New("refused by the proxy")

func fetch(ctx context.Context, from, proxy string) (int, error) {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment}
	if proxy != "" {
		u, err := url.Parse(proxy)
		if err != nil {
			return 1, err
		}
		transport.Proxy = http.ProxyURL(u)
	}
	transport.OnProxyConnectResponse = func(_ context.Context, _ *url.URL, _ *http.Request, answer *http.Response) error {
		if answer.StatusCode == http.StatusOK {
			return nil
		}
		said, _ := io.ReadAll(io.LimitReader(answer.Body, 4096))
		return fmt.Errorf("%w: %s: %s", errRefused, answer.Status, said)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return 1, err
	}
	answer, err := transport.RoundTrip(req)
	switch {
	case errors.Is(err, errRefused):
		return 5, err
	case err != nil:
		return unreached(err), err
	}
	defer answer.Body.Close()
	if _, err := io.Copy(os.Stdout, answer.Body); err != nil {
		return 4, err
	}
	return 0, nil
}
