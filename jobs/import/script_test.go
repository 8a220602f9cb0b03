package importer

import (
	"os/exec"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/urfave/cli/v2"

	"orchard/datasets/imports"
	"orchard/internal/exit/exittest"
	"orchard/internal/grade/parsers"
	"orchard/internal/runner"
)

// orchard is the program with this one command.
var orchard = exittest.Program(func() *cli.Command { return Command(runner.Deps{}, nil) })

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
