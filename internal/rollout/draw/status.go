package draw

import (
	"context"
	"errors"

	"orchard/datasets/record"
	"orchard/internal/exit"
)

// The statuses of a draw, as internal/bar has them.
const (
	Completed    = "completed"
	Truncated    = "truncated"
	TimeExceeded = "time_exceeded"
	Aborted      = "aborted"
)

// Of is a rollout as a draw.
func Of(r record.Rollout) record.Draw {
	return record.Draw{
		RolloutID: r.RolloutID, Index: r.Index, Outcome: r.Verdict.Outcome, Reward: r.Verdict.Reward,
		Status: status(r), Length: length(r.Trajectory),
	}
}

// status is how a rollout ended. One without a reward says nothing of its policy, however
// it ended.
func status(r record.Rollout) string {
	if r.Verdict.Reward == nil {
		return Aborted
	}
	switch r.Trajectory.ExitStatus {
	case record.ExitStepLimit, record.ExitTokenLimit, record.ExitCostLimit:
		return Truncated
	case record.ExitTimeLimit:
		return TimeExceeded
	}
	return Completed
}

// length is how long the answers are together: in tokens when the server gave the ids of
// all of them, else in bytes.
func length(t record.Trajectory) int64 {
	var tokens, bytes int64
	counted := len(t.Steps) > 0
	for _, s := range t.Steps {
		tokens += int64(len(s.CompletionIDs))
		counted = counted && len(s.CompletionIDs) > 0
	}
	if counted {
		return tokens
	}
	for _, m := range t.Messages {
		if m.Role != "assistant" {
			continue
		}
		bytes += int64(len(m.Content) + len(m.Reasoning))
		for _, c := range m.ToolCalls {
			bytes += int64(len(c.Name) + len(c.Arguments))
		}
	}
	return bytes
}

// trouble reports whether err is of one rollout, and neither a stop nor something that
// ends the stage or is the task's own fault.
func trouble(ctx context.Context, err error) bool {
	if ctx.Err() != nil || errors.Is(err, context.Canceled) {
		return false
	}
	switch exit.Code(err) {
	case exit.Config, exit.Gone, exit.Input:
		return false
	}
	return true
}
