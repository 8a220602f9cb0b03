package rollout

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"orchard/datasets/record"
)

func TestCanaryIsGradedOncePerTask(t *testing.T) {
	t.Parallel()
	var graded atomic.Int64
	c, grade := &Canaries{}, func(context.Context) (record.Verdict, error) {
		graded.Add(1)
		return record.Verdict{Outcome: record.Resolved}, nil
	}
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if v, err := c.Check(t.Context(), string(rune('a'+i%2)), grade); v != nil || err != nil {
				t.Errorf("%v, %v", v, err)
			}
		})
	}
	wg.Wait()
	if graded.Load() != 2 {
		t.Errorf("graded %d times, want 2", graded.Load())
	}
}

func TestCanaryKeepsTroubleApartFromABadTask(t *testing.T) {
	t.Parallel()
	answers := []struct {
		v   record.Verdict
		err error
	}{
		{err: errors.New("no sandbox")},
		{v: record.Verdict{Outcome: record.InfraError, Reason: "out of memory"}},
		{v: record.Verdict{Outcome: record.NoTestsRan, Reason: "killed"}}, // graded again
		{v: record.Verdict{Outcome: record.Unresolved, Reward: record.Unresolved.Reward(), Reason: "TestX failed"}},
	}
	n := 0
	c, grade := &Canaries{}, func(context.Context) (record.Verdict, error) {
		a := answers[n]
		n++
		return a.v, a.err
	}
	for range 2 {
		if v, err := c.Check(t.Context(), "t", grade); v != nil || err == nil {
			t.Fatalf("trouble became %v, %v", v, err)
		}
	}
	for range 2 { // the second is answered from memory
		v, err := c.Check(t.Context(), "t", grade)
		if err != nil || v == nil || v.Outcome != record.TaskInvalid || v.Reward != nil || !strings.Contains(v.Reason, "TestX failed") {
			t.Fatalf("%+v, %v", v, err)
		}
	}
}

// A runner that starts never is the task's, not a reason to try for ever.
func TestCanaryWithoutARunner(t *testing.T) {
	t.Parallel()
	n := 0
	v, err := (&Canaries{}).Check(t.Context(), "t", func(context.Context) (record.Verdict, error) {
		n++
		return record.Verdict{Outcome: record.NoTestsRan, Reason: "go: not found"}, nil
	})
	if err != nil || v == nil || v.Outcome != record.TaskInvalid || v.Reward != nil || n != 2 || !strings.Contains(v.Reason, "no_tests_ran: go: not found") {
		t.Errorf("%+v, %v after %d gradings", v, err, n)
	}
}
