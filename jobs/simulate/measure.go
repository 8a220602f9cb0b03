package simulate

import (
	"maps"
	"math"

	"orchard/internal/bar"
)

// Measures are the figures of a strategy over prompts. What has no value, because there is no
// group, is null. An error is one standard error of the figure.
type Measures struct {
	Prompts  int `json:"prompts"`
	Rollouts int `json:"rollouts"`
	Groups   int `json:"groups"`   // usable ones
	Balanced int `json:"balanced"` // those with a share of positives within rho
	// Dropped is the prompts without a group, by reason; with Groups it is all.
	Dropped map[bar.Reason]int `json:"dropped"`

	Acceptance           float64  `json:"acceptance"` // groups a prompt
	AcceptanceError      float64  `json:"acceptance_error"`
	RolloutsPrompt       float64  `json:"rollouts_per_prompt"`
	RolloutsPromptError  float64  `json:"rollouts_per_prompt_error"`
	RolloutsGroup        *float64 `json:"rollouts_per_group"`
	RolloutsGroupError   *float64 `json:"rollouts_per_group_error"`
	GroupsPerThousand    float64  `json:"groups_per_1000_rollouts"`
	BalancedShare        float64  `json:"balanced_share"` // of prompts
	Positives            *float64 `json:"positives"`      // mean share of positives in a group
	Variance             *float64 `json:"reward_variance"`
	MeanAdvantage        *float64 `json:"mean_abs_advantage"`
	AdvantagePerThousand float64  `json:"abs_advantage_per_1000_rollouts"` // summed over members
}

// sums is what Measures are computed from.
type sums struct {
	prompts, groups, balanced     int
	used, usedSquared, usedGroups float64 // usedGroups: rollouts of prompts that gave a group
	positives, variance           float64 // a group each
	advantages                    float64 // a member each
	members                       int
	dropped                       map[bar.Reason]int
}

// add counts a prompt.
func (s *sums) add(d bar.Decision, balanced func(int) bool, a bar.Advantage) error {
	s.prompts++
	s.used += float64(d.Used)
	s.usedSquared += float64(d.Used) * float64(d.Used)
	if d.Group == nil {
		if s.dropped == nil {
			s.dropped = map[bar.Reason]int{}
		}
		s.dropped[d.Reason]++
		return nil
	}
	list, err := a.Of(d.Group.Rewards)
	if err != nil {
		return err
	}
	for _, x := range list {
		s.advantages += math.Abs(x)
	}
	n := float64(len(d.Group.Members))
	share := float64(len(d.Group.Positives)) / n
	s.groups++
	s.members += len(d.Group.Members)
	s.usedGroups += float64(d.Used)
	s.positives += share
	s.variance += share * (1 - share) // rewards are 0 and 1 here
	if balanced(len(d.Group.Positives)) {
		s.balanced++
	}
	return nil
}

func (s *sums) measures() Measures {
	n, g := float64(s.prompts), float64(s.groups)
	m := Measures{Prompts: s.prompts, Rollouts: int(s.used), Groups: s.groups, Balanced: s.balanced, Dropped: map[bar.Reason]int{},
		Acceptance: g / n, RolloutsPrompt: s.used / n, BalancedShare: float64(s.balanced) / n}
	maps.Copy(m.Dropped, s.dropped)
	m.AcceptanceError = math.Sqrt(m.Acceptance * (1 - m.Acceptance) / n)
	m.RolloutsPromptError = math.Sqrt(math.Max(0, s.usedSquared/n-m.RolloutsPrompt*m.RolloutsPrompt) / n)
	if s.used > 0 {
		m.GroupsPerThousand = 1000 * g / s.used
		m.AdvantagePerThousand = 1000 * s.advantages / s.used
	}
	if s.groups == 0 {
		return m
	}
	// A ratio of two means, by the delta method.
	ratio := s.used / g
	squares := s.usedSquared - 2*ratio*s.usedGroups + ratio*ratio*g
	off := math.Sqrt(math.Max(0, squares)) / g
	positives, variance, advantage := s.positives/g, s.variance/g, s.advantages/float64(s.members)
	m.RolloutsGroup, m.RolloutsGroupError = &ratio, &off
	m.Positives, m.Variance, m.MeanAdvantage = &positives, &variance, &advantage
	return m
}

// Batches is how batches were filled from the prompts in their order.
type Batches struct {
	Batches int     `json:"batches"` // that ended, full or not
	Full    int     `json:"full"`
	Rounds  float64 `json:"rounds"` // a batch
	Filled  float64 `json:"filled"` // mean share of the groups wanted that a batch got
	// RolloutsTrained is all rollouts over the groups that were in a batch: unlike in
	// rollouts_per_group, those that came too late for their batch are in vain.
	RolloutsTrained *float64 `json:"rollouts_per_trained_group"`
}

// fill fills batches by r until there are no more prompts; the last, which they were not
// enough for, does not count.
func fill(r bar.Refill, used []int, gave []bool) Batches {
	var b Batches
	var rounds, trained, rollouts int
	for at := 0; at < len(used); {
		groups, spent, done := 0, 0, 0
		var end bar.End
		for ; ; done++ {
			var start int
			if start, end = r.Next(done, groups, len(used)-at); end != "" {
				break
			}
			for range start {
				spent += used[at]
				if gave[at] {
					groups++
				}
				at++
			}
		}
		if end == bar.Dry {
			break
		}
		b.Batches++
		if end == bar.Full {
			b.Full++
		}
		rounds, rollouts, trained = rounds+done, rollouts+spent, trained+min(groups, r.Want)
	}
	if b.Batches > 0 {
		b.Rounds = float64(rounds) / float64(b.Batches)
		b.Filled = float64(trained) / float64(b.Batches*r.Want)
	}
	if trained > 0 {
		x := float64(rollouts) / float64(trained)
		b.RolloutsTrained = &x
	}
	return b
}
