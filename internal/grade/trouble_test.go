package grade

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"orchard/datasets/record"
	"orchard/internal/sandbox"
)

var errTrouble = errors.New("trouble of ours")

// watched are real sandboxes that a test can disturb, and that count their ends.
type watched struct {
	sandbox.Client
	during func(b *watchedBox, c sandbox.Command) // before each command; nil does nothing

	mu            sync.Mutex
	opened, ended int
}

type watchedBox struct {
	sandbox.Sandbox
	w *watched
}

func (w *watched) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	b, err := w.Client.Create(ctx, spec)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.opened++
	return &watchedBox{Sandbox: b, w: w}, nil
}

func (b *watchedBox) Exec(ctx context.Context, c sandbox.Command) (sandbox.Result, error) {
	if b.w.during != nil {
		b.w.during(b, c)
	}
	return b.Sandbox.Exec(ctx, c)
}

func (b *watchedBox) Close(ctx context.Context) error {
	b.w.mu.Lock()
	b.w.ended++
	b.w.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err // a context that is over ends nothing
	}
	return b.Sandbox.Close(ctx)
}

// TestTroubleIsAnErrorAndNoVerdict: whatever is not the fault of task or diff.
func TestTroubleIsAnErrorAndNoVerdict(t *testing.T) {
	t.Parallel()
	isTest := func(c sandbox.Command) bool { return strings.HasPrefix(c.Shell, "sh tests/t.sh") }
	tests := []struct {
		name   string
		change func(t *testing.T, b *built, g *Grader, w *watched, cancel func())
	}{
		{"sandbox ends while the tests run", func(t *testing.T, b *built, _ *Grader, w *watched, _ func()) {
			b.task.TestCmds = []string{"sh tests/t.sh; sleep 600"}
			var wait sync.WaitGroup
			t.Cleanup(wait.Wait)
			w.during = func(box *watchedBox, c sandbox.Command) {
				if isTest(c) {
					wait.Go(func() { box.Sandbox.Close(context.Background()) })
				}
			}
		}},
		{"caller gives up while the tests run", func(_ *testing.T, b *built, _ *Grader, w *watched, cancel func()) {
			b.task.TestCmds = []string{"sh tests/t.sh; sleep 600"}
			w.during = func(_ *watchedBox, c sandbox.Command) {
				if isTest(c) {
					cancel()
				}
			}
		}},
		{"no bundle in the store", func(_ *testing.T, b *built, _ *Grader, _ *watched, _ func()) { clear(b.blobs) }},
		{"log cannot be kept", func(_ *testing.T, _ *built, g *Grader, _ *watched, _ func()) {
			g.Keep = func(context.Context, []byte) (record.Text, error) { return record.Text{}, errTrouble }
		}},
		{"no sandbox", func(_ *testing.T, _ *built, g *Grader, _ *watched, _ func()) { g.Sandboxes = none{} }},
		{"default image refused", func(_ *testing.T, _ *built, g *Grader, _ *watched, _ func()) { g.Spec.Image = "/no/such/image.tar" }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := build(t, shellProject)
			diff := b.diff(t, shellProject.gold)
			g := b.grader(t)
			w := &watched{Client: g.Sandboxes}
			g.Sandboxes = w
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			tt.change(t, &b, g, w, cancel)
			v, err := g.Grade(ctx, b.task, diff)
			if err == nil {
				t.Errorf("got a verdict: %s: %s", v.Outcome, v.Reason)
			}
			if w.opened != w.ended {
				t.Errorf("%d sandboxes were made and %d ended", w.opened, w.ended)
			}
		})
	}
}

type none struct{}

func (none) Create(context.Context, sandbox.Spec) (sandbox.Sandbox, error) { return nil, errTrouble }

// TestOutputWhoseMiddleIsLost: what was printed between may have been anything.
func TestOutputWhoseMiddleIsLost(t *testing.T) {
	t.Parallel()
	b := build(t, shellProject)
	b.task.TestCmds = []string{"sh tests/t.sh; yes '# noise' | head -c 40000000"}
	v := b.grade(t, b.diff(t, shellProject.gold))
	if v.Outcome != record.Unresolved || !strings.Contains(v.Reason, "the middle is not known") {
		t.Errorf("got %s: %s", v.Outcome, v.Reason)
	}
}

func TestSandboxesOfAGradingAreFreshAndEnd(t *testing.T) {
	t.Parallel()
	b := build(t, shellProject)
	g := b.grader(t)
	w := &watched{Client: g.Sandboxes}
	g.Sandboxes = w
	b.task.TestCmds = []string{"no-such-runner"}
	v, err := g.Grade(t.Context(), b.task, b.diff(t, shellProject.gold))
	if err != nil || v.Outcome != record.NoTestsRan || v.Reward != nil {
		t.Errorf("%+v, %v", v, err)
	}
	if w.opened != 2 || w.ended != 2 {
		t.Errorf("%d sandboxes were made and %d ended, want 2: with the diff and without", w.opened, w.ended)
	}
}
