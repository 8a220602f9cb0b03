// Package curve turns what is believed at a few steps of a trajectory into what is
// trained of it: values of all states, the credit of every step, the stretches where the
// value rises, and those stretches joined and padded. It is pure: numbers in, numbers
// out, and it knows neither models nor rows.
//
// A trajectory of n steps has n+1 states: state t is what there is before step t, state n
// what there is after the last. The credit of step t is V(t+1) - V(t). A rise is a longest
// run of steps whose credit is at least Epsilon. Between two key states the value is
// interpolated linearly, before the first and after the last it is constant. A value that
// is not known is NaN; so is a credit beside it, and it rises nowhere.
package curve

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// tolerance is what a credit may be below Epsilon: 0.35-0.30 is 0.04999999999999999.
const tolerance = 1e-9

// Point is the probability of success that somebody gives a key step.
type Point struct {
	Step int
	P    float64
}

// When is what moment of its step a point speaks of.
type When string

// The moments.
const (
	Before When = "before" // state Step: what there is when the step is about to be taken
	After  When = "after"  // state Step+1: what there is when it has been taken
)

// Rise is what counts as rising between key states.
type Rise string

// The kinds of rise.
const (
	ByStep         Rise = "step"          // each step by Epsilon or more
	ByInterval     Rise = "interval"      // all steps between two key states that differ by Epsilon or more
	ByIntervalMean Rise = "interval-mean" // the same, by Epsilon for each step between them
)

// Options are the choices that the method leaves open.
type Options struct {
	Epsilon float64 // of a rise; above 0
	When    When
	Rise    Rise
	Last    bool // train the step at the end of a rise too, whose state is the first that rises no more
	Gap     int  // rises with at most so many steps between them are joined
	Pad     int  // steps added on both sides of what was joined
}

// Defaults are the options without any flag.
func Defaults() Options { return Options{Epsilon: .05, When: Before, Rise: ByStep, Gap: 1} }

// Validate says everything that is wrong, by the names of the flags.
func (o Options) Validate() error {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if !(o.Epsilon > tolerance && o.Epsilon <= 1) {
		bad("--epsilon: %v must be above 0 and at most 1", o.Epsilon)
	}
	if o.When != Before && o.When != After {
		bad("--probability: %q is neither before nor after", o.When)
	}
	if !slices.Contains([]Rise{ByStep, ByInterval, ByIntervalMean}, o.Rise) {
		bad("--rise: %q is none of step, interval, interval-mean", o.Rise)
	}
	if o.Gap < 0 {
		bad("--gap: %d must not be negative", o.Gap)
	}
	if o.Pad < 0 {
		bad("--pad: %d must not be negative", o.Pad)
	}
	return errors.Join(errs...)
}

// Range is the steps from Begin up to, not including, End.
type Range struct{ Begin, End int }

// Curve is what becomes of a trajectory of n steps.
type Curve struct {
	Values   []float64 // of the n+1 states; empty for n = 0
	Credits  []float64 // of the n steps
	Rises    []Range   // as they are
	Segments []Range   // what is trained: rises, joined and padded; apart, in order, none empty
}

// Of is the curve through some points of a trajectory of n steps. The points are in
// order, each of another step.
func Of(points []Point, n int, o Options) (Curve, error) {
	if len(points) == 0 {
		return Curve{}, errors.New("a curve needs a point")
	}
	shift := 0
	if o.When == After {
		shift = 1
	}
	states := make([]Point, len(points))
	for i, p := range points {
		switch {
		case p.Step < 0 || p.Step >= n:
			return Curve{}, fmt.Errorf("step %d: the trajectory has steps 0 to %d", p.Step, n-1)
		case i > 0 && p.Step <= points[i-1].Step:
			return Curve{}, fmt.Errorf("step %d comes after step %d", p.Step, points[i-1].Step)
		case !(p.P >= 0 && p.P <= 1):
			return Curve{}, fmt.Errorf("step %d: probability %v is not between 0 and 1", p.Step, p.P)
		}
		states[i] = Point{p.Step + shift, p.P}
	}
	values := interpolate(states, n+1)
	c := Curve{Values: values, Credits: credits(values)}
	rising := make([]bool, n)
	switch o.Rise {
	case ByInterval, ByIntervalMean:
		for i := range len(states) - 1 {
			a, b := states[i], states[i+1]
			least := o.Epsilon
			if o.Rise == ByIntervalMean {
				least *= float64(b.Step - a.Step)
			}
			for t := a.Step; t < b.Step; t++ {
				rising[t] = b.P-a.P >= least-tolerance
			}
		}
	default:
		o.mark(rising, c.Credits)
	}
	c.cut(rising, o)
	return c, nil
}

// Measured is the curve of values that are known, or NaN, for every state. There is
// nothing between two of them, so any kind of rise is that of a step.
func Measured(values []float64, o Options) Curve {
	c := Curve{Values: slices.Clone(values), Credits: credits(values)}
	rising := make([]bool, len(c.Credits))
	o.mark(rising, c.Credits)
	c.cut(rising, o)
	return c
}

func (o Options) mark(rising []bool, credits []float64) {
	for t, c := range credits {
		rising[t] = c >= o.Epsilon-tolerance // false for NaN
	}
}

// interpolate is the value of every state.
func interpolate(points []Point, states int) []float64 {
	values := make([]float64, states)
	next := 0 // the first point that is not before the state
	for s := range values {
		for next < len(points) && points[next].Step < s {
			next++
		}
		switch {
		case next == len(points):
			values[s] = points[next-1].P
		case next == 0 || points[next].Step == s:
			values[s] = points[next].P
		default:
			a, b := points[next-1], points[next]
			values[s] = a.P + (b.P-a.P)*float64(s-a.Step)/float64(b.Step-a.Step)
		}
	}
	return values
}

func credits(values []float64) []float64 {
	out := make([]float64, max(0, len(values)-1))
	for t := range out {
		out[t] = values[t+1] - values[t]
	}
	return out
}

// cut makes rises and segments of the steps that rise.
func (c *Curve) cut(rising []bool, o Options) {
	c.Rises, c.Segments = []Range{}, []Range{}
	n := len(rising)
	for t := 0; t < n; t++ {
		begin := t
		for t < n && rising[t] {
			t++
		}
		if t > begin {
			c.Rises = append(c.Rises, Range{begin, t})
		}
	}
	for _, r := range c.Rises {
		if o.Last {
			r.End = min(r.End+1, n)
		}
		c.Segments = join(c.Segments, r, o.Gap)
	}
	if o.Pad == 0 {
		return
	}
	joined := c.Segments
	c.Segments = []Range{}
	for _, r := range joined {
		c.Segments = join(c.Segments, Range{max(0, r.Begin-o.Pad), min(n, r.End+o.Pad)}, 0)
	}
}

// join adds r, or makes it part of the last one when at most gap steps are between them.
func join(list []Range, r Range, gap int) []Range {
	if n := len(list); n > 0 && r.Begin-list[n-1].End <= gap {
		list[n-1].End = max(list[n-1].End, r.End)
		return list
	}
	return append(list, r)
}

// Known reports whether a value or credit is known.
func Known(v float64) bool { return !math.IsNaN(v) }
