package evaluate

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/urfave/cli/v2"

	"orchard/internal/exit/exittest"
	"orchard/internal/runner"
	"orchard/internal/sandbox/sandboxtest"
)

// orchard is the program with this one command.
var orchard = exittest.Program(func() *cli.Command { return Command(runner.Deps{}) })

type inSandboxes struct{ m *testing.M }

func (s inSandboxes) Run() int { return sandboxtest.Main(s.m) }

func TestMain(m *testing.M) {
	testscript.Main(inSandboxes{m}, map[string]func(){"orchard": orchard})
}

func TestScripts(t *testing.T) {
	t.Parallel()
	service := sandboxtest.New(t)
	testscript.Run(t, testscript.Params{
		Dir:  "testdata/script",
		Cmds: exittest.Cmds(),
		Setup: func(env *testscript.Env) error {
			w := newWorld(t, env.WorkDir)
			w.predictions(t, "all_preds.jsonl",
				[3]any{"sure", "a", w.gold}, [3]any{"sure", "b", w.gold}, [3]any{"sure", "c", w.gold},
				[3]any{"unsure", "a", w.gold}, [3]any{"unsure", "b", nil})
			w.predictions(t, "unsure.jsonl", [3]any{"unsure", "a", w.gold}, [3]any{"unsure", "b", nil})
			w.predictions(t, "worse.jsonl", [3]any{"worse", "a", w.gold}, [3]any{"worse", "b", w.wrong}, [3]any{"worse", "c", "no diff"})
			w.predictions(t, "strange.jsonl", [3]any{"sure", "a", w.gold}, [3]any{"sure", "z", w.gold})
			w.predictions(t, "twice.jsonl", [3]any{"sure", "a", w.gold}, [3]any{"sure", "a", ""})
			env.Vars = append(env.Vars, service.Env()...)
			env.Vars = append(env.Vars, "ALWAYS="+w.always, "NEVER="+w.never, "ORCHARD_SANDBOX_MEMORY=512Mi", "ORCHARD_WORKERS=2", "ORCHARD_CANARY=false")
			return nil
		},
	})
}
