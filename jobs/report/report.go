// Package report is the stage that makes rollouts readable: a table for the terminal,
// a row for each task, and an HTML page with charts and a viewer for any trajectory.
//
// The page holds the headline and one sample of each outcome; all other trajectories
// lie beside it as script files, which work from file:// and through `orchard report
// serve` alike. What a sandbox printed is shown as text, never run as markup. What the
// rollouts say of policies and harnesses is internal/evaluation's, as in `orchard
// evaluate`: no headline where too many rollouts have no reward.
package report

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/evaluation"
	"orchard/internal/exit"
	"orchard/internal/objstore"
	"orchard/internal/runner"
	"orchard/internal/stats"
)

// Version goes up whenever the rows or files for the same inputs change.
const Version = 3

// Config is the stage's settings.
type Config struct {
	runner.Config
	Title     string
	Baseline  string       // URI of an earlier run's rollouts
	MaxUnseen runner.Share // of rollouts without a reward, above which there is no headline
	Resamples int
}

// Defaults is the configuration without any flag.
func Defaults() Config {
	return Config{Config: runner.Default(), Title: "Rollouts", MaxUnseen: .02, Resamples: stats.Resamples}
}

// Flags are the flags that fill c.
func Flags(c *Config) []cli.Flag {
	return append(runner.Flags(&c.Config),
		&cli.StringFlag{Name: "title", EnvVars: []string{"ORCHARD_REPORT_TITLE"}, Destination: &c.Title, Value: c.Title, Usage: "`TEXT` above the page"},
		&cli.StringFlag{Name: "baseline", EnvVars: []string{"ORCHARD_BASELINE"}, Destination: &c.Baseline, Usage: "`URI` of an earlier run's rollouts: what changed since"},
		runner.ShareFlag("max-infra-headline", "ORCHARD_MAX_INFRA_HEADLINE", "", "`SHARE` of rollouts without a reward above which no headline is given, only bounds", &c.MaxUnseen),
		&cli.IntFlag{Name: "resamples", EnvVars: []string{"ORCHARD_RESAMPLES"}, Destination: &c.Resamples, Value: c.Resamples, Usage: "`NUMBER` of draws of the bootstrap"},
	)
}

// Validate says everything that is wrong, by the names of the flags.
func (c Config) Validate() error {
	errs := []error{c.Config.Validate()}
	if c.Resamples < 100 || c.Resamples > 1_000_000 {
		errs = append(errs, fmt.Errorf("--resamples: %d must be 100 to 1000000", c.Resamples))
	}
	return exit.With(exit.Config, errors.Join(errs...))
}

// settings is what decides a report beside its inputs.
type settings struct {
	Title     string  `json:"title"`
	Baseline  bool    `json:"baseline"` // the last input is the baseline
	MaxUnseen float64 `json:"max_infra_headline"`
	Resamples int     `json:"resamples"`
}

// Run makes the report and prints its table to d.Stdout.
func Run(ctx context.Context, c Config, d runner.Deps) (runner.Result, error) {
	if err := c.Validate(); err != nil {
		return runner.Failed(c.Config, "report", err)
	}
	stage := runner.Stage{Name: "report", Version: Version, Settings: settings{c.Title, c.Baseline != "", float64(c.MaxUnseen), c.Resamples}}
	if c.Baseline != "" {
		c.In = append(slices.Clone(c.In), c.Baseline)
	}
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
	s.Options = evaluation.Options{MaxUnknown: float64(c.MaxUnseen), Resamples: c.Resamples, Seed: c.Seed}
	inputs, before := p.Inputs, (*datasets.Version)(nil)
	if c.Baseline != "" {
		inputs, before = inputs[:len(inputs)-1], inputs[len(inputs)-1]
	}
	values, inputs := credits(ctx, inputs)
	defer values.close()
	in, err := sortInputs(inputs, s)
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
		if t.Curves, err = values.of(row); err != nil {
			return err
		}
		inPage.add(t)
		if err := files.add(t); err != nil {
			return err
		}
	}
	if err := files.close(); err != nil {
		return err
	}
	if before != nil {
		if err := s.since(ctx, before); err != nil {
			return err
		}
	}
	numbers, err := s.Analysis().Files(c.Title)
	if err != nil {
		return err
	}
	for _, f := range numbers { // evaluation.json and evaluation.md under the report's name
		if name, ok := renamed[f.Name]; ok {
			if err := put(name, f.Content); err != nil {
				return err
			}
		}
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

var renamed = map[string]string{"evaluation.json": "report.json", "evaluation.md": "report.md"}

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
			return nil, exit.Inputf("--in %s: holds %s rows; a report is made of one rollout dataset, and of the task, SFT and credit datasets around it", in.Location(), kind)
		}
	}
	if rollouts == nil {
		return nil, exit.Inputf("--in: none holds rollouts; give a rollout dataset, such as `orchard distill` makes")
	}
	return rollouts, nil
}
