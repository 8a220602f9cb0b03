// Package drawtest is rollouts whose ends are made up, for tests of what is decided by
// them: no model, no sandbox, but the stage, the store and the resuming as they are.
package drawtest

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"orchard/datasets"
	"orchard/datasets/gentest/fixture"
	"orchard/datasets/record"
	"orchard/internal/rollout/play"
	"orchard/internal/runner"
	"orchard/internal/seal"
)

// Tasks is a dataset of n tasks t000, t001, … in root, as a path.
func Tasks(t testing.TB, root string, n int) string {
	var rows []record.Task
	for i := range n {
		id := fmt.Sprintf("t%03d", i)
		rows = append(rows, record.Task{TaskID: id, Digest: seal.ID(id), PreCommands: []string{}, TestCmds: []string{"true"}, FailToPass: []string{"a"}, PassToPass: []string{}})
	}
	return Dataset(t, root, "tasks", rows)
}

// Dataset is a dataset of rows, which are sorted by their ids, as a path. One that is there gets a
// newer version.
func Dataset[T record.Row](t testing.TB, root, name string, rows []T) string {
	t.Helper()
	now := time.Unix(1, 0).UTC()
	fixture.Version(t, root, name, rows, datasets.Meta{Stage: datasets.Stage{Name: "made-up", Version: 1, Config: json.RawMessage("{}")}, Started: now, Committed: now})
	return filepath.Join(root, name)
}

// Rows are the rows of a dataset.
func Rows[T record.Row](t testing.TB, uri string) (rows []T) {
	t.Helper()
	v, err := datasets.Open(t.Context(), datasets.Stores, uri)
	if err != nil {
		t.Fatal(err)
	}
	for row, err := range datasets.Rows[T](t.Context(), v) {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	return rows
}

// End is how a made-up rollout ends.
type End struct {
	Outcome record.Outcome
	Exit    string // "" is submitted
	Words   string // of the one answer
	Err     error  // no rollout: trouble
}

// Player is what Do plays: how rollout index of a task ends.
type Player func(ctx context.Context, task string, index int64) End

// Counted makes rollouts by play and counts how often each was played.
type Counted struct {
	Play Player

	mu     sync.Mutex
	played map[string]int
}

// Do is draw.World's.
func (c *Counted) Do(ctx context.Context, u runner.Unit, _ runner.Tools) (record.Rollout, error) {
	work := u.Work.(play.Unit)
	e := c.Play(ctx, work.Task.TaskID, work.Index)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.played == nil {
		c.played = map[string]int{}
	}
	c.played[fmt.Sprintf("%s#%d", work.Task.TaskID, work.Index)]++
	if e.Err != nil {
		return record.Rollout{}, e.Err
	}
	if e.Exit == "" {
		e.Exit = record.ExitSubmitted
	}
	return record.Rollout{
		RolloutID: u.ID, TaskID: work.Task.TaskID, Policy: work.Player.Policy, Harness: work.Player.Harness.Name(), Index: work.Index,
		Trajectory: record.Trajectory{ExitStatus: e.Exit, Steps: []record.Step{}, Messages: []record.Message{{Role: "assistant", Content: e.Words, ToolCalls: []record.ToolCall{}}}},
		Verdict:    record.Verdict{Outcome: e.Outcome, Reward: e.Outcome.Reward(), Dropped: []string{}, Tests: []record.TestResult{}},
		Usage:      record.Usage{ModelCalls: 1},
	}, nil
}

// Played is how often each rollout, such as "t000#3", was played since the last call.
func (c *Counted) Played() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.played
	c.played = nil
	return p
}
