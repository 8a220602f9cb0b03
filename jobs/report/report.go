// Package report is the stage that makes rollouts readable: a table for the terminal,
// a row for each task, and an HTML page with charts and a viewer for any trajectory.
//
// The page holds the headline and one sample of each outcome; all other trajectories
// lie beside it as script files, which work from file:// and through `orchard report
// serve` alike. What a sandbox printed is shown as text, never run as markup. A resolve
// rate is given with its interval, over the rollouts that have a reward, and with a
// warning when too many have none.
package report

import (
	"bytes"
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/objstore"
	"orchard/internal/runner"
)

// Version goes up whenever the rows or files for the same inputs change.
const Version = 2

// Config is the stage's settings.
type Config struct {
	runner.Config
	Title string
}

// Defaults is the configuration without any flag.
func Defaults() Config {
	return Config{Config: runner.Default(), Title: "Rollouts"}
}

// Flags are the flags that fill c.
func Flags(c *Config) []cli.Flag {
	return append(runner.Flags(&c.Config),
		&cli.StringFlag{Name: "title", EnvVars: []string{"ORCHARD_REPORT_TITLE"}, Destination: &c.Title, Value: c.Title, Usage: "`TEXT` above the page"},
	)
}

// Validate says everything that is wrong, by the names of the flags.
func (c Config) Validate() error {
	return c.Config.Validate()
}

// Run makes the report and prints its table to d.Stdout.
func Run(ctx context.Context, c Config, d runner.Deps) (runner.Result, error) {
	if err := c.Validate(); err != nil {
		return runner.Failed(c.Config, "report", err)
	}
	stage := runner.Stage{Name: "report", Version: Version, Settings: map[string]string{"title": c.Title}}
	res, err := runner.Batch(ctx, c.Config, d, stage, func(ctx context.Context, p *runner.Pass[record.TaskReport]) error {
		return build(ctx, c, p)
	})
	if err != nil || res.URI == "" {
		return res, err
	}
	// Read back, so that a run that finds the report there says the same.
	d = d.WithDefaults()
	store, prefix, err := files(ctx, d.Open, res.URI)
	if err != nil {
		return res, err
	}
	page, err := printFiles(ctx, d.Stdout, store, prefix)
	if err == nil && c.OutputDir != "" {
		err = copyPage(ctx, store, prefix, c.OutputDir)
	}
	if err == nil {
		_, err = fmt.Fprintf(d.Stdout, "page  %s\n", page)
	}
	return res, err
}

func build(ctx context.Context, c Config, p *runner.Pass[record.TaskReport]) error {
	s := NewSummary()
	in, err := sortInputs(p.Inputs, s)
	if err != nil {
		return err
	}
	put := func(name string, b []byte) error {
		_, err := p.PutFile(ctx, name, objstore.Bytes(b))
		return err
	}
	files, inPage := &scripts{put: put}, &samples{}
	for row, err := range datasets.Rows[record.Rollout](ctx, in) {
		if err != nil {
			return err
		}
		s.Add(row)
		t := view(row)
		inPage.add(t)
		if err := files.add(t); err != nil {
			return err
		}
	}
	if err := files.close(); err != nil {
		return err
	}
	var html, text bytes.Buffer
	if err := writePage(&html, c.Title, s, inPage.list()); err != nil {
		return fmt.Errorf("report page: %w", err)
	}
	if err := put("report.html", html.Bytes()); err != nil {
		return err
	}
	if err := s.WriteTable(&text); err != nil {
		return err
	}
	if err := put("report.txt", text.Bytes()); err != nil {
		return err
	}
	for _, t := range s.Tasks() { // a row in is a task that was rolled out
		p.Read(1)
		if err := p.Emit(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// sortInputs tells the inputs apart by what they hold: the rollouts to report, and for
// the funnel the tasks before them and the SFT rows after them, of which only the
// counts are needed.
func sortInputs(inputs []*datasets.Version, s *Summary) (rollouts *datasets.Version, err error) {
	for _, in := range inputs {
		m := in.Manifest()
		switch kind := m.Schema.Name; {
		case kind == "rollout" && rollouts != nil:
			return nil, exit.Inputf("--in %s: a second rollout dataset beside %s; make a report of each", in.Location(), rollouts.Location())
		case kind == "rollout":
			rollouts = in
			s.Missing = m.Dropped[runner.ReasonInfra]
		case kind == "task":
			s.TasksIn += m.Rows
		case kind == "sft":
			s.SFTRows = max(s.SFTRows, 0) + m.Rows
		default:
			return nil, exit.Inputf("--in %s: holds %s rows; a report is made of one rollout dataset, and of the task and SFT datasets around it", in.Location(), kind)
		}
	}
	if rollouts == nil {
		return nil, exit.Inputf("--in: none holds rollouts; give a rollout dataset, such as `orchard distill` makes")
	}
	return rollouts, nil
}
