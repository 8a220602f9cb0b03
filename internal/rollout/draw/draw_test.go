package draw

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/harness"
	"orchard/internal/rollout"
	"orchard/internal/rollout/draw/drawtest"
	"orchard/internal/rollout/play"
	"orchard/internal/runner"
)

// inUnit runs f as the one unit of a stage.
func inUnit(t *testing.T, f func(ctx context.Context, u play.Unit, tools runner.Tools) error) error {
	t.Helper()
	root := t.TempDir()
	loop, err := harness.New("mini-swe-v2", harness.Options{})
	if err != nil {
		t.Fatal(err)
	}
	u := play.Unit{Player: &rollout.Player{Harness: loop, Policy: "m"}, Task: &record.Task{TaskID: "t"}}
	c := runner.Default()
	c.In, c.Out, c.MaxRetries = []string{drawtest.Tasks(t, root, 1)}, root+"/out", 0
	d := runner.Deps{Stdout: io.Discard, Stderr: io.Discard, Backoff: time.Millisecond}
	_, err = runner.Rollouts(t.Context(), c, d, runner.Stage{Name: "test", Version: 1, Settings: struct{}{}}, runner.Source[record.Rollout]{
		Units: func(context.Context, []*datasets.Version) ([]runner.Unit, error) {
			return []runner.Unit{{ID: "u", Task: "t"}}, nil
		},
		Do: func(ctx context.Context, _ runner.Unit, tools runner.Tools) (record.Rollout, error) {
			return record.Rollout{RolloutID: "u"}, f(ctx, u, tools)
		},
	})
	return err
}

// Whatever ends first, next sees draws by index, each once, and never more run at once
// than AtOnce; what is not needed any more is cancelled and has ended before Draw returns.
func TestDrawUntilEnough(t *testing.T) {
	t.Parallel()
	var running, most atomic.Int32
	counted := &drawtest.Counted{Play: func(ctx context.Context, _ string, index int64) drawtest.End {
		most.Store(max(most.Load(), running.Add(1)))
		defer running.Add(-1)
		wait := time.Duration(8-index) * 3 * time.Millisecond // the later, the sooner
		if index >= 6 {
			wait = time.Hour
		}
		select {
		case <-time.After(wait):
			return drawtest.End{Outcome: record.Resolved}
		case <-ctx.Done():
			return drawtest.End{Err: ctx.Err()}
		}
	}}
	err := inUnit(t, func(ctx context.Context, u play.Unit, tools runner.Tools) error {
		d := Drawer{Do: counted.Do, Scope: Scope{"kept", "x"}, AtOnce: 3}
		draws, used, err := d.Draw(ctx, u, tools, func(ended []record.Draw) ([]int64, error) {
			if !slices.IsSortedFunc(ended, func(a, b record.Draw) int { return int(a.Index - b.Index) }) {
				return nil, errors.New("not by index")
			}
			if len(ended) >= 6 {
				return nil, nil
			}
			return []int64{0, 1, 2, 3, 4, 5, 6, 7}, nil
		})
		if err != nil {
			return err
		}
		if len(draws) != 6 || used.ModelCalls != 6 || running.Load() != 0 || most.Load() != 3 {
			t.Errorf("%d draws, %d calls, %d still running, at most %d at once", len(draws), used.ModelCalls, running.Load(), most.Load())
		}
		for i, d := range draws {
			if d.Index != int64(i) {
				t.Errorf("draws %v", draws)
			}
		}
		again, used, err := d.Draw(ctx, u, tools, func(ended []record.Draw) ([]int64, error) {
			return []int64{0, 1, 2}[min(len(ended), 3):], nil
		})
		if err != nil || len(again) != 3 || used.ModelCalls != 0 {
			t.Errorf("again: %d draws, %d calls, %v", len(again), used.ModelCalls, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	for name, n := range counted.Played() {
		if n != 1 {
			t.Errorf("%s was played %d times", name, n)
		}
	}
}

// A rollout that meets trouble has the unit tried again, and costs none of those beside it:
// they are played to their end, and the next try is given them. What ends the stage waits for
// nobody.
func TestTroubleOfOneCostsNoOther(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		trouble error
		waits   bool
	}{"trouble": {errors.New("the sandbox is gone"), true}, "the end": {exit.Gonef("the budget is used up"), false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var running sync.WaitGroup
			running.Add(3)
			began := make(chan struct{})
			go func() { running.Wait(); close(began) }()
			failed := make(chan struct{})
			counted := &drawtest.Counted{Play: func(ctx context.Context, _ string, index int64) drawtest.End {
				running.Done()
				<-began
				if index == 1 {
					close(failed)
					return drawtest.End{Err: c.trouble}
				}
				<-failed
				select {
				case <-ctx.Done():
					return drawtest.End{Err: ctx.Err()}
				case <-time.After(map[bool]time.Duration{true: 30 * time.Millisecond, false: time.Hour}[c.waits]):
					return drawtest.End{Outcome: record.Resolved}
				}
			}}
			err := inUnit(t, func(ctx context.Context, u play.Unit, tools runner.Tools) error {
				tools.Last = false
				d := Drawer{Do: counted.Do, Scope: Scope{"kept", "x"}, AtOnce: 3}
				three := func(ended []record.Draw) ([]int64, error) { return []int64{0, 1, 2}[min(len(ended), 3)/3*3:], nil }
				if _, _, err := d.Draw(ctx, u, tools, three); !errors.Is(err, c.trouble) {
					t.Errorf("%v, want %v", err, c.trouble)
				}
				if !c.waits {
					return nil
				}
				counted.Play = func(context.Context, string, int64) drawtest.End { return drawtest.End{Outcome: record.Unresolved} }
				draws, _, err := d.Draw(ctx, u, tools, three)
				for i, want := range []record.Outcome{record.Resolved, record.Unresolved, record.Resolved} {
					if len(draws) != 3 || draws[i].Outcome != want {
						t.Fatalf("draws of the next try: %+v", draws)
					}
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	one := 1.0
	for exit, want := range map[string]string{
		record.ExitSubmitted: Completed, record.ExitStepLimit: Truncated, record.ExitTokenLimit: Truncated, record.ExitCostLimit: Truncated,
		record.ExitTimeLimit: TimeExceeded, record.ExitStuck: Completed, record.ExitRepeatedFormat: Completed,
	} {
		r := record.Rollout{Trajectory: record.Trajectory{ExitStatus: exit}, Verdict: record.Verdict{Reward: &one}}
		if got := Of(r).Status; got != want {
			t.Errorf("%s: %s, want %s", exit, got, want)
		}
		r.Verdict.Reward = nil
		if got := Of(r).Status; got != Aborted {
			t.Errorf("%s without a reward: %s, want %s", exit, got, Aborted)
		}
	}
}

// Tokens count when all answers have them, else bytes, never a mixture.
func TestLength(t *testing.T) {
	t.Parallel()
	words := []record.Message{{Role: "user", Content: "0123456789"}, {Role: "assistant", Content: "four", Reasoning: "two", ToolCalls: []record.ToolCall{{Name: "sh", Arguments: "{}"}}}}
	some, none := record.Step{CompletionIDs: []int32{1, 2, 3}}, record.Step{}
	for _, c := range []struct {
		steps []record.Step
		want  int64
	}{{nil, 11}, {[]record.Step{some, some}, 6}, {[]record.Step{some, none}, 11}} {
		if got := length(record.Trajectory{Messages: words, Steps: c.steps}); got != c.want {
			t.Errorf("%d steps: %d, want %d", len(c.steps), got, c.want)
		}
	}
}
