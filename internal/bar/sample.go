// Package bar chooses, from the finished rollouts of one prompt, the group that a gradient
// step uses, and says which rollouts are still needed for it: balanced adaptive rollout (BAR,
// the paper's Algorithm 1) and, behind the same interface, the two baselines: groups of fixed
// size, and DAPO's dynamic sampling.
//
// Every Strategy is a pure function of the samples that are there. It has no state, so a
// driver that was killed in mid-stride and reads its finished rollouts back gets the decision
// it would have got, and samples may be given in any order: they are put in the order of their
// indexes before anything looks at them. What was generated ahead of its stride is not looked
// at before its turn. (EagerStop gives the second up, and is off.)
//
// A reward that is null is no reward: the sample is neither positive nor negative, can be in
// no group that is used, and is counted as unusable. Rewards of 0 and below are negative.
//
// The package starts, waits for and cancels nothing.
package bar

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Status is how a rollout ended.
type Status string

// The statuses, from the one that is chosen first to the one that is chosen last.
const (
	Completed    Status = "completed"
	Truncated    Status = "truncated"     // cut at the response length
	TimeExceeded Status = "time_exceeded" // cut by the clock
	Aborted      Status = "aborted"       // ended by us or by trouble of ours
)

var statuses = []Status{Completed, Truncated, TimeExceeded, Aborted}

// Sample is what a strategy knows of a finished rollout.
type Sample struct {
	Index  int      `json:"index"` // of the rollout within its prompt, from 0
	Status Status   `json:"status"`
	Reward *float64 `json:"reward"` // null where it is not known
	Length int64    `json:"length"` // of the response, in tokens or bytes, the same for all; 0 is not known
}

// positive is only asked of usable samples.
func (s *Sample) positive() bool { return *s.Reward > 0 }

// check says what is wrong with a sample of a prompt that has at most most of them.
func (s *Sample) check(most int) error {
	switch {
	case s.Index < 0 || s.Index >= most:
		return fmt.Errorf("sample %d: the indexes of a prompt are 0 to %d", s.Index, most-1)
	case !slices.Contains(statuses, s.Status):
		return fmt.Errorf("sample %d: status %q is none of %q", s.Index, s.Status, statuses)
	case s.Length < 0:
		return fmt.Errorf("sample %d: length %d is negative", s.Index, s.Length)
	case s.Reward != nil && (math.IsNaN(*s.Reward) || math.IsInf(*s.Reward, 0)):
		return fmt.Errorf("sample %d: reward %v is not a number that can be compared; null is for one that is not known", s.Index, *s.Reward)
	}
	return nil
}

// arrange puts samples at their indexes; an index without one is nil.
func arrange(samples []Sample, most int) ([]*Sample, error) {
	at := make([]*Sample, most)
	for i := range samples {
		s := &samples[i]
		if err := s.check(most); err != nil {
			return nil, err
		}
		if at[s.Index] != nil {
			return nil, fmt.Errorf("sample %d: is there twice", s.Index)
		}
		at[s.Index] = s
	}
	return at, nil
}

// missing is the indexes that hold no sample.
func missing(at []*Sample) (indexes []int) {
	for i, s := range at {
		if s == nil {
			indexes = append(indexes, i)
		}
	}
	return indexes
}

// present is the samples that are there, by index.
func present(at []*Sample) []*Sample {
	return slices.DeleteFunc(slices.Clone(at), func(s *Sample) bool { return s == nil })
}

// Reading is how samples are judged and ranked, where the paper and the code released with it
// differ. The zero value is the paper's.
type Reading struct {
	// TruncatedUsable makes a truncated sample that has a reward positive or negative, as the
	// released code does. In the paper it only fills up.
	TruncatedUsable bool `json:"truncated_usable"`
	// IgnoreLength ranks samples of one status by index alone, as the released code does. In
	// the paper the shorter response comes first.
	IgnoreLength bool `json:"ignore_length"`
}

// usable reports whether a sample may be trained on.
func (r Reading) usable(s *Sample) bool {
	return s.Reward != nil && (s.Status == Completed || r.TruncatedUsable && s.Status == Truncated)
}

// Tally is how many samples are what; their sum is all.
type Tally struct {
	Positive int `json:"positive"`
	Negative int `json:"negative"`
	Unusable int `json:"unusable"`
}

// tally counts samples.
func (r Reading) tally(samples []*Sample) (t Tally) {
	for _, s := range samples {
		switch {
		case !r.usable(s):
			t.Unusable++
		case s.positive():
			t.Positive++
		default:
			t.Negative++
		}
	}
	return t
}

// rank orders samples from the one that is chosen first: usable ones first, then by status,
// length and index.
func (r Reading) rank(a, b *Sample) int {
	order := cmp.Or(
		cmp.Compare(unusableRank(r, a), unusableRank(r, b)),
		cmp.Compare(slices.Index(statuses, a.Status), slices.Index(statuses, b.Status)))
	if !r.IgnoreLength {
		order = cmp.Or(order, cmp.Compare(a.Length, b.Length))
	}
	return cmp.Or(order, cmp.Compare(a.Index, b.Index))
}

func unusableRank(r Reading, s *Sample) int {
	if r.usable(s) {
		return 0
	}
	return 1
}
