package evaluate

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/evaluation"
	"orchard/internal/evaluation/history"
	"orchard/internal/exit"
	"orchard/internal/objstore"
	"orchard/internal/rollout/play"
	"orchard/internal/runner"
	"orchard/internal/seal"
)

// numbers is what decides an evaluation beside its inputs.
type numbers struct {
	Rows      any     `json:"rows"` // the settings of the rollouts
	Ks        []int64 `json:"pass_k"`
	MaxUnseen float64 `json:"max_infra_headline"`
	Resamples int     `json:"resamples"`
	Baseline  bool    `json:"baseline"` // the last input is the baseline
}

// openBaseline opens --baseline before hours of work, so that one that is none ends them
// before they begin. nil is no baseline. Where nothing is analysed it is not opened.
func (c Config) openBaseline(ctx context.Context, d runner.Deps) (*datasets.Version, error) {
	if c.Baseline == "" || c.Baseline == Previous || c.Mode == runner.ModePlan {
		return nil, nil
	}
	return runner.OpenAs(ctx, d.WithDefaults().Open, "baseline", c.Baseline, "rollout", "evaluate")
}

// analyse makes the dataset of evaluations beside that of the rollouts, and prints what it
// says. A run that finds it there says the same.
func (c Config) analyse(ctx context.Context, d runner.Deps, w work, made runner.Result, before *datasets.Version) error {
	ks, err := c.ks()
	if err != nil {
		return err
	}
	out, err := datasets.Parse(c.Out)
	if err != nil {
		return err
	}
	if c.Baseline == Previous {
		if before, err = c.previous(ctx, d, made.URI); err != nil {
			return err
		}
	}
	var more []string
	if before != nil {
		more = []string{before.Location().String()}
	}
	own := c.After(out.Beside(history.Name(out.Name)).String(), made, more...)
	set := numbers{w.stage.Settings, ks, float64(c.MaxUnseen), c.Resamples, before != nil}
	stage := runner.Stage{Name: "evaluation", Version: AnalysisVersion, Settings: set, Model: w.stage.Model}
	r, err := runner.Batch(ctx, own, d, stage, func(ctx context.Context, p *runner.Pass[record.Evaluation]) error {
		return w.write(ctx, p, set, c.Seed)
	})
	if err != nil {
		return fmt.Errorf("evaluate %s: %w", made.URI, err)
	}
	return c.show(ctx, d.WithDefaults(), r)
}

// write makes the files and rows of an evaluation.
func (w work) write(ctx context.Context, p *runner.Pass[record.Evaluation], set numbers, seed int64) error {
	tasks := p.Inputs[1:]
	if set.Baseline {
		tasks = tasks[:len(tasks)-1]
	}
	now, uri := evaluation.NewSet(), ""
	for _, s := range w.systems {
		now.ExpectSystem(s)
	}
	if err := play.Tasks(ctx, tasks, func(task *record.Task) error {
		for _, s := range w.expected(task.TaskID) {
			now.Expect(task.TaskID, task.Repo, s, w.each)
		}
		return nil
	}); err != nil {
		return err
	}
	if err := now.Read(ctx, p.Inputs[0]); err != nil {
		return err
	}
	options := evaluation.Options{Ks: set.Ks, MaxUnknown: set.MaxUnseen, Resamples: set.Resamples, Seed: seed}
	a := evaluation.Analyze(now, options)
	if set.Baseline {
		before := p.Inputs[len(p.Inputs)-1]
		earlier := evaluation.NewSet()
		earlier.LoseDropped(before)
		if err := earlier.Read(ctx, before); err != nil {
			return err
		}
		uri = before.Location().String()
		if err := a.Compare(now, earlier, uri, options); err != nil {
			return exit.Inputf("--baseline: %w", err)
		}
	}
	files, err := a.Files("Evaluation")
	if err != nil {
		return err
	}
	for _, f := range files {
		if _, err := p.PutFile(ctx, f.Name, objstore.Bytes(f.Content)); err != nil {
			return err
		}
	}
	for _, row := range a.Rows() {
		p.Read(1)
		row.EvaluationID = seal.ID(row.Policy, row.Harness)
		if err := p.Emit(ctx, row); err != nil {
			return err
		}
	}
	return nil
}

// show prints the text of an evaluation, and puts what a workflow wants into its folder.
func (c Config) show(ctx context.Context, d runner.Deps, r runner.Result) error {
	v, err := datasets.Open(ctx, d.Open, r.URI)
	if err != nil {
		return err
	}
	prefix := datasets.FilesPrefix(v.Location().Name, v.Manifest().Key)
	var rows []record.Evaluation
	for row, err := range datasets.Rows[record.Evaluation](ctx, v) {
		if err != nil {
			return err
		}
		rows = append(rows, row)
	}
	list, err := json.MarshalIndent(rows, "", "  ")
	if err != nil {
		return err
	}
	baseline := ""
	for _, row := range rows {
		baseline = cmp.Or(baseline, row.Baseline)
	}
	put := map[string][]byte{"evaluation": []byte(r.URI), "systems.json": append(list, '\n'), "baseline": []byte(baseline)}
	for _, name := range []string{"evaluation.txt", "evaluation.md", "evaluation.json"} {
		if put[name], _, err = objstore.ReadAll(ctx, v.Store(), prefix+name, 1<<30); err != nil {
			return fmt.Errorf("file %s of evaluation %s: %w", name, v.Location(), err)
		}
	}
	for name, content := range put {
		if err := runner.SaveOutput(c.OutputDir, name, content); err != nil {
			return err
		}
	}
	var page string
	for _, f := range r.Files {
		if f.Name == "evaluation.md" {
			page = f.URI
		}
	}
	_, err = fmt.Fprintf(d.Stdout, "%spage  %s\n", bytes.ToValidUTF8(put["evaluation.txt"], []byte("?")), page)
	return err
}
