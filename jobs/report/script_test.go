package report

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/urfave/cli/v2"

	"orchard/internal/exit/exittest"
	"orchard/internal/runner"
)

// orchard is the program with this one command.
var orchard = exittest.Program(func() *cli.Command { return Command(runner.Deps{}) })

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"orchard": orchard, "fixture": fixtureMain})
}

func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:  "testdata/script",
		Cmds: exittest.Cmds(),
	})
}
