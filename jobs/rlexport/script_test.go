package rlexport

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/urfave/cli/v2"

	"orchard/internal/exit"
	"orchard/internal/exit/exittest"
	"orchard/internal/logx"
	"orchard/internal/runner"
)

// orchard is the program with this one command.
func orchard() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log, err := logx.New(os.Stderr, "info")
	if err != nil {
		panic(err)
	}
	app := &cli.App{Name: "orchard", Commands: []*cli.Command{Command(runner.Deps{})}, ExitErrHandler: func(*cli.Context, error) {}}
	err = app.RunContext(log.WithContext(ctx), os.Args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "orchard:", err)
	}
	os.Exit(exit.Code(err))
}

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"orchard": orchard, "fixture": fixture})
}

func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{Dir: "testdata/script", Cmds: exittest.Cmds()})
}
