package export

import (
	"fmt"
	"math"
	"slices"

	"orchard/datasets/record"
)

// CheckRL says what is wrong with a row before it is written: lengths that differ, a mask
// that is not exactly what the steps sampled, a log-probability where nothing was sampled,
// nothing trained, a reward or an advantage that is no number.
func CheckRL(r record.RLSample) error {
	bad := func(format string, a ...any) error {
		return fmt.Errorf("rl sample %s (rollout %s, branch %d): %s", r.ID, r.RolloutID, r.Branch, fmt.Sprintf(format, a...))
	}
	mask := r.LossMask
	switch {
	case r.TokenSource == record.TokensServer:
		if int(r.ResponseLength) != len(mask) || int(r.ResponseLength) >= len(r.Tokens) {
			return bad("%d tokens, response_length %d and a mask of %d", len(r.Tokens), r.ResponseLength, len(mask))
		}
		if len(r.Messages) > 0 {
			return bad("has tokens and messages")
		}
	case r.TokenSource != record.TokensNone:
		return bad("token_source %q", r.TokenSource)
	default:
		if len(r.Tokens)+len(mask)+len(r.LogProbs) > 0 || r.ResponseLength != 0 || r.LogProbSource != record.TokensNone {
			return bad("has no token ids, but tokens, mask or log-probabilities")
		}
		for i, m := range r.Messages {
			if m.LossMask != 0 && m.Role != "assistant" {
				return bad("message %d of the %s is trained", i, m.Role)
			}
			mask = append(mask, m.LossMask)
		}
	}
	want := make([]int8, len(mask))
	trained, end := int64(0), int64(0)
	for i, s := range r.Spans {
		if s.Begin < end || s.Begin >= s.End || s.End > int64(len(mask)) || i > 0 && s.Step <= r.Spans[i-1].Step {
			return bad("span %d, [%d, %d) of step %d, is not in order within %d", i, s.Begin, s.End, s.Step, len(mask))
		}
		for j := s.Begin; j < s.End; j++ {
			want[j] = 1
		}
		trained, end = trained+s.End-s.Begin, s.End
	}
	for i := range mask {
		if mask[i] != want[i] {
			return bad("mask[%d] is %d where the steps say %d", i, mask[i], want[i])
		}
	}
	if trained == 0 || trained != r.Trained {
		return bad("trains %d, and says %d", trained, r.Trained)
	}
	if slices.ContainsFunc(r.Prompt, func(m record.RLMessage) bool { return m.LossMask != 0 }) {
		return bad("a message of the prompt is trained")
	}
	if err := checkLogProbs(r); err != nil {
		return bad("%v", err)
	}
	if r.Branch < 0 || r.Branch >= r.Branches {
		return bad("is of %d branches", r.Branches)
	}
	if !finite(r.Reward) || r.Advantage != nil && !finite(*r.Advantage) {
		return bad("reward %v or its advantage is no number", r.Reward)
	}
	return nil
}

func checkLogProbs(r record.RLSample) error {
	switch {
	case r.LogProbSource == record.TokensNone && len(r.LogProbs) == 0:
		return nil
	case r.LogProbSource != record.TokensServer || len(r.LogProbs) != len(r.LossMask):
		return fmt.Errorf("%d log-probabilities from %q for a mask of %d", len(r.LogProbs), r.LogProbSource, len(r.LossMask))
	}
	for i, p := range r.LogProbs {
		if impossible(p) || r.LossMask[i] == 0 && p != 0 {
			return fmt.Errorf("log-probability %d is %v where the mask is %d", i, p, r.LossMask[i])
		}
	}
	return nil
}

func finite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }

// CheckRLSource compares the rows of a rollout with its steps: each step is in one row,
// in which the tokens before its span are exactly its prompt, those of the span exactly
// what it sampled, and the log-probabilities those of the server.
func CheckRLSource(rows []record.RLSample, r record.Rollout) error {
	next := int64(0)
	for _, row := range rows {
		prompt := len(row.Tokens) - int(row.ResponseLength)
		for _, s := range row.Spans {
			if row.TokenSource != record.TokensServer {
				continue
			}
			if s.Step != next || s.Step >= int64(len(r.Trajectory.Steps)) {
				return fmt.Errorf("rollout %s: branch %d has step %d, want %d of %d", r.RolloutID, row.Branch, s.Step, next, len(r.Trajectory.Steps))
			}
			next++
			step := r.Trajectory.Steps[s.Step]
			begin, end := prompt+int(s.Begin), prompt+int(s.End)
			switch {
			case !slices.Equal(row.Tokens[:begin], step.PromptTokenIDs):
				return fmt.Errorf("rollout %s: branch %d: the tokens before step %d are not its prompt", r.RolloutID, row.Branch, s.Step)
			case !slices.Equal(row.Tokens[begin:end], step.CompletionIDs):
				return fmt.Errorf("rollout %s: branch %d: the tokens of step %d are not what was sampled", r.RolloutID, row.Branch, s.Step)
			case len(row.LogProbs) > 0 && !slices.Equal(row.LogProbs[s.Begin:s.End], step.LogProbs):
				return fmt.Errorf("rollout %s: branch %d: the log-probabilities of step %d are not the server's", r.RolloutID, row.Branch, s.Step)
			}
		}
	}
	if len(rows) > 0 && rows[0].TokenSource == record.TokensServer && next != int64(len(r.Trajectory.Steps)) {
		return fmt.Errorf("rollout %s: its rows have %d of %d steps", r.RolloutID, next, len(r.Trajectory.Steps))
	}
	return nil
}
