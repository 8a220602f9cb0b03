package bar

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Options are the parameters of BAR.
type Options struct {
	N      int     `json:"n"`      // samples of a group
	NMax   int     `json:"n_max"`  // most samples of a prompt
	Stride int     `json:"stride"` // samples generated between two looks at them
	Lo     float64 `json:"lo"`     // least share of positives in a strict group
	Hi     float64 `json:"hi"`     // largest
	// Target is the share that is sought first; nil is the middle of Lo and Hi.
	Target *float64 `json:"target"`
	// HalfUp rounds a target of x.5 positives up; else it goes to the even number, as
	// Python's round does.
	HalfUp bool `json:"half_up"`
	// MorePositives prefers, of two numbers of positives as near to the target, the larger;
	// else the smaller.
	MorePositives bool `json:"more_positives"`
	// EagerStop looks at the samples whenever one has ended, not only after whole strides,
	// and ends a prompt as soon as a strict group is there. Which group that is then depends
	// on which samples ended first, so it is not Algorithm 1, and favours short rollouts.
	EagerStop bool `json:"eager_stop"`
	Reading
}

// The presets.
const (
	PresetOrchard  = "orchard"  // ours: the paper's with a stride of 4
	PresetPaper    = "paper"    // as in the paper
	PresetLauncher = "launcher" // what the released launcher sets, read as the released code does
)

// Presets is the names of the presets.
func Presets() []string { return []string{PresetOrchard, PresetPaper, PresetLauncher} }

// Preset is the options of a name.
func Preset(name string) (Options, error) {
	o := Options{N: 8, NMax: 16, Stride: 4, Lo: .375, Hi: .625}
	switch name {
	case PresetOrchard:
	case PresetPaper:
		o.Stride = 16
	case PresetLauncher:
		o = Options{N: 4, NMax: 8, Stride: 8, Lo: .25, Hi: .75, Reading: Reading{TruncatedUsable: true, IgnoreLength: true}}
	default:
		return Options{}, fmt.Errorf("preset %q is none of %s", name, strings.Join(Presets(), ", "))
	}
	return o, nil
}

// slack is what products of shares and counts may be off by: 0.3*10 is not 3.
const slack = 1e-9

// Validate says everything that is wrong with o.
func (o Options) Validate() error {
	var errs []error
	if o.N < 2 {
		errs = append(errs, fmt.Errorf("n %d: a group needs at least 2 samples, a positive and a negative", o.N))
	}
	if o.NMax < o.N {
		errs = append(errs, fmt.Errorf("n_max %d: must be at least n %d", o.NMax, o.N))
	}
	if o.Stride < 1 {
		errs = append(errs, fmt.Errorf("stride %d: must be at least 1", o.Stride))
	}
	within := o.Lo >= 0 && o.Lo <= o.Hi && o.Hi <= 1
	if !within {
		errs = append(errs, fmt.Errorf("rho %v to %v: must be 0 <= lo <= hi <= 1", o.Lo, o.Hi))
	}
	if t := o.Target; within && t != nil && !(*t >= o.Lo && *t <= o.Hi) {
		errs = append(errs, fmt.Errorf("target %v: must lie within rho %v to %v", *t, o.Lo, o.Hi))
	}
	if len(errs) == 0 && len(o.strict()) == 0 {
		errs = append(errs, fmt.Errorf("rho %v to %v: no group of %d with positives and negatives has such a share; widen rho or raise n", o.Lo, o.Hi, o.N))
	}
	return errors.Join(errs...)
}

// aim is n*, the number of positives that is sought first.
func (o Options) aim() int {
	share := (o.Lo + o.Hi) / 2
	if o.Target != nil {
		share = *o.Target
	}
	x := share * float64(o.N)
	if half := math.Round(2*x) / 2; math.Abs(x-half) < slack {
		x = half // so that what is meant to be x.5 is
	}
	if o.HalfUp {
		return int(math.Floor(x + .5))
	}
	return int(math.RoundToEven(x))
}

// counts is the numbers of positives from lo to hi, the best first. A group of one kind only is
// never among them, not even if the bounds allow it: the group filter would drop it.
func (o Options) counts(lo, hi float64) (list []int) {
	n := float64(o.N)
	for c := max(1, int(math.Ceil(lo*n-slack))); c <= min(o.N-1, int(math.Floor(hi*n+slack))); c++ {
		list = append(list, c)
	}
	aim := o.aim()
	slices.SortFunc(list, func(a, b int) int {
		tie := cmp.Compare(a, b)
		if o.MorePositives {
			tie = -tie
		}
		return cmp.Or(cmp.Compare(distance(a, aim), distance(b, aim)), tie)
	})
	return list
}

func (o Options) strict() []int  { return o.counts(o.Lo, o.Hi) }
func (o Options) relaxed() []int { return o.counts(0, 1) }

func distance(a, b int) int { return max(a-b, b-a) }

// Balanced reports whether a group with this many positives is within the bounds.
func (o Options) Balanced(positives int) bool { return slices.Contains(o.strict(), positives) }

// options lets BAR have the fields of Options while only New can set them.
type options = Options

// BAR is balanced adaptive rollout, by options that are valid.
type BAR struct{ options }

// New is BAR by o, or what is wrong with o.
func New(o Options) (BAR, error) {
	if err := o.Validate(); err != nil {
		return BAR{}, fmt.Errorf("bar: %w", err)
	}
	return BAR{o}, nil
}

// Most, Size and String are those of Strategy.
func (b BAR) Most() int      { return b.NMax }
func (b BAR) Size() int      { return b.N }
func (b BAR) String() string { return fmt.Sprintf("bar-s%d", b.Stride) }

// Next is Algorithm 1: after each whole stride it looks for a strict group, and after the
// last for a relaxed one, and at worst takes the best ranked samples, which the group filter
// mostly drops.
func (b BAR) Next(ended []Sample) (Decision, error) {
	at, err := arrange(ended, b.NMax)
	if err != nil {
		return Decision{}, err
	}
	for end := min(b.Stride, b.NMax); ; end = min(end+b.Stride, b.NMax) {
		all := at[:end]
		need := missing(all)
		if len(need) > 0 && b.EagerStop {
			all = present(all)
		}
		if len(need) == 0 || b.EagerStop {
			if members := b.assemble(all, b.strict()); members != nil {
				return b.conclude(Strict, members, all), nil
			}
		}
		if len(need) > 0 {
			return b.wait(need, at[:end]), nil
		}
		if end < b.NMax {
			continue
		}
		if members := b.assemble(all, b.relaxed()); members != nil {
			return b.conclude(Relaxed, members, all), nil
		}
		return b.conclude(Degenerate, b.ranked(all)[:b.N], all), nil
	}
}

// assemble is a group with the first number of positives for which there are enough usable
// samples, or nil.
func (b BAR) assemble(all []*Sample, counts []int) []*Sample {
	var positive, negative []*Sample
	for _, s := range b.ranked(all) {
		switch {
		case !b.usable(s):
		case s.positive():
			positive = append(positive, s)
		default:
			negative = append(negative, s)
		}
	}
	for _, c := range counts {
		if len(positive) >= c && len(negative) >= b.N-c {
			return slices.Concat(positive[:c], negative[:b.N-c])
		}
	}
	return nil
}

// ranked is the samples, the one that is chosen first at the front.
func (b BAR) ranked(all []*Sample) []*Sample { return slices.SortedFunc(slices.Values(all), b.rank) }
