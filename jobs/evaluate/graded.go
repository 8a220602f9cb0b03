package evaluate

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/evaluation"
	"orchard/internal/exit"
	"orchard/internal/grade"
	"orchard/internal/rollout"
	"orchard/internal/rollout/play"
	"orchard/internal/runner"
	"orchard/internal/seal"
	"orchard/jobs/evaluate/predictions"
)

// Harness is the harness of rows that are the predictions of other systems.
const Harness = "predictions"

// Reasons for which predictions are no rows.
const (
	reasonMissing = "missing_prediction"
	reasonUnknown = "unknown_task"
)

// graded is what decides the rows of an evaluation of predictions.
type graded struct {
	Predictions []string `json:"predictions"` // sha256 of the files
	Missing     string   `json:"missing"`
	Unknown     string   `json:"unknown"`
	Image       string   `json:"default_image"`
	TestMS      int64    `json:"test_timeout_ms"`
	Canary      bool     `json:"canary"`
	Grader      string   `json:"grader"`
}

// given is a prediction to grade: what is not there is nil.
type given struct {
	model      string
	task       *record.Task
	prediction *predictions.Prediction
}

// grading is the work of an evaluation of predictions.
func (c Config) grading(d runner.Deps) (work, error) {
	set := graded{Missing: c.Missing, Unknown: c.Unknown, Image: c.DefaultImage, TestMS: c.TestTimeout.Milliseconds(), Canary: c.Canary, Grader: grade.Version}
	var all predictions.Set
	for _, file := range c.Predictions {
		content, err := os.ReadFile(file)
		if err != nil {
			return work{}, exit.Configf("--predictions: %w", err)
		}
		if err := all.Add(file, content); err != nil {
			return work{}, exit.Inputf("--predictions %w", err)
		}
		set.Predictions = append(set.Predictions, seal.Bytes(content))
	}
	now := d.WithDefaults().Now
	grader, check, err := c.Boxes.Grading(c.Config, now)
	if err != nil {
		return work{}, err
	}
	g := &predicted{set: &all, grader: grader, canary: c.Canary, missing: c.Missing, now: now}
	w := work{
		stage: runner.Stage{Name: "evaluate", Version: Version, Settings: set},
		source: runner.Source[record.Rollout]{Ready: check, Units: func(ctx context.Context, in []*datasets.Version) ([]runner.Unit, error) {
			return g.units(ctx, in, c.Unknown)
		}, Do: g.do},
		each: 1,
	}
	for _, m := range all.Models() {
		w.systems = append(w.systems, evaluation.System{Policy: m, Harness: Harness})
	}
	w.expected = func(taskID string) []evaluation.System {
		var list []evaluation.System
		for _, s := range w.systems {
			if c.Missing == MissingUnresolved || all.Of(s.Policy, taskID) != nil {
				list = append(list, s)
			}
		}
		return list
	}
	return w, nil
}

// predicted grades predictions.
type predicted struct {
	set      *predictions.Set
	grader   func(rollout.Store) rollout.Grader
	canary   bool
	missing  string
	now      func() time.Time
	canaries rollout.Canaries
}

// units are every task for every model, and the predictions for tasks that are not there.
func (g *predicted) units(ctx context.Context, in []*datasets.Version, unknown string) ([]runner.Unit, error) {
	var list []runner.Unit
	known := map[string]bool{}
	models := g.set.Models()
	unit := func(w given, task string) {
		list = append(list, runner.Unit{ID: seal.ID(task, w.model, Harness, "0"), Task: task + " of " + w.model, Work: w})
	}
	if err := play.Tasks(ctx, in, func(task *record.Task) error {
		known[task.TaskID] = true
		for _, m := range models {
			unit(given{m, task, g.set.Of(m, task.TaskID)}, task.TaskID)
		}
		return nil
	}); err != nil {
		return nil, err
	}
	var strangers []string
	for i, p := range g.set.All() {
		if !known[p.Task] {
			strangers = append(strangers, fmt.Sprintf("%s (%s)", p.Task, p.At))
			unit(given{p.Model, nil, &g.set.All()[i]}, p.Task)
		}
	}
	if len(strangers) > 0 && unknown == UnknownError {
		more := ""
		if n := len(strangers) - 3; n > 0 {
			strangers, more = strangers[:3], fmt.Sprintf(" and %d more", n)
		}
		return nil, exit.Inputf("--predictions: no input has the task %s%s; give the tasks that were predicted, or --unknown-predictions=drop to leave these out", strings.Join(strangers, ", "), more)
	}
	return list, nil
}

func (g *predicted) do(ctx context.Context, u runner.Unit, t runner.Tools) (record.Rollout, error) {
	w := u.Work.(given)
	if w.task == nil {
		return record.Rollout{}, runner.Drop(reasonUnknown, fmt.Errorf("no input has the task %s (%s)", w.prediction.Task, w.prediction.At))
	}
	if w.prediction == nil && g.missing == MissingDrop {
		return record.Rollout{}, runner.Drop(reasonMissing, fmt.Errorf("%s has no prediction for task %s", w.model, w.task.TaskID))
	}
	row := record.Rollout{
		RolloutID: u.ID, TaskID: w.task.TaskID, Source: w.task.Source, Repo: w.task.Repo, Language: w.task.Language, Policy: w.model, Harness: Harness,
		Trajectory: record.Trajectory{DiffSHA256: seal.Bytes(nil), Messages: []record.Message{}, Steps: []record.Step{}},
		Span:       record.Span{Started: g.clock()},
	}
	err := g.grade(ctx, w, &row, rollout.Store{Keep: t.Keep, Blob: t.Blob})
	row.Span.Ended = g.clock()
	return row, err
}

func (g *predicted) grade(ctx context.Context, w given, row *record.Rollout, store rollout.Store) (err error) {
	tr := &row.Trajectory
	if w.prediction == nil { // needs no sandbox, and says nothing of the task
		tr.ExitStatus = record.ExitMissing
		row.Verdict = record.Verdict{Outcome: record.EmptyPatch, Reward: record.EmptyPatch.Reward(), Grader: grade.Version,
			Reason: "the system has no prediction for this task, which counts as not resolved", Dropped: []string{}, Tests: []record.TestResult{}}
		return nil
	}
	tr.ExitStatus = record.ExitSubmitted
	if w.prediction.Null {
		tr.ExitDetail = "the patch is null"
	}
	diff := []byte(w.prediction.Patch)
	if tr.Diff, err = store.Keep(ctx, diff); err != nil {
		return fmt.Errorf("keep the diff: %w", err)
	}
	tr.DiffSHA256, tr.Submission = seal.Bytes(diff), tr.Diff
	grader := g.grader(store)
	if g.canary {
		bad, err := g.canaries.Check(ctx, w.task.TaskID, func(ctx context.Context) (record.Verdict, error) { return grader.Canary(ctx, *w.task) })
		if err != nil {
			return err
		}
		if bad != nil {
			row.Verdict = *bad
			return nil
		}
	}
	if row.Verdict, err = grader.Grade(ctx, *w.task, diff); err != nil {
		return fmt.Errorf("grade: %w", err)
	}
	row.Usage.SandboxMS = row.Verdict.DurationMS
	return nil
}

func (g *predicted) clock() time.Time { return g.now().UTC().Truncate(time.Microsecond) }
