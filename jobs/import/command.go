package importer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/urfave/cli/v2"

	"orchard/datasets/imports"
	"orchard/internal/exit"
	"orchard/internal/runner"
)

// Config is the settings of the stage.
type Config struct {
	runner.Config
	Source       string // of tasks that do not name theirs; "" is the file's name without ending
	Format       string // name of the format of all files; "" tells it by what is in them
	Filter       string // expression over a task or rollout; "" keeps all
	Limit        int    // tasks to keep; 0 is all
	SkipBad      bool   // drop rows that cannot be understood instead of stopping
	AllowOutside bool   // repositories may lie outside the folder of the file that names them
	// Builtin is task sets that come with the program, by the names that --in takes.
	Builtin map[string]fs.FS
}

// Default is the configuration without any flag.
func Default() Config { return Config{Config: runner.Default()} }

// Validate says everything that is wrong, by the names of the flags.
func (c Config) Validate() error {
	errs := []error{c.Config.Validate()}
	if _, err := imports.NewFilter(c.Filter); err != nil {
		errs = append(errs, err)
	}
	if c.Format != "" {
		if _, err := imports.FormatByName(c.Format); err != nil {
			errs = append(errs, err)
		}
	}
	if c.Limit < 0 {
		errs = append(errs, exit.Configf("--limit: %d must not be negative", c.Limit))
	}
	return exit.With(exit.Config, errors.Join(errs...))
}

// Flags is the flags of c.
func Flags(c *Config) []cli.Flag {
	return append([]cli.Flag{
		&cli.StringFlag{Name: "format", EnvVars: []string{"ORCHARD_FORMAT"}, Destination: &c.Format,
			Usage: "take all files for the format `NAME` (default: told by their columns or files)"},
		&cli.StringFlag{Name: "filter", EnvVars: []string{"ORCHARD_FILTER"}, Destination: &c.Filter,
			Usage: "keep the tasks for which `EXPR` is true, such as 'language == \"go\" && len(fail_to_pass) > 0'; row.NAME is any column of the file"},
		&cli.IntFlag{Name: "limit", EnvVars: []string{"ORCHARD_LIMIT"}, Destination: &c.Limit,
			Usage: "keep the first `NUMBER` tasks that pass the filter, and read no further; 0 is all"},
		&cli.StringFlag{Name: "source", EnvVars: []string{"ORCHARD_SOURCE"}, Destination: &c.Source,
			Usage: "`NAME` of the task set, for tasks that do not name theirs (default: the file's name)"},
		&cli.BoolFlag{Name: "skip-bad", EnvVars: []string{"ORCHARD_SKIP_BAD"}, Destination: &c.SkipBad,
			Usage: "drop rows that cannot be understood, counted by reason, instead of stopping"},
		&cli.BoolFlag{Name: "allow-outside", EnvVars: []string{"ORCHARD_ALLOW_OUTSIDE"}, Destination: &c.AllowOutside,
			Usage: "let rows name repositories outside the folder of their file; only for files you trust"},
	}, runner.Flags(&c.Config)...)
}

const intro = `Reads sets of tasks or of trajectories as others publish them into a dataset of tasks
or of rollouts: .jsonl and .json (also .gz, .zst), .parquet, .arrow, folders of such
files, and folders of tasks that are folders, on this machine or in a bucket (s3://…);
"--in examples" is the tasks that come with orchard. The format is told by the columns; docs/importing.md has what becomes of
each. Known formats:
%s

Of the format tasks, needed columns: instance_id, repo, base_commit, problem_statement,
patch, FAIL_TO_PASS (a list, or a JSON string of one). Optional: test_patch,
PASS_TO_PASS, hints_text, version, created_at, language, test_cmds, log_parser,
pre_commands, workdir (default /testbed), timeout (seconds), image_name,
install_config; other columns are kept as they are.

A row may name its repository, relative to the file: repo_bundle (a git bundle),
repo_dir (a folder) or repo_fast_import (text of git fast-export). Its history up to
base_commit, and nothing later, is packed into the dataset.

Without language it is told by the files that the patches change. Without test_cmds
and log_parser: go runs "go test -json ./...", python "python3 -m pytest". Log
parsers: go-test-json, pytest-junit, pytest-rA, tap, exit-code.`

// describe is the intro with the names of the formats, in lines that fit.
func describe() string {
	var lines []string
	line := " "
	for _, name := range imports.FormatNames() {
		if len(line)+len(name) > 84 {
			lines, line = append(lines, line), " "
		}
		line += " " + name
	}
	return fmt.Sprintf(intro, strings.Join(append(lines, line), "\n"))
}

// Command is the stage as a command of orchard.
func Command(d runner.Deps, builtin map[string]fs.FS) *cli.Command {
	c := Default()
	c.Builtin = builtin
	return &cli.Command{
		Name:      "import",
		Usage:     "turn sets of tasks or trajectories into a dataset",
		UsageText: "orchard import --in tasks.jsonl --out out/tasks",
		Description: runner.Describe(describe(),
			"PATH                      is where git is looked for, when a row names a repository",
			"TMPDIR                    holds repositories while they are packed"),
		Flags:        Flags(&c),
		OnUsageError: runner.UsageError,
		Action: runner.Action("import", "files are given with --in", func(ctx context.Context) error {
			_, err := Run(ctx, c, d)
			return err
		}),
	}
}
