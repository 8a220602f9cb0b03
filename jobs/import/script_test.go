package importer

import (
	"context"
	"errors"
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
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			// code CODE COMMAND...: the command ends with exactly this exit code.
			"code": func(ts *testscript.TestScript, neg bool, args []string) {
				got := 0
				if err := ts.Exec(args[1], args[2:]...); err != nil {
					var ended *exec.ExitError
					if !errors.As(err, &ended) {
						ts.Fatalf("%v", err)
					}
					got = ended.ExitCode()
				}
				if fmt.Sprint(got) != args[0] {
					ts.Fatalf("exit code %d, want %s", got, args[0])
				}
			},
		},
	})
}

// TestParsers: the parsers that a task may name are those that grading has.
func TestParsers(t *testing.T) {
	t.Parallel()
	if d := cmp.Diff(parsers.Names(), slices.Sorted(slices.Values(imports.Parsers))); d != "" {
		t.Error(d)
	}
}
