package main

import (
	"io"
	"io/fs"
	"os"
	"path"
	"sync"

	"github.com/urfave/cli/v2"

	"orchard/datasets"
	dataset "orchard/datasets/command"
	"orchard/examples"
	"orchard/internal/buildinfo"
	"orchard/internal/doctor"
	"orchard/internal/exit"
	"orchard/internal/pipeline"
	pipelines "orchard/internal/pipeline/command"
	"orchard/internal/runner"
	"orchard/jobs/admit"
	"orchard/jobs/bar"
	"orchard/jobs/credit"
	"orchard/jobs/dedup"
	"orchard/jobs/distill"
	"orchard/jobs/evaluate"
	"orchard/jobs/filter"
	"orchard/jobs/history"
	importer "orchard/jobs/import"
	"orchard/jobs/notify"
	"orchard/jobs/passrate"
	"orchard/jobs/report"
	"orchard/jobs/rlexport"
	"orchard/jobs/scripted"
	"orchard/jobs/sftexport"
	"orchard/jobs/simulate"
	"orchard/jobs/summary"
	"orchard/jobs/trainer"
	"orchard/workflows"
)

// openStore opens every store of the program; tests count and break its writes.
var openStore datasets.Opener = datasets.Stores

// library is the pipelines, which are read once.
var library = sync.OnceValues(func() (pipeline.Library, error) {
	return pipeline.Load(workflows.FS, "templates", "pipelines", "cron")
})

// app is the whole command line: a subcommand a stage, and what goes around them.
func app(stdout, stderr io.Writer) (*cli.App, error) {
	lib, err := library()
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, exit.With(exit.Config, err)
	}
	tasks, err := fs.Sub(examples.FS, path.Dir(examples.Tasks))
	if err != nil {
		return nil, err
	}
	deps := runner.Deps{Stdout: stdout, Stderr: stderr, Open: openStore}
	return &cli.App{
		Name:        "orchard",
		Usage:       "training data for agents, from tasks to datasets",
		Version:     buildinfo.Version + " " + buildinfo.Commit(),
		Description: "Start with: orchard run swe-sft\n\n" + exit.Help,
		Writer:      stdout, ErrWriter: stderr,
		ExitErrHandler:  func(*cli.Context, error) {}, // the error goes to main, with its class
		HideHelpCommand: true,
		Suggest:         true,
		OnUsageError:    runner.UsageError,
		Action:          unknown,
		Commands: []*cli.Command{
			pipelines.Run(pipelines.Deps{Library: lib, Executable: self, Back: back, Closing: closing}),
			importer.Command(deps, map[string]fs.FS{"examples": tasks}),
			admit.Command(deps),
			filter.Command(deps),
			dedup.Command(deps),
			distill.Command(deps),
			credit.Command(deps),
			sftexport.Command(deps),
			passrate.Command(deps),
			bar.Command(deps),
			rlexport.Command(deps),
			trainer.Command(deps),
			evaluate.Command(deps),
			history.Command(deps),
			report.Command(deps),
			summary.Command(deps),
			notify.Command(deps),
			simulate.Command(deps),
			dataset.Dataset(),
			{Name: "llm", Usage: "model servers", Action: unknown, Subcommands: []*cli.Command{scripted.Command(openStore)}},
			doctor.Command(),
		},
	}, nil
}

// unknown is what happens without a command, or with one that is not there.
func unknown(c *cli.Context) error {
	if c.Args().Present() {
		return exit.Configf("no command %q; `orchard --help` lists them", c.Args().First())
	}
	if c.Command.Name == "llm" {
		return cli.ShowSubcommandHelp(c)
	}
	return cli.ShowAppHelp(c)
}
