package export

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"orchard/datasets/record"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const bash = `[{"type":"function","function":{"name":"bash","parameters":{}}}]`

func call(args string) []record.ToolCall {
	return []record.ToolCall{{ID: "c1", Name: "bash", Arguments: args}}
}

// example has every kind of message: followed, rejected, malformed but kept, cut off.
func example() record.Rollout {
	n := func(v int64) *int64 { return &v }
	return record.Rollout{
		RolloutID: "r1", TaskID: "t1", Policy: "m", Harness: "h",
		Verdict: record.Verdict{Outcome: record.Resolved, Reward: record.Resolved.Reward()},
		Trajectory: record.Trajectory{
			Tools: bash,
			Steps: []record.Step{
				{FinishReason: "tool_calls"}, {FormatError: "no call"}, {FormatError: "two blocks"},
				{FinishReason: "length"}, {FinishReason: "tool_calls", PromptTokens: n(100), CompletionTokens: n(7)},
			},
			Messages: []record.Message{
				{Role: "system", Content: "s", Step: -1, Kept: true},
				{Role: "user", Content: "u", Step: -1, Kept: true},
				{Role: "assistant", Content: "look", Reasoning: "hm", ToolCalls: call(`{"command":"ls"}`), Step: 0, Kept: true},
				{Role: "tool", Content: "out", ToolCallID: "c1", Step: 0, Kept: true},
				{Role: "assistant", Content: "rejected", Step: 1, Kept: false},
				{Role: "user", Content: "format!", Step: 1, Kept: true},
				{Role: "assistant", Content: "malformed", Step: 2, Kept: true},
				{Role: "assistant", Content: "cut o", Step: 3, Kept: true},
				{Role: "assistant", Content: "submit", ToolCalls: call(`{"command":"x"}`), Step: 4, Kept: true},
				{Role: "exit", Content: "diff", Step: 4, Kept: true},
				{Role: "user", Content: "diff", Step: 4, Kept: true},
			},
		},
	}
}

func TestSFTMasksWhatTheHarnessSaid(t *testing.T) {
	t.Parallel()
	row, err := SFT(example())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range row.Messages {
		mask := "-"
		if m.LossMask == 1 {
			mask = "+"
		}
		if (m.StepLossMask == 1) != (mask == "+") || m.Loss != (mask == "+") || m.Train != (mask == "+") || (m.LossScale == 1) != (mask == "+") {
			t.Errorf("message %q: the five masks differ: %+v", m.Content, m)
		}
		got = append(got, mask+m.Content)
	}
	want := []string{"-s", "-u", "+look", "-out", "-format!", "-malformed", "-cut o", "+submit"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]record.Segment{{Begin: 2, End: 3}, {Begin: 7, End: 8}}, row.Segments); d != "" {
		t.Error(d)
	}
	if row.NTokens == nil || *row.NTokens != 107 || !row.Resolved || row.Messages[2].Reasoning != "hm" {
		t.Errorf("row %+v", row)
	}
}

func TestSFTRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(r *record.Rollout)
		want   error
	}{
		{"nothing to train", func(r *record.Rollout) {
			for i := range r.Trajectory.Steps {
				r.Trajectory.Steps[i].FormatError = "x"
			}
		}, ErrNothingTrained},
		{"a tool it was not given", func(r *record.Rollout) { r.Trajectory.Messages[2].ToolCalls[0].Name = "edit" }, ErrUndefinedTool},
		{"a tool without any tools", func(r *record.Rollout) { r.Trajectory.Tools = "" }, ErrUndefinedTool},
		{"arguments that are no object", func(r *record.Rollout) { r.Trajectory.Messages[8].ToolCalls[0].Arguments = "[1]" }, ErrBadArguments},
	} {
		r := example()
		c.change(&r)
		if _, err := SFT(r); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

// A chat template sees no key that means nothing on a message.
func TestJSONLineLeavesOutEmptyKeys(t *testing.T) {
	t.Parallel()
	row, err := SFT(example())
	if err != nil {
		t.Fatal(err)
	}
	line, err := JSONLine(row)
	if err != nil || strings.Count(string(line), "\n") != 1 {
		t.Fatalf("%q, %v", line, err)
	}
	var back struct{ Messages []map[string]any }
	if err := json.Unmarshal(line, &back); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"tool_calls", "tool_call_id", "reasoning_content", "name"} {
		if _, ok := back.Messages[1][key]; ok {
			t.Errorf("the user's message has %s", key)
		}
	}
	if _, ok := back.Messages[2]["tool_calls"]; !ok {
		t.Error("the call is gone")
	}
}

// Whatever the trajectory, only kept messages of the policy are trained, and the
// segments say exactly which.
func TestSFTTrainsOnlyThePolicy(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) record.Step {
			return record.Step{
				FinishReason: rapid.SampledFrom([]string{"stop", "length", "tool_calls"}).Draw(t, "finish"),
				FormatError:  rapid.SampledFrom([]string{"", "bad"}).Draw(t, "format"),
			}
		}), 0, 5).Draw(t, "steps")
		messages := rapid.SliceOf(rapid.Custom(func(t *rapid.T) record.Message {
			return record.Message{
				Role: rapid.SampledFrom([]string{"system", "user", "assistant", "tool"}).Draw(t, "role"),
				Step: rapid.Int64Range(-1, 6).Draw(t, "step"), Kept: rapid.Bool().Draw(t, "kept"),
			}
		})).Draw(t, "messages")
		row, err := SFT(record.Rollout{Trajectory: record.Trajectory{Steps: steps, Messages: messages}})
		trained, i := 0, 0
		for _, m := range messages {
			if !m.Kept || i == len(row.Messages) {
				continue
			}
			if row.Messages[i].LossMask == 1 {
				trained++
				if m.Role != "assistant" || steps[m.Step].FormatError != "" || steps[m.Step].FinishReason == "length" {
					t.Fatalf("trained %+v", m)
				}
			}
			i++
		}
		if (trained == 0) != errors.Is(err, ErrNothingTrained) {
			t.Fatalf("%d trained, error %v", trained, err)
		}
		sum := 0
		for _, s := range row.Segments {
			sum += int(s.End - s.Begin)
		}
		if sum != trained || err == nil && row.Messages[i-1].LossMask != 1 {
			t.Fatalf("segments hold %d of %d trained; the last message is %+v", sum, trained, row.Messages[i-1])
		}
	})
}
