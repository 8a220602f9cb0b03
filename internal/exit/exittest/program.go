package exittest

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/urfave/cli/v2"

	"orchard/internal/exit"
	"orchard/internal/logx"
)

// Program is the program orchard with one command only, for testscript.Main: signals, log
// and exit codes are those of the real one.
func Program(command func() *cli.Command) func() {
	return func() {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		log, err := logx.New(os.Stderr, "info")
		if err == nil {
			app := &cli.App{Name: "orchard", Commands: []*cli.Command{command()}, ExitErrHandler: func(*cli.Context, error) {}}
			err = app.RunContext(log.WithContext(ctx), os.Args)
		}
		stop()
		if err != nil {
			fmt.Fprintln(os.Stderr, "orchard:", err)
		}
		os.Exit(exit.Code(err))
	}
}
