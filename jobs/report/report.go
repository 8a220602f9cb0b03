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
	"io"
	"os"

	"github.com/urfave/cli/v2"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/objstore"
	"orchard/internal/runner"
)

// Version goes up whenever the rows or files for the same inputs change.
const Version = 1

// batchBytes is when a script file of trajectories is full.
const batchBytes = 2 << 20

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
	table := &bytes.Buffer{}
	res, err := runner.Batch(ctx, c.Config, d, stage, func(ctx context.Context, p *runner.Pass[record.TaskReport]) error {
		return build(ctx, c, p, table)
	})
	if err != nil {
		return res, err
	}
	out := d.Stdout
	if out == nil {
		out = os.Stdout
	}
	_, err = io.Copy(out, table)
	return res, err
}

func build(ctx context.Context, c Config, p *runner.Pass[record.TaskReport], table io.Writer) error {
	s := NewSummary()
	in, err := sortInputs(p.Inputs, s)
	if err != nil {
		return err
	}
	var samples []trajectory
	seen := map[record.Outcome]bool{}
	files := &scripts{put: func(name string, b []byte) error {
		_, err := p.PutFile(ctx, name, objstore.Bytes(b))
		return err
	}}
	for row, err := range datasets.Rows[record.Rollout](ctx, in) {
		if err != nil {
			return err
		}
		s.Add(row)
		t := view(row)
		if !seen[t.Outcome] {
			seen[t.Outcome] = true
			samples = append(samples, t)
		}
		if err := files.add(t); err != nil {
			return err
		}
	}
	if err := files.close(); err != nil {
		return err
	}
	var html bytes.Buffer
	if err := writePage(&html, c.Title, s, samples); err != nil {
		return fmt.Errorf("report page: %w", err)
	}
	if _, err := p.PutFile(ctx, "report.html", objstore.Bytes(html.Bytes())); err != nil {
		return err
	}
	var text bytes.Buffer
	if err := s.WriteTable(io.MultiWriter(&text, table)); err != nil {
		return err
	}
	if _, err := p.PutFile(ctx, "report.txt", objstore.Bytes(text.Bytes())); err != nil {
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
		case kind == "rollout" && rollouts == nil:
			rollouts = in
			s.Missing = m.Dropped[runner.ReasonInfra]
		case kind == "task":
			s.TasksIn += m.Rows
		case kind == "sft":
			s.SFTRows = max(s.SFTRows, 0) + m.Rows
		default:
			return nil, exit.Configf("--in %s: holds %s rows; a report is made of one rollout dataset, and optionally of the task and SFT datasets around it", in.Location(), kind)
		}
	}
	if rollouts == nil {
		return nil, exit.Configf("--in: give a rollout dataset, such as distill writes")
	}
	return rollouts, nil
}

// scripts writes trajectories into files of about batchBytes, and an index of all.
type scripts struct {
	put   func(name string, b []byte) error
	batch []trajectory
	bytes int
	files int
	index [][]any
}

func (s *scripts) name() string { return fmt.Sprintf("trajectories-%05d.js", s.files) }

func (s *scripts) add(t trajectory) error {
	s.index = append(s.index, []any{t.ID, t.Task, t.Index, t.Outcome, t.Exit, t.Steps, s.name()})
	s.batch = append(s.batch, t)
	s.bytes += t.size()
	if s.bytes < batchBytes {
		return nil
	}
	return s.flush()
}

func (s *scripts) flush() error {
	if len(s.batch) == 0 {
		return nil
	}
	b, err := script("add", s.batch)
	if err != nil {
		return err
	}
	if err := s.put(s.name(), b); err != nil {
		return err
	}
	s.files, s.batch, s.bytes = s.files+1, nil, 0
	return nil
}

func (s *scripts) close() error {
	if err := s.flush(); err != nil {
		return err
	}
	if s.index == nil {
		s.index = [][]any{}
	}
	b, err := script("index", s.index)
	if err != nil {
		return err
	}
	return s.put("index.js", b)
}
