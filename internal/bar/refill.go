package bar

import (
	"errors"
	"fmt"
)

// Refill says how a batch of groups is filled: prompts are started in rounds until enough of
// them have given a group. A group beyond the batch is for the next one, or for nobody.
type Refill struct {
	Want   int `json:"want"`   // groups of a batch
	Start  int `json:"start"`  // prompts that the first round starts: more than Want is over-sampling
	Rounds int `json:"rounds"` // most rounds of a batch; 1 never refills; 0 is no limit
	// Whole makes later rounds start as many as the first, as verl's DAPO does; else they
	// start Start/Want prompts for each group that still lacks, rounded up.
	Whole bool `json:"whole"`
}

// Validate says everything that is wrong with r.
func (r Refill) Validate() error {
	var errs []error
	for _, f := range []struct {
		name         string
		value, least int
	}{{"want", r.Want, 1}, {"start", r.Start, 1}, {"rounds", r.Rounds, 0}} {
		if f.value < f.least {
			errs = append(errs, fmt.Errorf("%s %d: must be at least %d", f.name, f.value, f.least))
		}
	}
	return errors.Join(errs...)
}

// End is how the filling of a batch ended. "" is not yet.
type End string

// The ends. A batch that is Capped or Dry is short, which whoever takes it must be told.
const (
	Full   End = "full"
	Capped End = "capped" // Rounds were not enough
	Dry    End = "dry"    // there are no more prompts
)

// Next says how many prompts to start, after rounds rounds have given groups groups and left
// prompts have not been started; or how it ended.
func (r Refill) Next(rounds, groups, left int) (start int, end End) {
	switch {
	case groups >= r.Want:
		return 0, Full
	case r.Rounds > 0 && rounds >= r.Rounds:
		return 0, Capped
	case left <= 0:
		return 0, Dry
	}
	start = r.Start
	if !r.Whole {
		start = (r.Start*(r.Want-groups) + r.Want - 1) / r.Want
	}
	return min(start, left), ""
}
