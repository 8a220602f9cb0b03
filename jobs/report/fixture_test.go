package report

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"orchard/datasets"
	"orchard/datasets/gentest/fixture"
	"orchard/datasets/record"
	"orchard/internal/objstore"
)

// hostile is text that would do harm as markup, script or terminal output. A row's text
// is always valid UTF-8.
const hostile = "</script><script>alert(1)</script><img src=x onerror=alert(2)><!--<script>\u2028\u2029\x1b[2J\x1b]0;t\a\x00\u202e'\"`${alert(3)}\r\n"

func rollout(task string, index int64, o record.Outcome) record.Rollout {
	n, zero, failed := int64(100), int64(0), int64(1)
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	text := func(s string) record.Text { return record.Text{Value: s, Bytes: int64(len(s))} }
	call := func(id, command string) record.ToolCall {
		return record.ToolCall{ID: id, Name: "bash", Arguments: fmt.Sprintf("{\"command\":%q}", command)}
	}
	return record.Rollout{
		RolloutID: fmt.Sprintf("%s-%d", task, index), TaskID: task, Language: "go", Policy: "scripted", Harness: "mini-swe-v2", Index: index,
		Trajectory: record.Trajectory{
			ExitStatus: record.ExitSubmitted, Diff: text("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-y\n+x\n"),
			Messages: []record.Message{
				{Role: "system", Content: "Be good.", Step: -1, Kept: true},
				{Role: "assistant", Content: "Hmm.", Step: 0},
				{Role: "user", Content: "The answer has no tool call.", Step: 0},
				{Role: "assistant", Content: "I look.", Reasoning: "Where is it?", ToolCalls: []record.ToolCall{call("a", "ls"), call("b", "cat nope")}, Step: 1, Kept: true},
				{Role: "tool", Content: "x", ToolCallID: "a", Step: 1, Kept: true},
				{Role: "tool", Content: "cat: nope: no such file", ToolCallID: "b", Step: 1, Kept: true},
				{Role: "assistant", ToolCalls: []record.ToolCall{call("c", "submit")}, Step: 2, Kept: true},
			},
			Steps: []record.Step{
				{FinishReason: "stop", FormatError: "no tool call"},
				{FinishReason: "tool_calls", Actions: []record.Action{
					{Command: "ls", ToolCallID: "a", ExitCode: &zero, DurationMS: 3, Observation: text("x")},
					{Command: "cat nope", ToolCallID: "b", ExitCode: &failed, DurationMS: 4},
				}},
				{FinishReason: "tool_calls", Actions: []record.Action{{Command: "submit", ToolCallID: "c", ExitCode: &zero, Observation: text("handed in")}}},
			},
		},
		Verdict: record.Verdict{
			Outcome: o, Reward: o.Reward(), Reason: "because", Log: text("--- FAIL: TestX\n"),
			Tests: []record.TestResult{{Name: "TestX", Kind: "fail_to_pass", Status: record.TestFailed}, {Name: "TestY", Kind: "pass_to_pass", Status: record.TestPassed}},
		},
		Usage: record.Usage{ModelCalls: 3, PromptTokens: &n, CompletionTokens: &n},
		Span:  record.Span{Started: start, Ended: start.Add(2 * time.Second)},
	}
}

// measured is rollout i of a benchmark whose tasks are of all difficulties.
func measured(i, harder int) record.Rollout {
	task, index, policy, harness := i/16, i%4, i/4%2, i/8%2
	draw := rand.New(rand.NewPCG(uint64(task), uint64(i%16+16*harder)))
	o := record.Resolved
	if draw.IntN(500) < task%500+40*harder-60*policy+30*harness {
		o = []record.Outcome{record.Unresolved, record.Unresolved, record.Partial, record.EmptyPatch, record.TestTimeout}[draw.IntN(5)]
	}
	if draw.IntN(150) == 0 {
		o = record.InfraError
	}
	r := rollout(fmt.Sprintf("project-%02d__component-%d", task%20, 1000+task), int64(index), o)
	r.Policy, r.Harness = []string{"small-coder-7b", "large-coder-72b"}[policy], []string{"mini-swe-v2", "openhands"}[harness]
	r.RolloutID = fmt.Sprintf("%064x", 7919*i+harder)
	r.Repo, r.Language = fmt.Sprintf("org/project-%02d", task%20), []string{"go", "python", "rust"}[task%3]
	r.Trajectory.ExitStatus = []string{record.ExitSubmitted, record.ExitSubmitted, record.ExitSubmitted, record.ExitStepLimit, record.ExitTimeLimit}[draw.IntN(5)]
	for range draw.IntN(80) {
		r.Trajectory.Steps = append(r.Trajectory.Steps, record.Step{})
	}
	tokens := 1000 + draw.Int64N(90_000)
	r.Usage.PromptTokens = &tokens
	return r
}

// evil says hostile things wherever a policy, a sandbox or a task set can.
func evil(index int64, o record.Outcome) record.Rollout {
	r := rollout(hostile, index, o)
	r.RolloutID = fmt.Sprintf("evil-%d", index)
	r.Language, r.Repo, r.Source, r.Policy, r.Harness = hostile, hostile, hostile, hostile, hostile
	t := &r.Trajectory
	t.ExitStatus, t.ExitDetail, t.Diff.Value = hostile, hostile, "+"+hostile
	for i := range t.Messages {
		m := &t.Messages[i]
		m.Content, m.Reasoning = hostile, hostile+"r"
		for j := range m.ToolCalls {
			m.ToolCalls[j].Name, m.ToolCalls[j].Arguments = hostile, hostile
		}
	}
	for i := range t.Steps {
		t.Steps[i].FinishReason, t.Steps[i].FormatError = hostile, hostile
		for j := range t.Steps[i].Actions {
			t.Steps[i].Actions[j].Observation.Value = hostile
		}
	}
	r.Verdict.Reason, r.Verdict.Log.Value, r.Verdict.Dropped = hostile, hostile, []string{hostile}
	r.Verdict.Tests[0].Name, r.Verdict.Tests[0].Status, r.Verdict.Tests[0].Kind = hostile, hostile, hostile
	return r
}

// fixtureMain is the program `fixture KIND N PATH`: it writes a dataset of N rows.
func fixtureMain() {
	n, err := strconv.Atoi(os.Args[2])
	if err == nil {
		err = write(context.Background(), os.Args[1], n, os.Args[3])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "fixture:", err)
		os.Exit(1)
	}
}

func write(ctx context.Context, kind string, n int, path string) error {
	loc, err := datasets.Parse(path)
	if err != nil {
		return err
	}
	store, err := datasets.Stores(ctx, loc.Root)
	if err != nil {
		return err
	}
	switch kind {
	case "task":
		return commit(ctx, store, loc.Name, n, func(i int) record.Task { return record.Task{TaskID: fmt.Sprintf("task-%d", i)} })
	case "sft":
		return commit(ctx, store, loc.Name, n, func(i int) record.SFTRow { return record.SFTRow{ID: fmt.Sprint(i)} })
	case "rollout":
		return commit(ctx, store, loc.Name, n, func(i int) record.Rollout {
			return rollout(fmt.Sprintf("task-%d", i/4), int64(i%4), record.Outcomes[i%5/2])
		})
	case "before": // of the run before "rollout": its task 0 failed, and its task 2 did not
		return commit(ctx, store, loc.Name, n, func(i int) record.Rollout {
			return rollout(fmt.Sprintf("task-%d", i/4), int64(i%4), record.Outcomes[[]int{2, 1, 0}[i/4%3]])
		})
	case "benchmark", "benchmark-before": // tasks of 20 repositories, by 2 policies in 2 harnesses, 4 times each
		harder := map[string]int{"benchmark": 0, "benchmark-before": 1}[kind]
		return commit(ctx, store, loc.Name, n, func(i int) record.Rollout { return measured(i, harder) })
	case "null":
		return commit(ctx, store, loc.Name, n, func(i int) record.Rollout { return rollout("task", int64(i), record.InfraError) })
	case "hostile":
		return commit(ctx, store, loc.Name, n, func(i int) record.Rollout { return evil(int64(i), record.Outcome("new\x1b[31m")) })
	case "long": // many rollouts with much to read
		return commit(ctx, store, loc.Name, n, func(i int) record.Rollout {
			r := rollout(fmt.Sprintf("task/%d ü?#&%%<%d>", i/8, i/8), int64(i%8), record.Outcomes[i%len(record.Outcomes)])
			r.Trajectory.Messages[4].Content = strings.Repeat("a long line of output ", 3000)
			r.Trajectory.Diff.Value = strings.Repeat("+x\n", 10_000)
			for range i % 60 {
				r.Trajectory.Steps = append(r.Trajectory.Steps, record.Step{})
			}
			return r
		})
	}
	return fmt.Errorf("no kind %q", kind)
}

func commit[R record.Row](ctx context.Context, store objstore.Store, name string, n int, row func(i int) R) error {
	_, err := fixture.Commit(ctx, store, name, func(yield func(R) bool) {
		for i := range n {
			if !yield(row(i)) {
				return
			}
		}
	}, datasets.Meta{Stage: datasets.Stage{Name: "fixture"}})
	return err
}
