// Command orchard-controller serves sandboxes over the Orchard Env REST API; see
// --help.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"orchard/internal/exit"
	"orchard/internal/sandbox/control/command"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command.App(os.Stdout, os.Stderr).RunContext(ctx, os.Args)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "orchard-controller:", err)
	}
	os.Exit(exit.Code(err))
}
