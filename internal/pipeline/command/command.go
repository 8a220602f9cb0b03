// Package command is `orchard run`: the pipelines of workflows/, run on this machine,
// and what there is to see of runs that were.
package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"orchard/datasets"
	"orchard/internal/exit"
	"orchard/internal/pipeline"
	"orchard/internal/pipeline/process"
	"orchard/internal/pipeline/rundir"
	"orchard/internal/runner"
	"orchard/internal/seal"
)

// Deps are what `orchard run` is wired with.
type Deps struct {
	Library    pipeline.Library
	Executable string // this machine's orchard
	// Back starts what the steps need beside files, a sandbox service and a model server
	// where none is given, and returns the environment that leads to them.
	Back func(ctx context.Context, p Plan) (env []string, stop func(), err error)
	// Closing are lines printed after a run that succeeded: where things are, what to try.
	Closing func(ctx context.Context, w io.Writer, p Plan, res pipeline.Result)
}

// Plan is a run that is about to start.
type Plan struct {
	Pipeline string
	RunID    string
	Params   map[string]string
	Dir      string // the run's folder
	StateDir string
}

// Run is the command.
func Run(d Deps) *cli.Command {
	state := &cli.StringFlag{Name: "state-dir", EnvVars: []string{"ORCHARD_STATE_DIR"}, Value: defaultState(), Usage: "`FOLDER` of runs and their logs"}
	return &cli.Command{
		Name:      "run",
		Usage:     "run a pipeline on this machine",
		ArgsUsage: "PIPELINE",
		Description: "Runs the Argo YAML of workflows/ here: every step is this program with the step's arguments.\n" +
			"A run that was stopped or killed goes on where it was when the same command is given again.\n" +
			"Without SANDBOX_BASE_URL it starts a sandbox service of its own; without a model it starts\n" +
			"`orchard llm scripted`, which solves tasks without one.\n\nPIPELINES\n" + catalogue(d.Library) + "\n" + exit.Help,
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "parameter", Aliases: []string{"p"}, Usage: "`NAME=VALUE` of a pipeline's parameter, repeatable"},
			&cli.StringFlag{Name: "run-id", EnvVars: []string{"ORCHARD_RUN_ID"}, Usage: "`ID` of the run; the default is made from pipeline and parameters, so that the same command finds its run again"},
			&cli.IntFlag{Name: "parallel", EnvVars: []string{"ORCHARD_PARALLEL"}, Usage: "`NUMBER` of steps at a time; 0 is what the pipeline says"},
			state,
		},
		OnUsageError: runner.UsageError,
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return exit.Configf("orchard run: give one pipeline: %s", strings.Join(d.Library.Pipelines(), ", "))
			}
			if n := c.Int("parallel"); n < 0 {
				return exit.Configf("--parallel: %d must not be negative", n)
			}
			params, err := parameters(c.StringSlice("parameter"))
			if err != nil {
				return err
			}
			return start(c.Context, d, c.String("state-dir"), c.Args().First(), c.String("run-id"), params, c.Int("parallel"), c.App.Writer, c.App.ErrWriter)
		},
		Subcommands: []*cli.Command{
			sub("ls", "", "list runs, newest first", state, list),
			sub("status", "RUN", "show a run's steps", state, status),
			sub("logs", "RUN [STEP]", "print the logs of a run's steps", state, logs),
			sub("stop", "RUN", "stop a run; finished work is kept", state, stop),
			sub("retry", "RUN", "run again with the same parameters; finished work is not repeated", state, func(c *cli.Context) error {
				rec, err := argument(c)
				if err != nil {
					return err
				}
				return start(c.Context, d, c.String("state-dir"), rec.Pipeline, rec.ID, rec.Params, 0, c.App.Writer, c.App.ErrWriter)
			}),
		},
	}
}

// sub is a subcommand about runs that were; args names what it takes.
func sub(name, args, usage string, state cli.Flag, do cli.ActionFunc) *cli.Command {
	return &cli.Command{
		Name: name, Usage: usage, ArgsUsage: args, Description: exit.Help, Flags: []cli.Flag{state},
		OnUsageError: runner.UsageError,
		Action: func(c *cli.Context) error {
			if most := len(strings.Fields(args)); c.NArg() > most {
				return exit.Configf("orchard run %s: unexpected argument %q", name, c.Args().Get(most))
			}
			return do(c)
		},
	}
}

// start runs a pipeline to its end.
func start(ctx context.Context, d Deps, state, name, id string, params map[string]string, parallel int, stdout, stderr io.Writer) error {
	w := d.Library[name]
	if w == nil || w.Spec.Entrypoint == "" {
		return exit.Configf("no pipeline %q; there are: %s", name, strings.Join(d.Library.Pipelines(), ", "))
	}
	if err := defaults(w, params); err != nil {
		return err
	}
	state, err := filepath.Abs(state)
	if err != nil {
		return err
	}
	if id == "" {
		sum, err := seal.Sum(params)
		if err != nil {
			return err
		}
		id = name + "-" + sum[:8]
	}
	dir, err := rundir.Open(state, rundir.Record{ID: id, Pipeline: name, Params: params, PID: os.Getpid(), Started: time.Now().UTC(), Phase: pipeline.Running})
	if err != nil {
		return err
	}
	plan := Plan{Pipeline: name, RunID: id, Params: params, Dir: dir.Path, StateDir: state}
	fmt.Fprintf(stderr, "run %s of pipeline %s, logs in %s\n", id, name, dir.Path)
	res, runErr := play(ctx, d, plan, dir, parallel, stderr)
	if err := dir.Finish(time.Now().UTC(), res, runErr); err != nil && runErr == nil {
		runErr = exit.With(exit.Gone, fmt.Errorf("run folder: %w", err))
	}
	if runErr != nil {
		again := "when that is mended, go on with"
		if exit.Code(runErr) == exit.Retry {
			again = "go on with"
		}
		return fmt.Errorf("run %s: %w\nlogs: orchard run logs %s; %s: orchard run retry %s", id, runErr, id, again, id)
	}
	if d.Closing != nil {
		d.Closing(ctx, stdout, plan, res)
	}
	return nil
}

func play(ctx context.Context, d Deps, plan Plan, dir *rundir.Dir, parallel int, stderr io.Writer) (pipeline.Result, error) {
	env, stop, err := d.Back(ctx, plan)
	if err != nil {
		return pipeline.Result{Phase: pipeline.Error}, err
	}
	defer stop()
	show := newDisplay(stderr, isTerminal(stderr))
	defer show.close()
	steps := &process.Runner{Executable: d.Executable, Env: env, Dir: dir.StepDir, Started: show.started}
	return pipeline.Run(ctx, d.Library, plan.Pipeline, pipeline.Options{
		ID: plan.RunID, Params: plan.Params, Parallel: parallel, Step: steps.Step,
		Event: func(e pipeline.Event) {
			show.event(e)
			if err := dir.Event(e); err != nil {
				fmt.Fprintln(stderr, "run folder:", err)
			}
		},
	})
}

// defaults fills in what a single machine knows of itself: where datasets go, and the
// tasks that come with the program.
func defaults(w *pipeline.Workflow, params map[string]string) error {
	for _, p := range w.Spec.Arguments.Parameters {
		if _, ok := params[p.Name]; ok || p.Value != nil {
			continue
		}
		switch p.Name {
		case "out":
			params["out"] = "orchard-data"
		case "tasks":
			params["tasks"] = "examples"
		}
	}
	if out, ok := params["out"]; ok {
		if err := datasets.CheckRoot(out); err != nil {
			return exit.Configf("-p out: %w", err)
		}
	}
	for _, name := range []string{"out", "tasks"} {
		v := params[name]
		if v == "" || v == "examples" || strings.Contains(v, "://") {
			continue
		}
		abs, err := filepath.Abs(v)
		if err != nil {
			return err
		}
		params[name] = abs
	}
	return nil
}

func parameters(list []string) (map[string]string, error) {
	params := map[string]string{}
	for _, kv := range list {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || k == "" {
			return nil, exit.Configf("-p %s: must be NAME=VALUE", kv)
		}
		params[k] = v
	}
	return params, nil
}

// catalogue lists pipelines with their parameters for --help.
func catalogue(lib pipeline.Library) string {
	var b strings.Builder
	tw := tabwriter.NewWriter(&b, 0, 4, 2, ' ', 0)
	for _, name := range lib.Pipelines() {
		w := lib[name]
		fmt.Fprintf(tw, "   %s: %s\n", name, w.Metadata.Annotations["workflows.argoproj.io/description"])
		params := append([]pipeline.Parameter(nil), w.Spec.Arguments.Parameters...)
		sort.SliceStable(params, func(i, j int) bool { return params[i].Value == nil && params[j].Value != nil })
		for _, p := range params {
			v := ""
			if p.Value != nil {
				v = string(*p.Value)
			}
			fmt.Fprintf(tw, "      -p %s=%s\t%s\n", p.Name, v, p.Description)
		}
	}
	tw.Flush()
	return b.String()
}

func defaultState() string {
	if dir := os.Getenv("XDG_STATE_HOME"); dir != "" {
		return filepath.Join(dir, "orchard")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "orchard-state"
	}
	return filepath.Join(home, ".local", "state", "orchard")
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
