package export

import (
	"errors"
	"fmt"

	"orchard/datasets/record"
	"orchard/internal/seal"
)

// TrajectorySum names the trajectory that a credit row is about, in its
// trajectory_sha256: the id of a rollout is that of its place in a run. No list and an
// empty one are the same.
func TrajectorySum(r record.Rollout) (string, error) {
	messages := make([]record.Message, len(r.Trajectory.Messages))
	for i, m := range r.Trajectory.Messages {
		m.ToolCalls = append([]record.ToolCall{}, m.ToolCalls...)
		messages[i] = m
	}
	sum, err := seal.Sum(messages)
	if err != nil {
		return "", fmt.Errorf("rollout %s: %w", r.RolloutID, err)
	}
	return sum, nil
}

// Credited is SFT with only the messages of some steps trained. All that came before
// them stays, as context.
func Credited(r record.Rollout, steps []record.Segment) (record.SFTRow, error) {
	return sft(r, func(step int64) bool { return within(step, steps) })
}

func within(i int64, list []record.Segment) bool {
	for _, s := range list {
		if s.Begin <= i && i < s.End {
			return true
		}
	}
	return false
}

// CheckMask says what is wrong with the mask of a row that was made of r, or nil: each
// message is what r has at its place; it is trained, in all five spellings, exactly if the
// policy wrote it, it could be followed, and its step is one of steps (nil: all steps);
// and the row's segments are the trained messages. It shares nothing with what makes rows.
func CheckMask(row record.SFTRow, r record.Rollout, steps []record.Segment) error {
	at, last := 0, -1
	credited, said := indexes(steps), indexes(row.Segments)
	bad := func(format string, a ...any) error {
		return fmt.Errorf("sft row %s: message %d: %w", row.ID, at, fmt.Errorf(format, a...))
	}
	for _, m := range r.Trajectory.Messages {
		if !m.Kept || m.Role != "system" && m.Role != "user" && m.Role != "assistant" && m.Role != "tool" {
			continue
		}
		want := m.Role == "assistant" && m.Step >= 0 && m.Step < int64(len(r.Trajectory.Steps)) && (steps == nil || credited[m.Step])
		if want {
			s := r.Trajectory.Steps[m.Step]
			want = s.FormatError == "" && s.FinishReason != "length" && s.FinishReason != "content_filter"
		}
		if at == len(row.Messages) {
			if want {
				return bad("the row ends before a message of step %d that is to be trained", m.Step)
			}
			continue
		}
		got := row.Messages[at]
		switch {
		case got.Role != m.Role || got.Content != m.Content:
			return bad("it is not the rollout's")
		case got.Train != want || got.Loss != want || (got.LossMask == 1) != want || (got.StepLossMask == 1) != want || (got.LossScale == 1) != want,
			!want && (got.LossMask != 0 || got.StepLossMask != 0 || got.LossScale != 0):
			return bad("its mask is train %t, loss %t, loss_mask %d, step_loss_mask %d, loss_scale %v; want %t (step %d)",
				got.Train, got.Loss, got.LossMask, got.StepLossMask, got.LossScale, want, m.Step)
		case want != said[int64(at)]:
			return bad("the row's segments %v say otherwise", row.Segments)
		}
		if want {
			last = at
		}
		at++
	}
	switch {
	case at < len(row.Messages):
		return bad("the rollout has none there")
	case last < 0:
		return errors.Join(fmt.Errorf("sft row %s", row.ID), ErrNothingTrained)
	case last != len(row.Messages)-1:
		return bad("the row goes on after its last trained message, %d", last)
	}
	return segmentsAreRuns(row)
}

func indexes(list []record.Segment) map[int64]bool {
	set := map[int64]bool{}
	for _, s := range list {
		for i := s.Begin; i < s.End; i++ {
			set[i] = true
		}
	}
	return set
}

func segmentsAreRuns(row record.SFTRow) error {
	for i, s := range row.Segments {
		if s.Begin >= s.End || s.End > int64(len(row.Messages)) || i > 0 && s.Begin <= row.Segments[i-1].End {
			return fmt.Errorf("sft row %s: segments %v are not apart and in order", row.ID, row.Segments)
		}
	}
	return nil
}
