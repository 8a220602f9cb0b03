package export

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"orchard/datasets/record"
)

// ErrBadLogProb is, like those of SFT, the reason under which a rollout is counted: a
// log-probability is not a number, or that of no probability.
var ErrBadLogProb = errors.New("bad_log_prob")

// RL is the rows of a rollout, one for each branch of its trajectory, without what its
// group says: ids, indexes, status, advantage, and the weight version where the server
// named none.
//
// A branch goes on as long as the prompt of each step begins with the token ids of all
// that was before; where it does not, because the harness dropped messages or the chat
// template wrote old ones otherwise, a new branch begins with that prompt. Trained is
// every token that the policy sampled, whether its answer could be followed or not.
//
// When a step has no token ids the rollout is one row without tokens. ErrNothingTrained
// and ErrBadLogProb give the first row as far as it says whose it is.
func RL(r record.Rollout) ([]record.RLSample, error) {
	head := head(r)
	steps := r.Trajectory.Steps
	for i, s := range steps {
		if n := len(s.LogProbs); n > 0 && n != len(s.CompletionIDs) {
			return nil, fmt.Errorf("rollout %s: step %d has %d log-probabilities for %d tokens", r.RolloutID, i, n, len(s.CompletionIDs))
		}
	}
	if len(steps) == 0 {
		return []record.RLSample{head}, ErrNothingTrained
	}
	if slices.ContainsFunc(steps, func(s record.Step) bool { return len(s.PromptTokenIDs) == 0 || len(s.CompletionIDs) == 0 }) {
		return conversation(head, r.Trajectory)
	}
	var rows []record.RLSample
	for i, s := range steps {
		var last *record.RLSample
		if len(rows) > 0 {
			last = &rows[len(rows)-1]
		}
		if last == nil || !begins(s.PromptTokenIDs, last.Tokens) {
			rows = append(rows, head)
			last = &rows[len(rows)-1]
			last.Branch = int64(len(rows) - 1)
			last.Tokens = slices.Clone(s.PromptTokenIDs)
		}
		more := s.PromptTokenIDs[len(last.Tokens):] // what tools and harness said meanwhile
		if len(last.Spans) == 0 {
			last.TokenSource, last.LogProbSource = record.TokensServer, record.TokensServer
		}
		last.Tokens = append(append(last.Tokens, more...), s.CompletionIDs...)
		last.LossMask = append(last.LossMask, make([]int8, len(more))...)
		last.LogProbs = append(last.LogProbs, make([]float32, len(more))...)
		begin := int64(len(last.LossMask))
		for range s.CompletionIDs {
			last.LossMask = append(last.LossMask, 1)
		}
		last.LogProbs = append(last.LogProbs, s.LogProbs...)
		if len(s.LogProbs) == 0 {
			last.LogProbSource = record.TokensNone
			last.LogProbs = append(last.LogProbs, make([]float32, len(s.CompletionIDs))...)
		}
		last.Spans = append(last.Spans, record.RLSpan{Step: int64(i), Begin: begin, End: int64(len(last.LossMask))})
		last.Trained += int64(len(s.CompletionIDs))
		last.WeightVersions = add(last.WeightVersions, s.WeightVersion)
	}
	for i := range rows {
		row := &rows[i]
		row.Branches, row.ResponseLength = int64(len(rows)), int64(len(row.LossMask))
		if slices.ContainsFunc(row.LogProbs, impossible) {
			return []record.RLSample{head}, ErrBadLogProb
		}
		if row.LogProbSource == record.TokensNone { // some are better than none only by looks
			row.LogProbs = []float32{}
		}
	}
	return rows, nil
}

// begins reports whether ids begins with what was before.
func begins(ids, before []int32) bool {
	return len(ids) >= len(before) && slices.Equal(ids[:len(before)], before)
}

// impossible is what no log-probability is; servers round those of certain tokens.
func impossible(p float32) bool {
	f := float64(p)
	return math.IsNaN(f) || math.IsInf(f, 0) || f > 1e-3
}

// add appends a value that is not there yet.
func add(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

// head is what all rows of a rollout have.
func head(r record.Rollout) record.RLSample {
	row := record.RLSample{
		TaskID: r.TaskID, RolloutID: r.RolloutID, Source: r.Source, Repo: r.Repo, Language: r.Language, Policy: r.Policy, Harness: r.Harness,
		Branches: 1, Tokens: []int32{}, LossMask: []int8{}, LogProbs: []float32{}, Spans: []record.RLSpan{},
		TokenSource: record.TokensNone, LogProbSource: record.TokensNone,
		Prompt: []record.RLMessage{}, Messages: []record.RLMessage{}, Tools: r.Trajectory.Tools,
		Outcome: r.Verdict.Outcome, ExitStatus: r.Trajectory.ExitStatus, Grader: r.Verdict.Grader, Parser: r.Verdict.Parser,
		WeightVersions: []string{}, Metadata: "{}",
	}
	for _, m := range r.Trajectory.Messages {
		if m.Step < 0 && m.Kept && chatRoles[m.Role] {
			row.Prompt = append(row.Prompt, rlMessage(m))
		}
	}
	return row
}

// conversation is the row of a trajectory without token ids: its messages as the policy
// saw them last, up to the last that it wrote.
func conversation(row record.RLSample, t record.Trajectory) ([]record.RLSample, error) {
	for _, m := range t.Messages {
		if !m.Kept || !chatRoles[m.Role] {
			continue
		}
		out := rlMessage(m)
		if m.Role == "assistant" && m.Step >= 0 && int(m.Step) < len(t.Steps) {
			out.LossMask = 1
			at := int64(len(row.Messages))
			row.Spans = append(row.Spans, record.RLSpan{Step: m.Step, Begin: at, End: at + 1})
			row.Trained++
			row.WeightVersions = add(row.WeightVersions, t.Steps[m.Step].WeightVersion)
		}
		row.Messages = append(row.Messages, out)
	}
	if row.Trained == 0 {
		row.Messages = []record.RLMessage{}
		return []record.RLSample{row}, ErrNothingTrained
	}
	row.Messages = row.Messages[:row.Spans[len(row.Spans)-1].End]
	row.NTokens = tokens(t.Steps)
	return []record.RLSample{row}, nil
}

func rlMessage(m record.Message) record.RLMessage {
	chat := message(m)
	return record.RLMessage{Role: chat.Role, Content: chat.Content, Reasoning: chat.Reasoning, ToolCalls: chat.ToolCalls, ToolCallID: chat.ToolCallID}
}
