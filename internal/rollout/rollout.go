// Package rollout plays one unit: a sandbox with the task's repository, a harness and
// a model in it, the diff that came of it, and a verdict from a second, fresh sandbox.
//
// Every stage that rolls out (distill, pass rate, BAR, evaluation) uses Player, so that
// the same unit means the same thing everywhere. The contract with the runner: a row is
// what the policy did and what that is worth; an error is trouble of ours, and the unit
// is to be tried again. Nothing that a policy does wrong is ever an error.
package rollout

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/harness"
	"orchard/internal/llm"
	"orchard/internal/sandbox"
	"orchard/internal/seal"
	"orchard/internal/workspace"
)

// Grader says what a diff is worth; grade.Grader is one. An error is trouble of ours.
type Grader interface {
	Grade(ctx context.Context, task record.Task, diff []byte) (record.Verdict, error)
	// Canary grades the task's own gold patch.
	Canary(ctx context.Context, task record.Task) (record.Verdict, error)
}

// Store is what a unit keeps and reads beside its row. Safe for concurrent use.
type Store struct {
	// Keep turns bytes of any length and encoding into a row's Text.
	Keep func(ctx context.Context, b []byte) (record.Text, error)
	// Blob is the whole content of a blob of the task dataset.
	Blob func(ctx context.Context, sha256 string) ([]byte, error)
	// Put stores a blob beside the row; only needed with Player.KeepDiffs.
	Put func(ctx context.Context, b []byte) (sha256 string, err error)
}

// Player plays units. Safe for concurrent use.
type Player struct {
	Sandboxes sandbox.Client
	Harness   harness.Harness
	Model     llm.Model
	Policy    string // the model's name, in every row
	// Grader makes the grader of one unit, which keeps its logs in store.
	Grader func(store Store) Grader
	// Spec is the sandbox of a rollout: resources, lifetime, lease. Image is used for
	// tasks that name none.
	Spec     sandbox.Spec
	Sampling harness.Sampling // Seed is set for each unit
	Limits   harness.Limits
	Seed     int64 // of the run
	// KeepDiffs keeps the diff after each step, each distinct one once, as a blob.
	KeepDiffs bool
	Now       func() time.Time
}

// ID names a rollout: the same task, policy, harness and index give the same id.
func (p *Player) ID(taskID string, index int64) string {
	return seal.ID(taskID, p.Policy, p.Harness.Name(), strconv.FormatInt(index, 10))
}

// blank is the row of a rollout that has just begun.
func (p *Player) blank(task record.Task, index int64) record.Rollout {
	return record.Rollout{
		RolloutID: p.ID(task.TaskID, index), TaskID: task.TaskID, Source: task.Source, Repo: task.Repo, Language: task.Language,
		Policy: p.Policy, Harness: p.Harness.Name(), Index: index,
		Seed:       seal.Seed(p.Seed, task.TaskID, strconv.FormatInt(index, 10)),
		Trajectory: record.Trajectory{DiffSHA256: seal.Bytes(nil), Messages: []record.Message{}, Steps: []record.Step{}},
		Span:       record.Span{Started: p.now()},
	}
}

func (p *Player) now() time.Time { return p.Now().UTC().Truncate(time.Microsecond) }

// Unplayed is the row of a rollout that is not played, since v says that its task
// cannot be.
func (p *Player) Unplayed(task record.Task, index int64, v record.Verdict) record.Rollout {
	row := p.blank(task, index)
	row.Verdict, row.Span.Ended = v, row.Span.Started
	return row
}

// Play plays one rollout of task to its verdict.
func (p *Player) Play(ctx context.Context, task record.Task, index int64, store Store) (record.Rollout, error) {
	row := p.blank(task, index)
	meter := llm.Count(p.Model)
	diff, played, err := p.play(ctx, task, &row, meter, store)
	row.Usage = Usage(meter.Totals())
	if err != nil {
		return p.failed(ctx, task, row, diff, err, store)
	}
	if row.Trajectory.Diff, err = store.Keep(ctx, diff); err != nil {
		return row, fmt.Errorf("keep the diff: %w", err)
	}
	row.Trajectory.DiffSHA256 = seal.Bytes(diff)
	if row.Verdict, err = p.Grader(store).Grade(ctx, task, diff); err != nil {
		return row, fmt.Errorf("grade: %w", err)
	}
	row.Usage.SandboxMS = played.Milliseconds() + row.Verdict.DurationMS
	row.Span.Ended = p.now()
	return row, nil
}

// play runs the harness in a sandbox of its own and takes the diff, whatever became of
// the harness. The sandbox is gone when it returns.
func (p *Player) play(ctx context.Context, task record.Task, row *record.Rollout, model llm.Model, store Store) (diff []byte, took time.Duration, err error) {
	spec := p.Spec
	if task.Image != "" {
		spec.Image = task.Image
	}
	spec.Workdir = task.Workdir
	began := p.Now()
	sb, err := p.Sandboxes.Create(ctx, spec)
	if err != nil {
		return nil, 0, fmt.Errorf("make a sandbox of image %q: %w", spec.Image, err)
	}
	defer func() {
		took = p.Now().Sub(began)
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		if cerr := sb.Close(closing); cerr != nil && err == nil && !sandbox.IsLost(cerr) {
			err = fmt.Errorf("end sandbox %s: %w", sb.ID(), cerr)
		}
	}()
	if err := workspace.Prepare(ctx, sb, task, bundle(task, store)); err != nil {
		return nil, 0, err
	}
	sampling := p.Sampling
	sampling.Seed = row.Seed
	tree := p.tree(sb, task, store)
	row.Trajectory, err = p.run(ctx, harness.Episode{
		Statement: task.Statement, Workdir: task.Workdir, Model: model,
		Sampling: sampling, Limits: p.Limits, Shell: sb, Keep: store.Keep, Clock: p.Now,
		TreeSHA256: tree.sha256,
	})
	row.Trajectory.StepDiffs, err = tree.diffs(), errors.Join(err, tree.err)
	final, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	diff, derr := workspace.Diff(final, sb, task)
	var large *workspace.TooLargeError
	if errors.As(derr, &large) {
		// Nobody can grade it, and the policy made it: that is an answer, and a wrong one.
		row.Trajectory.ExitDetail = large.Error()
		diff, derr = nil, nil
	}
	return diff, 0, errors.Join(err, derr)
}

// run plays the episode; a panic in a harness is an error of this unit and no more.
func (p *Player) run(ctx context.Context, e harness.Episode) (t record.Trajectory, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("harness %s panicked: %v", p.Harness.Name(), v)
		}
	}()
	return p.Harness.Run(ctx, e)
}

// failed is the end of a unit that could not be played: a row for a task that cannot
// be, an error for the rest, beside the row as far as it had come. A refused image is
// the task's fault only when the task names it.
func (p *Player) failed(ctx context.Context, task record.Task, row record.Rollout, diff []byte, err error, store Store) (record.Rollout, error) {
	var invalid *workspace.TaskError
	var refused *sandbox.Refused
	if errors.As(err, &invalid) || errors.As(err, &refused) && task.Image != "" {
		row.Verdict = Invalid(err.Error())
		row.Span.Ended = p.now()
		return row, nil
	}
	if len(diff) > 0 {
		keeping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		text, kerr := store.Keep(keeping, diff)
		if kerr == nil {
			row.Trajectory.Diff, row.Trajectory.DiffSHA256 = text, seal.Bytes(diff)
			err = fmt.Errorf("%w (its diff of %d bytes until then is kept with this attempt)", err, len(diff))
		}
	}
	return row, classify(err)
}

// classify marks the errors after which no other unit can do better: a key or model
// that the server refuses, a budget that is spent, a sandbox that no task asked for
// (the default image, the flags' CPU and memory) and that will never start.
func classify(err error) error {
	var e *llm.Error
	var refused *sandbox.Refused
	switch {
	case errors.As(err, &refused):
		return exit.With(exit.Config, err)
	case llm.Is(err, llm.OverBudget):
		return exit.With(exit.Gone, err)
	case errors.As(err, &e) && (e.Status == 401 || e.Status == 403 || e.Status == 404):
		return exit.With(exit.Config, err)
	}
	return err
}

// Invalid is the verdict on a task that cannot be played or graded.
func Invalid(reason string) record.Verdict {
	return record.Verdict{Outcome: record.TaskInvalid, Reason: reason, Dropped: []string{}, Tests: []record.TestResult{}}
}

// bundle opens the task's history, or is nil when the image has it.
func bundle(task record.Task, store Store) workspace.Source {
	if task.RepoBlob == "" {
		return nil
	}
	return func(ctx context.Context) (io.ReadCloser, int64, error) {
		b, err := store.Blob(ctx, task.RepoBlob)
		if err != nil {
			return nil, 0, err
		}
		return io.NopCloser(bytes.NewReader(b)), int64(len(b)), nil
	}
}
