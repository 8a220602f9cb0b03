// Package passrate decides whether a task is of use for training by the share of rollouts
// that solve it, and decides it as early as possible without ever deciding otherwise.
//
// A task is kept if and only if Lo < p <= Hi, where p is passes over known outcomes. The
// rollouts of a task come in one after the other; as soon as no outcome of those still to
// come can change the decision, it is made.
//
// An outcome that is not known (infra_error, no_tests_ran, task_invalid) is neither pass nor
// fail, nor part of p: its rollout is tried again, and stays among the remaining until it is
// known or given up. Giving rollouts up never turns an early decision around: it is made when p
// stays within or outside the bounds for all outcomes of the remaining and of any fewer, which
// narrow bounds do not give for free (no share of 5 is above .25 and at most .34, one of 3 is). A task that can no longer have NMin known outcomes, and had no decision before,
// is Unknown: it is neither kept nor dropped for its pass rate.
//
// The package knows no rollouts and no datasets. Its functions are pure.
package passrate

import (
	"errors"
	"fmt"
	"math"
)

// Decision is what is to become of a task.
type Decision string

// The decisions. Undecided waits for rollouts that can still end; Unknown is the end, and no
// statement about the task.
const (
	Keep      Decision = "keep"
	Drop      Decision = "drop"
	Undecided Decision = "undecided"
	Unknown   Decision = "unknown"
)

// Rule is when a task is kept.
type Rule struct {
	N    int     `json:"n"`     // rollouts a task
	NMin int     `json:"n_min"` // least number of known outcomes that is trusted
	Lo   float64 `json:"lo"`    // p must be above
	Hi   float64 `json:"hi"`    // p must not be above
}

// Defaults is the rule of the paper: 8 rollouts, 0 < p <= 0.5. That 6 of them must be known
// is ours.
func Defaults() Rule { return Rule{N: 8, NMin: 6, Lo: 0, Hi: .5} }

// slack is what products of shares and counts may be off by: 0.3*10 is not 3.
const slack = 1e-9

// Validate says everything that is wrong with r.
func (r Rule) Validate() error {
	var errs []error
	if r.N < 1 {
		errs = append(errs, fmt.Errorf("n %d: must be at least 1", r.N))
	}
	if r.NMin < 1 || r.NMin > r.N {
		errs = append(errs, fmt.Errorf("n_min %d: must be from 1 to n %d", r.NMin, r.N))
	}
	if !(r.Lo >= 0 && r.Lo < r.Hi && r.Hi <= 1) {
		errs = append(errs, fmt.Errorf("pass rate above %v and at most %v: must be 0 <= lo < hi <= 1", r.Lo, r.Hi))
	}
	if len(errs) == 0 && !r.some() {
		errs = append(errs, fmt.Errorf("pass rate above %v and at most %v: no number of passes of %d is there", r.Lo, r.Hi, r.N))
	}
	return errors.Join(errs...)
}

// some reports whether any number of passes is kept.
func (r Rule) some() bool {
	for c := range r.N + 1 {
		if r.holds(c, r.N) {
			return true
		}
	}
	return false
}

// holds reports whether pass of n is within the bounds.
func (r Rule) holds(pass, n int) bool {
	c, m := float64(pass), float64(n)
	return c > r.Lo*m+slack && c <= r.Hi*m+slack
}

// Final is the decision over all outcomes that are known when no rollout remains. It never
// returns Undecided.
func (r Rule) Final(pass, known int) Decision {
	switch {
	case known < r.NMin:
		return Unknown
	case r.holds(pass, known):
		return Keep
	}
	return Drop
}

// Decide is the decision when pass of the known outcomes were passes and remaining rollouts
// may still end in a known outcome or be given up: Undecided while two ends of those would lead to
// two decisions. With none remaining it is Final.
func (r Rule) Decide(pass, known, remaining int) (Decision, error) {
	if pass < 0 || pass > known || remaining < 0 || known+remaining > r.N {
		return Undecided, fmt.Errorf("pass rate: %d passes of %d known outcomes and %d remaining rollouts are not those of %d", pass, known, remaining, r.N)
	}
	if known+remaining < r.NMin {
		return Unknown, nil
	}
	var first Decision
	for n := known + remaining; n >= max(known, r.NMin); n-- { // the known ones in the end
		d := r.all(pass, pass+n-known, n)
		if d == Undecided || first != "" && d != first {
			return Undecided, nil
		}
		first = d
	}
	return first, nil
}

// all is the decision for every number of passes from least to most of n: Undecided when
// they lead to two.
func (r Rule) all(least, most, n int) Decision {
	low, high := int(math.Floor(r.Lo*float64(n)+slack))+1, int(math.Floor(r.Hi*float64(n)+slack)) // those that are kept
	switch {
	case low > high || most < low || least > high:
		return Drop
	case least >= low && most <= high:
		return Keep
	}
	return Undecided
}

// Ahead is how many of the remaining rollouts may run at once without one in vain: with
// fewer further outcomes, whatever they are, there is no decision. It is 0 after a decision.
func (r Rule) Ahead(pass, known, remaining int) (int, error) {
	for k := range remaining + 1 {
		for more := range k + 1 {
			d, err := r.Decide(pass+more, known+k, remaining-k)
			if err != nil {
				return 0, err
			}
			if d != Undecided {
				return k, nil
			}
		}
	}
	return remaining, nil // not reached: with none remaining there is a decision
}
