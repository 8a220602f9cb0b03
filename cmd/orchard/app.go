package main

import (
	"io"
	"io/fs"
	"os"
	"path"

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
	"orchard/jobs/distill"
	importer "orchard/jobs/import"
	"orchard/jobs/report"
	"orchard/jobs/scripted"
	"orchard/jobs/sftexport"
	"orchard/jobs/summary"
	"orchard/workflows"
)

// openStore opens every store of the program; tests count and break its writes.
var openStore datasets.Opener = datasets.Stores

// app is the whole command line: a subcommand a stage, and what goes around them.
func app(stdout, stderr io.Writer) (*cli.App, error) {
	lib, err := pipeline.Load(workflows.FS, "templates", "pipelines")
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
			distill.Command(deps),
			sftexport.Command(deps),
			report.Command(deps),
			summary.Command(deps),
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
