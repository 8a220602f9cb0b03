package report

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"orchard/datasets"
	"orchard/internal/exit"
	"orchard/internal/objstore"
	"orchard/internal/runner"
)

// Command is `orchard report`, with serve below it.
func Command(d runner.Deps) *cli.Command {
	c := Defaults()
	return &cli.Command{
		Name:  "report",
		Usage: "make rollouts readable: a table, and an HTML page with a viewer",
		Description: runner.Describe("Reads a rollout dataset, and for the funnel the task and SFT datasets around it, and\n" +
			"for value curves in the viewer credit datasets (--in, repeated).\n" +
			"Writes a row a task, and report.html with its script files beside the dataset; they open from\n" +
			"file:// and through `orchard report serve`."),
		Flags:        Flags(&c),
		OnUsageError: runner.UsageError,
		Action: runner.Action("report", "datasets are given with --in, and a report is served with `orchard report serve`", func(ctx context.Context) error {
			_, err := Run(ctx, c, d)
			return err
		}),
		Subcommands: []*cli.Command{{
			Name: "serve", Usage: "serve a report to a browser on this machine", ArgsUsage: "REPORT",
			Description:  "REPORT is the report's dataset, such as orchard-data/report.\n\n" + exit.Help,
			OnUsageError: runner.UsageError,
			Flags:        []cli.Flag{&cli.StringFlag{Name: "listen", EnvVars: []string{"ORCHARD_REPORT_LISTEN"}, Value: "127.0.0.1:0", Usage: "`ADDRESS` to serve on; port 0 is a free one"}},
			Action: func(ctx *cli.Context) error {
				if ctx.NArg() != 1 {
					return exit.Configf("report serve: give one report dataset, such as orchard-data/report")
				}
				return serveReport(ctx.Context, ctx.App.ErrWriter, d.WithDefaults().Open, ctx.Args().First(), ctx.String("listen"))
			},
		}},
	}
}

// files is where the files of a report version lie.
func files(ctx context.Context, open datasets.Opener, uri string) (objstore.Store, string, error) {
	v, err := datasets.Open(ctx, open, uri)
	if err != nil {
		return nil, "", err
	}
	if kind := v.Manifest().Schema.Name; kind != "task_report" {
		return nil, "", exit.Inputf("%s: holds %s rows, not a report", v.Location(), kind)
	}
	return v.Store(), datasets.FilesPrefix(v.Location().Name, v.Manifest().Key), nil
}

// copyPage puts a report's page and its numbers beside the step's other outputs, where a
// workflow takes them from.
func copyPage(ctx context.Context, store objstore.Store, prefix, dir string) error {
	for _, name := range []string{"report.html", "report.md", "report.json"} {
		page, _, err := objstore.ReadAll(ctx, store, prefix+name, 1<<30)
		if err != nil {
			return fmt.Errorf("%s of report %s%s: %w", name, store, prefix, err)
		}
		if err := runner.SaveOutput(dir, name, page); err != nil {
			return err
		}
	}
	return nil
}

// Print writes a report's table to w and returns where its page is.
func Print(ctx context.Context, w io.Writer, open datasets.Opener, uri string) (page string, err error) {
	store, prefix, err := files(ctx, open, uri)
	if err != nil {
		return "", err
	}
	return printFiles(ctx, w, store, prefix)
}

func printFiles(ctx context.Context, w io.Writer, store objstore.Store, prefix string) (page string, err error) {
	text, _, err := objstore.ReadAll(ctx, store, prefix+"report.txt", 1<<20)
	if err != nil {
		return "", fmt.Errorf("table of report %s%s: %w", store, prefix, err)
	}
	_, err = w.Write(text)
	return strings.TrimSuffix(store.String(), "/") + "/" + prefix + "report.html", err
}
