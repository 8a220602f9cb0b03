// Command orchard makes training data for agents; see --help.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	_ "golang.org/x/crypto/x509roots/fallback" // authorities to trust where the machine has none, as in a bare image

	"orchard/internal/argv"
	"orchard/internal/exit"
	"orchard/internal/logx"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	limitMemory(os.Getenv("ORCHARD_MEMORY_LIMIT"))
	code := run(ctx, os.Args, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is main without the process.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	level := os.Getenv("ORCHARD_LOG_LEVEL")
	if level == "" {
		level = "info"
	}
	log, err := logx.New(stderr, level)
	if err != nil {
		fmt.Fprintln(stderr, "orchard: ORCHARD_LOG_LEVEL:", err)
		return exit.Config
	}
	a, err := app(stdout, stderr)
	if err == nil {
		err = a.RunContext(log.WithContext(ctx), argv.Arrange(a, args))
	}
	if err != nil {
		fmt.Fprintln(stderr, "orchard:", err)
		lastWords(os.Getenv("ORCHARD_TERMINATION_LOG"), err)
	}
	return exit.Code(err)
}
