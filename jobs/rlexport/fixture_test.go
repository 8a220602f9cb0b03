package rlexport

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"orchard/datasets"
	"orchard/datasets/gentest/fixture"
	"orchard/datasets/record"
	"orchard/internal/seal"
)

// world is groups and the rollouts that they were chosen from.
type world struct {
	groups   []record.Group
	rollouts []record.Rollout
}

// group adds a group of the task with a member for each reward, and one draw that is none.
func (w *world) group(task string, rewards ...float64) *record.Group {
	g := record.Group{GroupID: seal.ID(task, "group"), TaskID: task, Source: "set", Repo: "acme/" + task, Language: "go", Policy: "m", Harness: "h",
		WeightVersion: "7", Strategy: "bar", Kind: "strict", Usable: true}
	for i, reward := range append(rewards, 0) {
		o := record.Unresolved
		if reward > 0 {
			o = record.Resolved
		}
		r := record.Rollout{
			RolloutID: seal.ID(task, fmt.Sprint(i)), TaskID: task, Source: "set", Repo: g.Repo, Language: "go", Policy: "m", Harness: "h", Index: int64(i),
			Trajectory: record.Trajectory{ExitStatus: record.ExitSubmitted,
				Messages: []record.Message{
					{Role: "system", Content: "Be good.", Step: -1, Kept: true, ToolCalls: []record.ToolCall{}},
					{Role: "user", Content: "Mend " + task + ".", Step: -1, Kept: true, ToolCalls: []record.ToolCall{}},
					{Role: "assistant", Content: "I look.", Step: 0, Kept: true, ToolCalls: []record.ToolCall{{ID: "c", Name: "bash", Arguments: `{"command":"ls"}`}}},
					{Role: "tool", Content: "x.go", ToolCallID: "c", Step: 0, Kept: true, ToolCalls: []record.ToolCall{}},
					{Role: "assistant", Content: "Done.", Step: 1, Kept: true, ToolCalls: []record.ToolCall{}},
				},
				Steps: []record.Step{step([]int32{1, 2, 3}, []int32{4, 5}), step([]int32{1, 2, 3, 4, 5, 6}, []int32{7, int32(i)})}},
			Verdict: record.Verdict{Outcome: o, Reward: &reward, Grader: "v1", Parser: "go-test", Dropped: []string{}, Tests: []record.TestResult{}},
		}
		d := record.Draw{RolloutID: r.RolloutID, Index: int64(i), Outcome: o, Reward: &reward, Status: "completed", Length: 4, Member: i < len(rewards)}
		if d.Member {
			g.Members++
			g.Passed += int64(reward)
		}
		g.Draws, w.rollouts = append(g.Draws, d), append(w.rollouts, r)
	}
	w.groups = append(w.groups, g)
	return &w.groups[len(w.groups)-1]
}

func step(prompt, sampled []int32) record.Step {
	s := record.Step{FinishReason: "stop", Actions: []record.Action{}, PromptTokenIDs: prompt, CompletionIDs: sampled, LogProbs: []float32{}, WeightVersion: "7"}
	for i := range sampled {
		s.LogProbs = append(s.LogProbs, -.25*float32(i+1))
	}
	return s
}

// rollout is the one behind a draw.
func (w *world) rollout(d record.Draw) *record.Rollout {
	return &w.rollouts[slices.IndexFunc(w.rollouts, func(r record.Rollout) bool { return r.RolloutID == d.RolloutID })]
}

// put writes a dataset.
func put[R record.Row](ctx context.Context, root, name string, rows []R) error {
	store, err := datasets.Stores(ctx, "file://"+root)
	if err != nil {
		return err
	}
	now := time.Unix(1, 0).UTC()
	_, err = fixture.Commit(ctx, store, name, slices.Values(rows), datasets.Meta{Stage: datasets.Stage{Name: "made", Version: 1}, Started: now, Committed: now})
	return err
}

func (w *world) put(ctx context.Context, root string) error {
	if err := put(ctx, root, "groups", w.groups); err != nil {
		return err
	}
	return put(ctx, root, "groups-rollouts", w.rollouts)
}

// worlds are the fixtures of scripts by name.
var worlds = map[string]func(w *world){
	"good": func(w *world) {
		w.group("a", 1, 0, 1, 0)
		g := w.group("b", 1, 0)
		w.rollout(g.Draws[1]).Trajectory.Steps[1].PromptTokenIDs = []int32{1, 2, 3, 9, 6} // a branch
		w.group("c", 1, 0).Usable = false
	},
	"absent": func(w *world) {
		g := w.group("a", 1, 0)
		w.rollouts = w.rollouts[1:]
		g.Reason = "its first rollout is gone"
	},
	"nan":       func(w *world) { g := w.group("a", 1, 0); r := math.NaN(); g.Draws[0].Reward = &r },
	"policies":  func(w *world) { w.group("a", 1, 0); g := w.group("b", 1, 0); g.Policy = "n"; w.policy(g, "n") },
	"foreign":   func(w *world) { w.policy(w.group("a", 1, 0), "n") },
	"otherwise": func(w *world) { g := w.group("a", 1, 0); r := 0.; g.Draws[0].Reward = &r },
	"single":    func(w *world) { w.group("a", 1) },
	"equal":     func(w *world) { w.group("a", 1, 1, 1) },
	"unknown": func(w *world) {
		g := w.group("a", 1, 0)
		g.Draws[1].Reward, w.rollout(g.Draws[1]).Verdict.Reward = nil, nil
	},
	"idless": func(w *world) {
		w.group("a", 1, 0)
		for i := range w.rollouts {
			for j := range w.rollouts[i].Trajectory.Steps {
				s := &w.rollouts[i].Trajectory.Steps[j]
				s.PromptTokenIDs, s.CompletionIDs, s.LogProbs = []int32{}, []int32{}, []float32{}
			}
		}
	},
	"empty": func(*world) {},
}

func (w *world) policy(g *record.Group, policy string) {
	for _, d := range g.Draws {
		w.rollout(d).Policy = policy
	}
}

// tasks has a task of each kind, and what was estimated of them.
func tasks(ctx context.Context, root string) error {
	text := func(s string) record.Text { return record.Text{Value: s, Bytes: int64(len(s))} }
	created := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var rows []record.Task
	for _, id := range []string{"easy", "fit", "odd", "silent", "unseen", "web"} {
		rows = append(rows, record.Task{
			TaskID: id, Source: "set", Repo: "acme/" + id, Language: "go", CreatedAt: &created, Statement: "Mend " + id + ".", BaseCommit: "0123456789",
			Image: "registry.example/" + id, Workdir: "/testbed", PreCommands: []string{"true"}, TestCmds: []string{"go test ./..."}, LogParser: "go-test-json",
			GoldPatch: text("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-y\n+x\n"), TestPatch: text(""), FailToPass: []string{"TestX"}, PassToPass: []string{},
		})
	}
	rows[3].Statement = ""
	rows[5].Goal = &record.Goal{Kind: record.GoalWeb, Criteria: []record.Criterion{}, Files: []record.File{}}
	if err := put(ctx, root, "tasks", rows); err != nil {
		return err
	}
	rate := func(id, decision string, passed, valid int64) record.PassRate {
		r := record.PassRate{PassRateID: seal.ID(id), TaskID: id, Policy: "m", Harness: "h", Wanted: 8, Draws: make([]record.Draw, valid+1), Valid: valid, Passed: passed, Unknown: 1, Decision: decision}
		if valid > 0 {
			p := float64(passed) / float64(valid)
			r.Rate = &p
		}
		return r
	}
	rates := []record.PassRate{
		rate("easy", record.PoolDrop, 4, 4), rate("fit", record.PoolKeep, 1, 4), rate("gone", record.PoolKeep, 1, 4), rate("odd", record.PoolUnknown, 0, 0),
		rate("silent", record.PoolKeep, 1, 4), rate("web", record.PoolKeep, 1, 4),
	}
	if err := put(ctx, root, "rates", rates); err != nil {
		return err
	}
	other := rates[1]
	other.PassRateID, other.Policy = "other", "n"
	return put(ctx, root, "two-rates", append(rates, other))
}

// fixtureMain is the script command "fixture WORLD FOLDER".
func fixtureMain() {
	ctx := context.Background()
	root, err := filepath.Abs(os.Args[2])
	if err == nil {
		if make, ok := worlds[os.Args[1]]; ok {
			w := &world{}
			make(w)
			err = w.put(ctx, root)
		} else {
			err = tasks(ctx, root)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
