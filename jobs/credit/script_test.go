package credit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/urfave/cli/v2"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/exit/exittest"
	"orchard/internal/llm/llmtest"
	"orchard/internal/runner"
	"orchard/internal/sandbox/sandboxtest"
)

// orchard is the program with this one command.
var orchard = exittest.Program(func() *cli.Command { return Command(runner.Deps{}) })

// fixtureMain writes datasets into the folder data.
func fixtureMain() {
	store, err := datasets.Stores(context.Background(), "file://"+os.Args[1])
	if err == nil {
		err = errors.Join(
			commit(store, "rollouts", played("plain", record.Unresolved, 6), played("solved", record.Resolved, 4), played("vague", record.Unresolved, 6), played("unknown", record.NotGraded, 6)),
			commit(store, "tasks", record.Task{TaskID: "plain", PreCommands: []string{}, TestCmds: []string{}, FailToPass: []string{"a"}, PassToPass: []string{}}),
			commit[record.Rollout](store, "none"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func TestMain(m *testing.M) {
	testscript.Main(wrap{m}, map[string]func(){"orchard": orchard, "fixture": fixtureMain})
}

// wrap ends the test sandbox service after the tests.
type wrap struct{ m *testing.M }

func (w wrap) Run() int { return sandboxtest.Main(w.m) }

func TestScripts(t *testing.T) {
	t.Parallel()
	server := annotator(t, map[string][]string{"vague": {"I would say about 40% at first."}})
	down := llmtest.New(t, []string{teacher}, func(int, llmtest.Request) llmtest.Reply { return llmtest.Reply{Status: 503, Body: "down"} })
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("TEACHER", server.URL)
			e.Setenv("DOWN", down.URL)
			return nil
		},
		Cmds: exittest.Cmds(),
	})
}
