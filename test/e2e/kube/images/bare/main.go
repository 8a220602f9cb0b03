// Command bare is the only program of the image without a shell. It does what tests of
// a network need: it is the one that is reached for, or the one that reaches out.
//
//	bare sleep            until it is told to end
//	bare listen ADDRESS   answers every TCP connection with "hello"
//	bare dial ADDRESS     exits with 0 when a connection says "hello", 3 when it is refused, 4 when nothing answers
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
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// patience is how long an answer may take before nothing is taken to answer.
const patience = 5 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	code, err := run(ctx, append(os.Args[1:], "", "")[:2])
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
		return dial(ctx, args[1])
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
			fmt.Fprintln(conn, "hello")
		}()
	}
}

func dial(ctx context.Context, address string) (int, error) {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return 3, err
	case err != nil:
		return 4, err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return 1, err
	}
	said, err := io.ReadAll(conn)
	if err != nil || string(said) != "hello\n" {
		return 4, fmt.Errorf("%s said %q: %w", address, said, err)
	}
	fmt.Print(string(said))
	return 0, nil
}
