package command

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"orchard/internal/exit"
	"orchard/internal/pipeline/rundir"
)

// argument is the record of the run that the command names.
func argument(c *cli.Context) (rundir.Record, error) {
	id := c.Args().First()
	if id == "" {
		return rundir.Record{}, exit.Configf("orchard run %s: give a run id; `orchard run ls` lists them", c.Command.Name)
	}
	if err := rundir.CheckID(id); err != nil {
		return rundir.Record{}, err
	}
	return rundir.Read(c.String("state-dir"), id)
}

func list(c *cli.Context) error {
	runs, err := rundir.List(c.String("state-dir"))
	if err != nil {
		return err
	}
	tw := tabwriter.NewWriter(c.App.Writer, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "RUN\tPIPELINE\tPHASE\tSTARTED\tTOOK\tOUT")
	for _, r := range runs {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\n", r.ID, r.Pipeline, r.Phase, r.Started.Format(time.DateTime), took(r), r.Params["out"])
	}
	return tw.Flush()
}

func took(r rundir.Record) string {
	if r.Ended == nil {
		return "-"
	}
	return r.Ended.Sub(r.Started).Round(100 * time.Millisecond).String()
}

func status(c *cli.Context) error {
	r, err := argument(c)
	if err != nil {
		return err
	}
	w := c.App.Writer
	fmt.Fprintf(w, "run %s of pipeline %s: %s, started %s, took %s\n", r.ID, r.Pipeline, r.Phase, r.Started.Format(time.DateTime), took(r))
	nodes, err := rundir.Nodes(c.String("state-dir"), r.ID)
	if err != nil {
		return err
	}
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for _, e := range nodes {
		fmt.Fprintf(tw, "  %s\t%s\t%s\n", e.Node, e.Phase, e.Message)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(r.Outputs)) {
		fmt.Fprintf(w, "%s: %s\n", name, r.Outputs[name])
	}
	if r.Error != "" {
		fmt.Fprintf(w, "error (exit code %d): %s\n", r.ExitCode, r.Error)
	}
	return nil
}

func logs(c *cli.Context) error {
	r, err := argument(c)
	if err != nil {
		return err
	}
	paths, err := rundir.Logs(c.String("state-dir"), r.ID, c.Args().Get(1))
	if err != nil {
		return err
	}
	if len(paths) == 0 {
		return exit.Configf("run %s has no log of a step named %q", r.ID, c.Args().Get(1))
	}
	for _, path := range paths {
		attempt := filepath.Dir(path)
		fmt.Fprintf(c.App.Writer, "==> %s, attempt %s <==\n", filepath.Base(filepath.Dir(attempt)), filepath.Base(attempt))
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		_, err = io.Copy(c.App.Writer, f)
		f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func stop(c *cli.Context) error {
	r, err := argument(c)
	if err != nil {
		return err
	}
	if !rundir.Active(c.String("state-dir"), r.ID) {
		return exit.Configf("run %s is not going on: %s", r.ID, strings.ToLower(string(r.Phase)))
	}
	if err := syscall.Kill(r.PID, syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop run %s, pid %d: %w", r.ID, r.PID, err)
	}
	fmt.Fprintf(c.App.Writer, "told run %s to stop; it keeps what is finished and ends within half a minute\n", r.ID)
	return nil
}
