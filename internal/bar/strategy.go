package bar

import (
	"fmt"
	"slices"
)

// Strategy says what is next for one prompt.
type Strategy interface {
	// Next decides by the samples that have ended so far, in whatever order they are given.
	// The error names a sample that is not one.
	Next(ended []Sample) (Decision, error)
	// Most is how many rollouts a prompt can need: its indexes are below it.
	Most() int
	// Size is how many samples a group has.
	Size() int
	// String is a name for tables, such as bar-s4.
	String() string
}

// Decision is what is next for a prompt: more rollouts, or a group, or nothing. Exactly one of
// Need, Group and Reason is set.
type Decision struct {
	// Need is the indexes, ascending, whose samples must be there before there is another
	// decision. A driver starts those that it has not started yet.
	Need []int `json:"need,omitempty"`
	// Group is what to train on.
	Group *Group `json:"group,omitempty"`
	// Reason is why the prompt gives no group.
	Reason Reason `json:"reason,omitempty"`
	// Used is how many samples the decision rests on, and Tally what they are. A sample
	// beyond them was generated ahead and not looked at.
	Used  int   `json:"used"`
	Tally Tally `json:"tally"`
}

// Over reports whether the prompt needs no more rollouts: those in flight are for nobody. Before,
// one that was started ahead has its turn later.
func (d Decision) Over() bool { return len(d.Need) == 0 }

// Kind is how a group came to be.
type Kind string

// The kinds.
const (
	Strict     Kind = "strict"     // the share of positives is within the bounds
	Relaxed    Kind = "relaxed"    // it is not, but there are positives and negatives
	Degenerate Kind = "degenerate" // the best ranked, because there was no other
	Fixed      Kind = "fixed"      // all that were generated
)

// Group is the samples that one gradient step uses.
type Group struct {
	Kind Kind `json:"kind"`
	// Members is the indexes, ascending: the order in which they were chosen, positives
	// first, must not reach a batch.
	Members []int `json:"members"`
	// Positives is those of Members whose reward is above 0.
	Positives []int `json:"positives"`
	// Rewards is the members' rewards, in the order of Members.
	Rewards []float64 `json:"rewards"`
}

// Reason is why a prompt gives no group. "" is no reason.
type Reason string

// The reasons, from the group filter: the first that holds is given.
const (
	NoneUsable Reason = "none_usable" // no sample of the prompt can be trained on: we know nothing of it
	FewUsable  Reason = "few_usable"  // fewer than a group needs
	NoPositive Reason = "no_positive"
	NoNegative Reason = "no_negative" // of DAPO only
	NoVariance Reason = "no_variance" // the rewards are as good as equal
)

// filter is the group filter: a group is dropped whole if a member cannot be trained on, if
// no reward is above 0, or if the rewards do not differ. all is what the members were chosen
// from.
func (r Reading) filter(members, all []*Sample) Reason {
	t := r.tally(members)
	switch {
	case t.Unusable > 0 && r.tally(all).Unusable == len(all):
		return NoneUsable
	case t.Unusable > 0:
		return FewUsable
	case t.Positive == 0:
		return NoPositive
	case spread(rewards(members), 1) <= leastSpread:
		return NoVariance
	}
	return ""
}

func rewards(members []*Sample) []float64 {
	list := make([]float64, len(members))
	for i, s := range members {
		list[i] = *s.Reward
	}
	return list
}

// wait is the decision that the samples at need must come first.
func (r Reading) wait(need []int, at []*Sample) Decision {
	return Decision{Need: need, Used: len(at) - len(need), Tally: r.tally(present(at))}
}

// conclude is the decision for a prompt whose group would be members, chosen from all.
func (r Reading) conclude(kind Kind, members, all []*Sample) Decision {
	d := Decision{Used: len(all), Tally: r.tally(all)}
	if d.Reason = r.filter(members, all); d.Reason != "" {
		return d
	}
	members = slices.Clone(members)
	slices.SortFunc(members, func(a, b *Sample) int { return a.Index - b.Index })
	d.Group = &Group{Kind: kind, Members: []int{}, Positives: []int{}, Rewards: rewards(members)}
	for _, s := range members {
		d.Group.Members = append(d.Group.Members, s.Index)
		if s.positive() {
			d.Group.Positives = append(d.Group.Positives, s.Index)
		}
	}
	return d
}

// FixedN is the plain baseline: N samples are the group. The group filter is that of BAR.
type FixedN struct {
	N int
	Reading
}

// Most, Size and String are those of Strategy.
func (f FixedN) Most() int      { return f.N }
func (f FixedN) Size() int      { return f.N }
func (f FixedN) String() string { return fmt.Sprintf("fixed-%d", f.N) }

// Next waits for N samples.
func (f FixedN) Next(ended []Sample) (Decision, error) {
	at, err := arrange(ended, f.N)
	if err != nil {
		return Decision{}, err
	}
	if need := missing(at); len(need) > 0 {
		return f.wait(need, at), nil
	}
	return f.conclude(Fixed, at, at), nil
}

// DAPO is dynamic sampling for one prompt: N samples are the group, if some are positive and
// some are not. The other half of it, batches that are refilled until they are full, is Refill.
type DAPO struct {
	N int
	Reading
}

// Most, Size and String are those of Strategy.
func (p DAPO) Most() int      { return p.N }
func (p DAPO) Size() int      { return p.N }
func (p DAPO) String() string { return fmt.Sprintf("dapo-%d", p.N) }

// Next waits for N samples.
func (p DAPO) Next(ended []Sample) (Decision, error) {
	d, err := FixedN(p).Next(ended)
	if err == nil && d.Group != nil && d.Tally.Negative == 0 {
		d.Group, d.Reason = nil, NoNegative
	}
	return d, err
}

var (
	_ Strategy = BAR{}
	_ Strategy = FixedN{}
	_ Strategy = DAPO{}
)
