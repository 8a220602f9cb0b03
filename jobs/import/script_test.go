package importer

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/urfave/cli/v2"

	"orchard/datasets/imports"
	"orchard/internal/exit"
	"orchard/internal/exit/exittest"
	"orchard/internal/grade/parsers"
	"orchard/internal/logx"
	"orchard/internal/runner"
)

// orchard is the program with this one command.
func orchard() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	log, err := logx.New(os.Stderr, "info")
	if err != nil {
		panic(err)
	}
	app := &cli.App{Name: "orchard", Commands: []*cli.Command{Command(runner.Deps{}, nil)}, ExitErrHandler: func(*cli.Context, error) {}}
	err = app.RunContext(log.WithContext(ctx), os.Args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "orchard:", err)
	}
	os.Exit(exit.Code(err))
}

func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"orchard": orchard}) }

func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			program, err := exec.LookPath("orchard")
			e.Setenv("ORCHARD", program)
			return err
		},
		Cmds: exittest.Cmds(),
	})
}

// TestParsers: the parsers that a task may name are those that grading has.
func TestParsers(t *testing.T) {
	t.Parallel()
	if d := cmp.Diff(parsers.Names(), slices.Sorted(slices.Values(imports.Parsers))); d != "" {
		t.Error(d)
	}
}
