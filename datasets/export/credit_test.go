package export

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"orchard/datasets/record"
)

// random is a trajectory of all that a harness leaves behind, and steps to train.
func random(r *rand.Rand) (record.Rollout, []record.Segment) {
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	var t record.Trajectory
	t.Tools = bash
	t.Messages = append(t.Messages, record.Message{Role: "system", Content: "s", Step: -1, Kept: true}, record.Message{Role: "user", Content: "u", Step: -1, Kept: true})
	n := r.IntN(12)
	for i := range n {
		s := record.Step{FinishReason: pick("tool_calls", "tool_calls", "stop", "length", "content_filter")}
		kept := true
		if r.IntN(5) == 0 {
			s.FormatError, kept = "bad", r.IntN(2) == 0
		}
		t.Steps = append(t.Steps, s)
		t.Messages = append(t.Messages, record.Message{Role: "assistant", Content: fmt.Sprint("a", i), ToolCalls: call(`{"command":"x"}`), Step: int64(i), Kept: kept})
		for range r.IntN(3) {
			t.Messages = append(t.Messages, record.Message{Role: pick("tool", "user", "exit"), Content: "o", Step: int64(i), Kept: r.IntN(6) > 0})
		}
	}
	segments := []record.Segment{}
	for at := r.IntN(3); at < n; {
		end := min(n, at+1+r.IntN(3))
		segments = append(segments, record.Segment{Begin: int64(at), End: int64(end)})
		at = end + 1 + r.IntN(3)
	}
	return record.Rollout{RolloutID: "r", Trajectory: t, Verdict: record.Verdict{Outcome: record.Unresolved}}, segments
}

// reference is the mask of the conversation that the policy saw, up to its last one:
// which answers lie in a segment and were followed.
func reference(r record.Rollout, segments []record.Segment) string {
	mask := ""
	for _, m := range r.Trajectory.Messages {
		if m.Kept && m.Role != "exit" {
			bit := "0"
			for _, s := range segments {
				for step := s.Begin; step < s.End; step++ {
					if f := r.Trajectory.Steps[step]; m.Role == "assistant" && m.Step == step && f.FormatError == "" && (f.FinishReason == "tool_calls" || f.FinishReason == "stop") {
						bit = "1"
					}
				}
			}
			mask += bit
		}
	}
	return mask[:strings.LastIndex(mask, "1")+1]
}

func mask(row record.SFTRow) string {
	s := ""
	for _, m := range row.Messages {
		s += fmt.Sprint(m.LossMask)
	}
	return s
}

func TestTenThousandMasksEqualTheReference(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	trained := 0
	for i := range 10_000 {
		ro, segments := random(r)
		row, err := Credited(ro, segments)
		want := reference(ro, segments)
		if want == "" {
			if !errors.Is(err, ErrNothingTrained) {
				t.Fatalf("trajectory %d: nothing is to be trained: %v", i, err)
			}
			continue
		}
		if err != nil || mask(row) != want {
			t.Fatalf("trajectory %d: %v, mask %s, want %s of %v\n%+v", i, err, mask(row), want, segments, ro.Trajectory)
		}
		if err := CheckMask(row, ro, segments); err != nil {
			t.Fatalf("trajectory %d: %v", i, err)
		}
		if i < 1000 {
			flips(t, row, ro, segments)
		}
		whole, err := SFT(ro)
		if err == nil {
			err = CheckMask(whole, ro, nil)
		}
		if err != nil {
			t.Fatalf("trajectory %d, whole: %v", i, err)
		}
		trained++
	}
	if trained < 3000 {
		t.Errorf("only %d had anything to train", trained)
	}
}

// flips finds that no bit of a mask can be another without notice: in any one of its
// spellings, in all of them, in the segments, and at the end of the row.
func flips(t *testing.T, row record.SFTRow, r record.Rollout, steps []record.Segment) {
	t.Helper()
	each := []func(m *record.SFTMessage){
		func(m *record.SFTMessage) { m.LossMask ^= 1 },
		func(m *record.SFTMessage) { m.StepLossMask ^= 1 },
		func(m *record.SFTMessage) { m.Loss = !m.Loss },
		func(m *record.SFTMessage) { m.Train = !m.Train },
		func(m *record.SFTMessage) { m.LossScale = 1 - m.LossScale },
		func(m *record.SFTMessage) { m.LossScale += .5 },
	}
	all := func(m *record.SFTMessage) {
		for _, flip := range each[:5] {
			flip(m)
		}
	}
	caught := func(what string, bad record.SFTRow) {
		if CheckMask(bad, r, steps) == nil {
			t.Fatalf("%s is not noticed: %s of %v", what, mask(row), steps)
		}
	}
	for i := range row.Messages {
		for k, flip := range append(each, all) {
			bad := row
			bad.Messages = slices.Clone(row.Messages)
			flip(&bad.Messages[i])
			caught(fmt.Sprintf("flip %d of message %d", k, i), bad)
			bad.Segments = segments(bad.Messages)
			caught(fmt.Sprintf("flip %d of message %d with its segments", k, i), bad)
		}
	}
	bad := row
	bad.Segments = row.Segments[1:]
	caught("a missing segment", bad)
	bad.Segments = append(slices.Clone(row.Segments), row.Segments[0])
	caught("a segment twice", bad)
	bad = row
	bad.Messages = row.Messages[:len(row.Messages)-1]
	caught("a row that ends early", bad)
	bad.Messages = append(slices.Clone(row.Messages), record.SFTMessage{Role: "user", Content: "more"})
	caught("a row that goes on", bad)
	bad.Messages = slices.Clone(row.Messages)
	bad.Messages[0].Content += "!"
	caught("another message", bad)
}
