package runner

import (
	"context"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"orchard/internal/exit"
)

// Flags is the flags of c, each with its environment twin. Their defaults are what c
// holds, so start from Default.
func Flags(c *Config) []cli.Flag {
	const shared = "shared by all stages"
	return []cli.Flag{
		&cli.GenericFlag{Name: "in", Category: shared, EnvVars: []string{"ORCHARD_IN"}, Value: &list{to: &c.In, env: os.Getenv("ORCHARD_IN") != ""},
			Usage: "`URI` of an input, repeatable; a dataset without @version means its newest (in the environment: one per line)"},
		&cli.StringFlag{Name: "out", Category: shared, EnvVars: []string{"ORCHARD_OUT"}, Destination: &c.Out, Value: c.Out,
			Usage: "`URI` or path of the dataset to write"},
		&cli.StringFlag{Name: "run-id", Category: shared, EnvVars: []string{"ORCHARD_RUN_ID"}, Destination: &c.RunID, Value: c.RunID,
			Usage: "`ID` of the run; the same id continues a run that was stopped"},
		&cli.GenericFlag{Name: "mode", Category: shared, EnvVars: []string{"ORCHARD_MODE"}, Value: &text[Mode]{&c.Mode, func(s string) (Mode, error) { return Mode(s), nil }},
			Usage: "run, plan (fix the units, print the shards), commit (only commit finished units) or check (is all there that the stage needs?)"},
		&cli.GenericFlag{Name: "shard", Category: shared, EnvVars: []string{"ORCHARD_SHARD"}, Value: &text[Shard]{&c.Shard, ParseShard},
			Usage: "do only the units of shard `i/n`, counted from 1, and commit nothing; index/n in a Kubernetes Indexed Job"},
		&cli.IntFlag{Name: "shards", Category: shared, EnvVars: []string{"ORCHARD_SHARDS"}, Destination: &c.Shards, Value: c.Shards,
			Usage: "with --mode plan: `NUMBER` of shards to plan for"},
		&cli.IntFlag{Name: "workers", Category: shared, EnvVars: []string{"ORCHARD_WORKERS"}, Destination: &c.Workers, Value: c.Workers,
			Usage: "`NUMBER` of units worked on at once"},
		&cli.Int64Flag{Name: "seed", Category: shared, EnvVars: []string{"ORCHARD_SEED"}, Destination: &c.Seed, Value: c.Seed,
			Usage: "`NUMBER` that all randomness is drawn from"},
		&cli.DurationFlag{Name: "deadline", Category: shared, EnvVars: []string{"ORCHARD_DEADLINE"}, Destination: &c.Deadline, Value: c.Deadline,
			Usage: "stop taking work after this `TIME`, keep what is done and exit 75; 0 is never"},
		&cli.IntFlag{Name: "max-retries", Category: shared, EnvVars: []string{"ORCHARD_MAX_RETRIES"}, Destination: &c.MaxRetries, Value: c.MaxRetries,
			Usage: "`NUMBER` of further tries of a unit that met trouble which is not its own"},
		&cli.GenericFlag{Name: "max-infra", Category: shared, EnvVars: []string{"ORCHARD_MAX_INFRA"}, Value: &text[Share]{&c.MaxInfra, ParseShare},
			Usage: "`SHARE` of units that may stay unfinished in a committed version"},
		&cli.BoolFlag{Name: "dry-run", Category: shared, EnvVars: []string{"ORCHARD_DRY_RUN"}, Destination: &c.DryRun, Value: c.DryRun,
			Usage: "check everything, say what would be done, write nothing"},
		&cli.StringFlag{Name: "log-level", Category: shared, EnvVars: []string{"ORCHARD_LOG_LEVEL"}, Destination: &c.LogLevel, Value: c.LogLevel,
			Usage: "debug, info, warn or error"},
		&cli.StringFlag{Name: "result", Category: shared, EnvVars: []string{"ORCHARD_RESULT"}, Destination: &c.Result, Value: c.Result,
			Usage: "`FILE` that gets the summary as JSON"},
		&cli.StringFlag{Name: "output-dir", Category: shared, EnvVars: []string{"ORCHARD_OUTPUT_DIR"}, Destination: &c.OutputDir, Value: c.OutputDir,
			Usage: "`FOLDER` that gets the summary as one small file a value (dataset, rows, shards.json), for a workflow's output parameters"},
	}
}

// UsageError marks what the command line has wrong, for cli.Command.OnUsageError.
func UsageError(_ *cli.Context, err error, _ bool) error { return exit.With(exit.Config, err) }

// Action is the action of the command of that name, which takes no arguments. instead says
// where what somebody gave as one belongs.
func Action(name, instead string, run func(context.Context) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		if c.Args().Present() {
			return exit.Configf("%s: unexpected argument %q; %s", name, c.Args().First(), instead)
		}
		return run(c.Context)
	}
}

// Describe is the Description of a stage's command: what it does, the environment
// variables beyond the flags' own twins, and the exit codes.
func Describe(intro string, environment ...string) string {
	env := append(environment,
		"ARGO_PROGRESS_FILE        gets N/M while the stage works",
		"ORCHARD_PROGRESS_FILE     gets the live numbers as JSON while the stage works")
	return strings.TrimSpace(intro) + "\n\nENVIRONMENT\n   every flag's own variable, and\n   " +
		strings.Join(env, "\n   ") + "\n\n" + exit.Help
}

// list is a repeatable flag whose values may hold commas. One may be several lines with a
// value each, or none, as a variable of the environment and a workflow's parameter are. What
// the command line says replaces what the environment says.
type list struct {
	to         *[]string
	env, given bool // the next value comes from the environment; the command line gave one
}

func (l *list) Set(s string) error {
	if !l.env && !l.given {
		l.given, *l.to = true, nil
	}
	l.env = false
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" {
			*l.to = append(*l.to, line)
		}
	}
	return nil
}

func (l *list) String() string {
	if l.to == nil { // the flag package asks a zero value for its default
		return ""
	}
	return strings.Join(*l.to, " ")
}

// text is a flag whose value has a parser of its own.
type text[T any] struct {
	to    *T
	parse func(string) (T, error)
}

func (t *text[T]) Set(s string) (err error) {
	*t.to, err = t.parse(s)
	return err
}

func (t *text[T]) String() string {
	if t.to == nil { // the flag package asks a zero value for its default
		return ""
	}
	if s, ok := any(*t.to).(interface{ String() string }); ok {
		return s.String()
	}
	if m, ok := any(*t.to).(Mode); ok {
		return string(m)
	}
	return ""
}
