package grade

import (
	"context"
	"strings"
	"testing"

	"orchard/datasets/record"
	"orchard/internal/sandbox"
)

// Try says what the tests say of the base itself, and of all tests, and makes one sandbox.
func TestTry(t *testing.T) {
	t.Parallel()
	b := build(t, shellProject)
	gold := b.diff(t, shellProject.gold)
	b.task.FailToPass = []string{"adds"} // negative is reported all the same
	for _, tt := range []struct {
		name    string
		diff    []byte
		change  func(*record.Task)
		outcome record.Outcome
		all     map[string]string
	}{
		{"gold", gold, nil, record.Resolved, map[string]string{"keeps": "passed", "adds": "passed", "negative": "passed"}},
		{"base", nil, nil, record.Unresolved, map[string]string{"keeps": "passed", "adds": "failed", "negative": "failed"}},
		{"base where nothing fails", nil, func(t *record.Task) { t.FailToPass = []string{"keeps"} }, record.Resolved, map[string]string{"keeps": "passed", "adds": "failed", "negative": "failed"}},
		{"empty", []byte{}, nil, record.EmptyPatch, nil},
		{"no runner", gold, func(t *record.Task) { t.TestCmds = []string{"no-such-runner"} }, record.NoTestsRan, nil},
		{"image", gold, func(t *record.Task) { t.Image = "/no/such/image.tar" }, record.TaskInvalid, nil},
		{"parser", nil, func(t *record.Task) { t.LogParser = "x" }, record.TaskInvalid, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			task := b.task
			if tt.change != nil {
				tt.change(&task)
			}
			g := b.grader(t)
			w := &watched{Client: g.Sandboxes}
			g.Sandboxes = w
			got, err := g.Try(t.Context(), task, tt.diff)
			if err != nil || got.Outcome != tt.outcome || got.Reason == "" || got.Tests == nil {
				t.Fatalf("%+v, %v", got, err)
			}
			if len(got.All) != len(tt.all) {
				t.Errorf("tests %v", got.All)
			}
			for name, status := range tt.all {
				if got.All[name] != status {
					t.Errorf("%s is %q, want %q", name, got.All[name], status)
				}
			}
			if (got.TestsTook != nil) != (tt.all != nil || tt.name == "no runner") || got.Refused != (tt.name == "image") || got.OutOfMemory {
				t.Errorf("%+v", got)
			}
			if w.opened > 1 || w.opened != w.ended {
				t.Errorf("%d sandboxes were made and %d ended", w.opened, w.ended)
			}
		})
	}
}

func TestTryIsToldOfMemory(t *testing.T) {
	t.Parallel()
	b := build(t, shellProject)
	g := b.grader(t)
	g.Sandboxes = greedy{g.Sandboxes}
	got, err := g.Try(t.Context(), b.task, nil)
	if err != nil || !got.OutOfMemory || got.Outcome != record.NoTestsRan || got.Reward != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestPeakMemory(t *testing.T) {
	t.Parallel()
	const mine = "104857600\n"
	for out, want := range map[string]int64{
		mine: 100 << 20, mine + "536870912\n": 100 << 20,
		mine + "9223372036854771712\n": 0, // the whole machine's group
		mine + "max\n":                 0,
		"":                             0, "max\n": 0, "-1\n": 0, "0": 0, "1 2 3": 0, strings.Repeat("9", 30): 0,
	} {
		got := parsePeak([]byte(out))
		if want == 0 && got != nil || want != 0 && (got == nil || *got != want) {
			t.Errorf("%q: %v", out, got)
		}
	}
}

// greedy are sandboxes whose tests use more memory than there is.
type greedy struct{ sandbox.Client }

type greedyBox struct{ sandbox.Sandbox }

func (g greedy) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	b, err := g.Client.Create(ctx, spec)
	return greedyBox{b}, err
}

func (b greedyBox) Exec(ctx context.Context, c sandbox.Command) (sandbox.Result, error) {
	if strings.HasPrefix(c.Shell, "sh tests/t.sh") {
		return sandbox.Result{}, &sandbox.Lost{ID: b.ID(), Reason: sandbox.OutOfMemory}
	}
	return b.Sandbox.Exec(ctx, c)
}
