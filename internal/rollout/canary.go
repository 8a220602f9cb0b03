package rollout

import (
	"context"
	"fmt"
	"sync"

	"orchard/datasets/record"
)

// Canaries grades the gold patch of each task once, before its first rollout: where
// the task's own answer is not resolved, a policy's failure would say nothing. Safe
// for concurrent use; rollouts of one task wait for its canary.
type Canaries struct {
	mu    sync.Mutex
	tasks map[string]*canary
}

type canary struct {
	mu      sync.Mutex
	done    bool
	verdict record.Verdict
}

// Check returns the verdict of a task whose gold patch is not resolved, and nil for a
// task that may be rolled out. grade grades the gold patch, and is called unless that
// was done, and once more when its tests did not start: then they cannot here. An
// error is trouble of ours: the next call tries again.
func (c *Canaries) Check(ctx context.Context, taskID string, grade func(context.Context) (record.Verdict, error)) (*record.Verdict, error) {
	c.mu.Lock()
	if c.tasks == nil {
		c.tasks = map[string]*canary{}
	}
	one := c.tasks[taskID]
	if one == nil {
		one = &canary{}
		c.tasks[taskID] = one
	}
	c.mu.Unlock()

	one.mu.Lock()
	defer one.mu.Unlock()
	if !one.done {
		v, err := grade(ctx)
		if err == nil && v.Outcome == record.NoTestsRan { // by bad luck, or always
			v, err = grade(ctx)
		}
		if err != nil {
			return nil, classify(fmt.Errorf("canary: grade the gold patch: %w", err))
		}
		one.done, one.verdict = true, v
	}
	switch one.verdict.Outcome {
	case record.Resolved:
		return nil, nil
	case record.InfraError:
		one.done = false
		return nil, fmt.Errorf("canary: the gold patch could not be graded: %s", one.verdict.Reason)
	}
	v := one.verdict
	if v.Outcome == record.TaskInvalid {
		v.Reason = "canary: " + v.Reason
	} else {
		v.Reason = fmt.Sprintf("canary: the task's own gold patch is %s: %s", v.Outcome, v.Reason)
	}
	v.Outcome, v.Reward = record.TaskInvalid, nil
	return &v, nil
}
