// Package grade says whether a diff solves a task: resolved, not resolved, or not
// known, with the evidence.
//
// Every grading happens in a fresh sandbox that the policy never touched: repository,
// pre-commands, the policy's diff, then the task's test files over it, then the test
// commands, whose output is read by the parser that the task names. Nothing that the
// code under test prints can forge a pass: each command's output is a stream of its
// own, fenced in the kept log by a nonce made for that run; machine-readable reports
// are preferred to text; and of two answers for one test the worse counts.
// docs/grading.md says what code that runs in the same process as the tests can still
// do. Trouble of ours is an error or a verdict without reward, never a 0.
//
// Where nothing can be said because no test ran, because the test files could not be
// placed, or because the sandbox ran out of memory, the tests run once more without the
// diff: when they run then, it was the diff that kept them from it, and that is an answer.
package grade

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"orchard/datasets/record"
	"orchard/internal/grade/parsers"
	"orchard/internal/sandbox"
	"orchard/internal/workspace"
)

// Version is the id of the grading rules. It changes whenever the same evidence could
// give another verdict; verdicts of different versions are never to be pooled.
const Version = "orchard-v1"

// DefaultTestTimeout is for tasks that set none, when the Grader has none either.
const DefaultTestTimeout = 30 * time.Minute

// Grader grades diffs. Its fields do not change once it is used. Safe for concurrent use.
type Grader struct {
	Sandboxes sandbox.Client
	// Spec is the sandbox of a grading: resources and limits. Image is used for tasks
	// that name none. The network stays closed.
	Spec sandbox.Spec
	// Keep turns a log of any length and encoding into a row's Text.
	Keep func(ctx context.Context, b []byte) (record.Text, error)
	// Blob is the whole content of a blob of the task dataset.
	Blob func(ctx context.Context, sha256 string) ([]byte, error)
	// TestTimeout is for all test commands of a task that sets none; 0 is DefaultTestTimeout.
	TestTimeout time.Duration
	// Protect are patterns of file names that a diff may not change (see Protected): such
	// a change is undone before the tests. Nil is Protected; empty protects nothing.
	Protect []string
	Now     func() time.Time // nil is time.Now
	Nonce   func() string    // nil draws 128 random bits

	weigh bool // measure memory, for Try
}

// Grade is the verdict on a diff. An error means that nothing could be found out, for
// reasons outside of task and diff: the caller may try again.
func (g *Grader) Grade(ctx context.Context, task record.Task, diff []byte) (record.Verdict, error) {
	began := g.now()
	f, err := g.find(ctx, task, diff)
	if err != nil {
		return record.Verdict{}, fmt.Errorf("grade task %s: %w", task.TaskID, err)
	}
	log, err := g.Keep(ctx, f.log)
	if err != nil {
		return record.Verdict{}, fmt.Errorf("grade task %s: keep the log: %w", task.TaskID, err)
	}
	return g.verdict(task, f, log, began), nil
}

func (g *Grader) verdict(task record.Task, f finding, log record.Text, began time.Time) record.Verdict {
	v := record.Verdict{
		Outcome: f.outcome, Reward: f.outcome.Reward(), Reason: f.reason, Grader: Version, Parser: task.LogParser,
		ApplyMethod: f.method, Dropped: f.dropped, Tests: f.tests, Log: log,
		DurationMS: g.now().Sub(began).Milliseconds(),
	}
	if v.Dropped == nil {
		v.Dropped = []string{}
	}
	if v.Tests == nil {
		v.Tests = []record.TestResult{}
	}
	return v
}

// Canary grades the task's own gold patch. Anything but Resolved means that a rollout
// of this task would say nothing about the policy; an image that the task itself names
// and that will never start is TaskInvalid.
func (g *Grader) Canary(ctx context.Context, task record.Task) (record.Verdict, error) {
	gold, err := g.text(ctx, task.GoldPatch)
	if err != nil {
		return record.Verdict{}, fmt.Errorf("gold patch of task %s: %w", task.TaskID, err)
	}
	return g.Grade(ctx, task, gold)
}

// finding is a verdict before it is written down.
type finding struct {
	outcome record.Outcome
	reason  string
	method  string
	dropped []string
	tests   []record.TestResult
	log     []byte
	// retry marks a null outcome that the diff itself may be the cause of.
	retry bool
	more
}

func invalid(format string, a ...any) finding {
	return finding{outcome: record.TaskInvalid, reason: fmt.Sprintf(format, a...)}
}

// find grades, and grades again without the diff where that tells what the first could not.
func (g *Grader) find(ctx context.Context, task record.Task, diff []byte) (finding, error) {
	if f, ok := g.check(task); !ok {
		return f, nil
	}
	if empty(diff) {
		return finding{outcome: record.EmptyPatch, reason: "the diff changes no file"}, nil
	}
	f, err := g.attempt(ctx, task, diff)
	if sandbox.IsOutOfMemory(err) {
		f, err = finding{
			outcome: record.NoTestsRan, reason: "the sandbox ran out of memory", retry: true,
			tests: required(task, parsers.Result{}),
		}, nil
	}
	if err != nil || !f.retry {
		return f, err
	}
	without, err := g.attempt(ctx, task, nil)
	if err != nil {
		return finding{}, fmt.Errorf("again without the diff: %w", err)
	}
	if !without.retry {
		f.outcome = record.Unresolved
		f.reason = "with the diff " + f.reason + "; without it the tests run"
	}
	return f, nil
}

// check refuses a task that cannot be graded, whatever the diff.
func (g *Grader) check(task record.Task) (finding, bool) {
	if _, err := parsers.ByName(task.LogParser); err != nil {
		return invalid("%v", err), false
	}
	switch {
	case len(task.TestCmds) == 0:
		return invalid("test_cmds is empty: there is nothing to run"), false
	case len(task.FailToPass)+len(task.PassToPass) == 0:
		return invalid("fail_to_pass and pass_to_pass are empty: any diff would do"), false
	case g.spec(task).Image == "":
		return invalid("the task names no image, and there is no default image"), false
	}
	return finding{}, true
}

// empty reports whether a diff has no section about any file.
func empty(diff []byte) bool {
	if len(bytes.TrimSpace(diff)) == 0 {
		return true
	}
	paths, err := workspace.Paths(diff)
	return err == nil && len(paths) == 0
}

func (g *Grader) spec(task record.Task) sandbox.Spec {
	s := g.Spec
	s.ID, s.OpenNetwork = "", false
	if task.Image != "" {
		s.Image = task.Image
	}
	return s
}

func (g *Grader) timeout(task record.Task) time.Duration {
	switch {
	case task.TimeoutMS > 0:
		return time.Duration(task.TimeoutMS) * time.Millisecond
	case g.TestTimeout > 0:
		return g.TestTimeout
	}
	return DefaultTestTimeout
}

func (g *Grader) now() time.Time {
	if g.Now == nil {
		return time.Now()
	}
	return g.Now()
}

// text is the exact bytes of a row's text.
func (g *Grader) text(ctx context.Context, t record.Text) ([]byte, error) {
	if t.Blob == "" {
		return []byte(t.Value), nil
	}
	return g.Blob(ctx, t.Blob)
}
