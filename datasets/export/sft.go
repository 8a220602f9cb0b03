// Package export turns rows into what trainers read. It is pure: rows in, rows and
// bytes out; the stages of jobs/ decide which rows and where they go.
//
// The one rule of a loss mask: a token is trained only if the policy wrote it and it
// could be followed. Everything the harness, the tools and the user said is context.
// A row without a trained message is refused, so that no trainer runs for nothing.
package export

import (
	"encoding/json"
	"errors"
	"fmt"

	"orchard/datasets/record"
)

// Why a rollout gives no SFT row. The texts are the reasons under which it is counted.
var (
	ErrNothingTrained = errors.New("nothing_trained") // no message of the policy could be followed
	ErrUndefinedTool  = errors.New("undefined_tool")  // it calls a tool that it was not given
	ErrBadArguments   = errors.New("bad_arguments")   // a trained call's arguments are no JSON object
)

// SFT is the training example of a rollout: its conversation as the policy saw it,
// with the messages that the policy wrote and that were followed trained.
//
// Left out are answers that were rejected before the policy saw them again, and all
// that comes after the last trained message, such as the harness's note of how it
// ended. So a last answer whose calls have no results, since they handed in, is the
// end of its example. Kept as context but not trained are answers that could not be
// followed and answers cut off by a length limit. The Err variables say why a rollout
// gives none.
func SFT(r record.Rollout) (record.SFTRow, error) {
	return sft(r, func(int64) bool { return true })
}

// sft trains those of SFT's messages whose step is one of steps.
func sft(r record.Rollout, steps func(int64) bool) (record.SFTRow, error) {
	row := record.SFTRow{
		ID: r.RolloutID, TaskID: r.TaskID, TrajectoryID: r.RolloutID,
		Harness: r.Harness, Teacher: r.Policy, Resolved: r.Verdict.Outcome == record.Resolved,
		Messages: []record.SFTMessage{}, Segments: []record.Segment{},
		Tools: r.Trajectory.Tools, ChatTemplateKwargs: "{}",
	}
	known, err := toolNames(r.Trajectory.Tools)
	if err != nil {
		return row, fmt.Errorf("rollout %s: tools: %w", r.RolloutID, err)
	}
	for _, m := range r.Trajectory.Messages {
		if !m.Kept || !chatRoles[m.Role] {
			continue
		}
		out := message(m)
		if m.Role == "assistant" && followed(r.Trajectory, m) {
			if err := checkCalls(m, known); err != nil {
				return row, err
			}
			if steps(m.Step) {
				train(&out)
			}
		}
		row.Messages = append(row.Messages, out)
	}
	row.Segments = segments(row.Messages)
	if len(row.Segments) == 0 {
		return row, ErrNothingTrained
	}
	row.Messages = row.Messages[:row.Segments[len(row.Segments)-1].End]
	row.NTokens = tokens(r.Trajectory.Steps)
	row.Metadata, err = metadata(r)
	return row, err
}

// chatRoles are the roles of a conversation; a harness may note others, such as its exit.
var chatRoles = map[string]bool{"system": true, "user": true, "assistant": true, "tool": true}

// followed reports whether the answer behind m was acted on as it was written.
func followed(t record.Trajectory, m record.Message) bool {
	if m.Step < 0 || int(m.Step) >= len(t.Steps) {
		return false
	}
	s := t.Steps[m.Step]
	return s.FormatError == "" && s.FinishReason != "length" && s.FinishReason != "content_filter"
}

func checkCalls(m record.Message, known map[string]bool) error {
	for _, c := range m.ToolCalls {
		if !known[c.Name] {
			return ErrUndefinedTool
		}
		var args map[string]any
		if json.Unmarshal([]byte(c.Arguments), &args) != nil {
			return ErrBadArguments
		}
	}
	return nil
}

func message(m record.Message) record.SFTMessage {
	out := record.SFTMessage{
		Role: m.Role, Content: m.Content, Reasoning: m.Reasoning,
		ToolCallID: m.ToolCallID, ToolCalls: []record.SFTToolCall{},
	}
	for _, c := range m.ToolCalls {
		out.ToolCalls = append(out.ToolCalls, record.SFTToolCall{
			ID: c.ID, Type: "function", Function: record.SFTFunction{Name: c.Name, Arguments: c.Arguments}})
	}
	return out
}

// train sets the mask in its five spellings.
func train(m *record.SFTMessage) {
	m.StepLossMask, m.LossMask = 1, 1
	m.Loss, m.Train = true, true
	m.LossScale = 1
}

// segments are the runs of trained messages.
func segments(messages []record.SFTMessage) []record.Segment {
	list := []record.Segment{}
	for i, m := range messages {
		switch {
		case m.LossMask == 0:
		case len(list) > 0 && list[len(list)-1].End == int64(i):
			list[len(list)-1].End++
		default:
			list = append(list, record.Segment{Begin: int64(i), End: int64(i) + 1})
		}
	}
	return list
}

// tokens is the length of the conversation at its last answer, as the server counted
// it; nil when it did not.
func tokens(steps []record.Step) *int64 {
	for i := len(steps) - 1; i >= 0; i-- {
		if p, c := steps[i].PromptTokens, steps[i].CompletionTokens; p != nil && c != nil {
			n := *p + *c
			return &n
		}
	}
	return nil
}

func toolNames(tools string) (map[string]bool, error) {
	known := map[string]bool{}
	if tools == "" {
		return known, nil
	}
	var list []struct {
		Name     string
		Function struct{ Name string }
	}
	if err := json.Unmarshal([]byte(tools), &list); err != nil {
		return nil, err
	}
	for _, t := range list {
		known[t.Name] = t.Name != ""
		known[t.Function.Name] = t.Function.Name != ""
	}
	return known, nil
}

// metadata is what a trainer may want to filter or weigh by, as a JSON object.
func metadata(r record.Rollout) (string, error) {
	b, err := json.Marshal(struct {
		Source      string         `json:"source"`
		Repo        string         `json:"repo"`
		Language    string         `json:"language"`
		Index       int64          `json:"rollout_index"`
		ExitStatus  string         `json:"exit_status"`
		Outcome     record.Outcome `json:"outcome"`
		Reward      *float64       `json:"reward"`
		Grader      string         `json:"grader"`
		TemplateID  string         `json:"template_id"`
		Steps       int            `json:"steps"`
		DiffSHA256  string         `json:"diff_sha256"`
		ScriptedRun bool           `json:"scripted"`
	}{r.Source, r.Repo, r.Language, r.Index, r.Trajectory.ExitStatus, r.Verdict.Outcome, r.Verdict.Reward,
		r.Verdict.Grader, r.Trajectory.TemplateID, len(r.Trajectory.Steps), r.Trajectory.DiffSHA256, r.Policy == "scripted"})
	return string(b), err
}
