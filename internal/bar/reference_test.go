package bar

import (
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The slow reference: it tries every subset of the samples, and shares no code with the
// package.

// half is a share as a fraction with an exact value, so that nothing rounds.
type half struct{ num, den int64 }

func (h half) float() float64 { return float64(h.num) / float64(h.den) }

type refOptions struct {
	n, most, stride              int
	lo, hi                       half
	truncated, index, up, larger bool
}

func (o refOptions) options() Options {
	return Options{N: o.n, NMax: o.most, Stride: o.stride, Lo: o.lo.float(), Hi: o.hi.float(), HalfUp: o.up, MorePositives: o.larger,
		Reading: Reading{TruncatedUsable: o.truncated, IgnoreLength: o.index}}
}

func (o refOptions) usable(s Sample) bool {
	if s.Reward == nil {
		return false
	}
	return s.Status == "completed" || s.Status == "truncated" && o.truncated
}

// aim rounds (lo+hi)/2*n in exact fractions.
func (o refOptions) aim() int64 {
	x := new(big.Rat).Add(big.NewRat(o.lo.num, o.lo.den), big.NewRat(o.hi.num, o.hi.den))
	x.Mul(x, big.NewRat(int64(o.n), 2))
	whole := new(big.Int).Div(x.Num(), x.Denom()).Int64()
	rest := new(big.Rat).Sub(x, big.NewRat(whole, 1))
	switch rest.Cmp(big.NewRat(1, 2)) {
	case 1:
		return whole + 1
	case 0:
		if o.up || whole%2 != 0 {
			return whole + 1
		}
	}
	return whole
}

// worth is how good a subset is as a group, smallest best, or nil for one that is none.
func (o refOptions) worth(chosen []Sample, lo, hi half) []int64 {
	var positives int64
	var pos, neg []Sample
	for _, s := range chosen {
		if !o.usable(s) {
			return nil
		}
		if *s.Reward > 0 {
			positives++
			pos = append(pos, s)
		} else {
			neg = append(neg, s)
		}
	}
	if positives == 0 || int(positives) == len(chosen) {
		return nil
	}
	share := big.NewRat(positives, int64(o.n))
	if share.Cmp(big.NewRat(lo.num, lo.den)) < 0 || share.Cmp(big.NewRat(hi.num, hi.den)) > 0 {
		return nil
	}
	off := positives - o.aim()
	if off < 0 {
		off = -off
	}
	first := positives
	if o.larger {
		first = -positives
	}
	key := []int64{off, first}
	for _, list := range [][]Sample{pos, neg} {
		var ranks [][]int64
		for _, s := range list {
			ranks = append(ranks, o.place(s))
		}
		slices.SortFunc(ranks, slices.Compare)
		key = append(key, slices.Concat(ranks...)...)
	}
	return key
}

func (o refOptions) place(s Sample) []int64 {
	status := map[Status]int64{"completed": 0, "truncated": 1, "time_exceeded": 2, "aborted": 3}[s.Status]
	length := s.Length
	if o.index {
		length = 0
	}
	return []int64{status, length, int64(s.Index)}
}

// best is the members of the best subset within lo and hi.
func (o refOptions) best(all []Sample, lo, hi half) (members []int) {
	var least []int64
	for set := uint(0); set < 1<<len(all); set++ {
		if bits.OnesCount(set) != o.n {
			continue
		}
		var chosen []Sample
		var indexes []int
		for i, s := range all {
			if set>>i&1 == 1 {
				chosen, indexes = append(chosen, s), append(indexes, s.Index)
			}
		}
		if w := o.worth(chosen, lo, hi); w != nil && (least == nil || slices.Compare(w, least) < 0) {
			least, members = w, indexes
		}
	}
	return members
}

// run is the algorithm over samples that lie in the order of their indexes.
func (o refOptions) run(all []Sample) string {
	end := 0
	for end < o.most {
		end = min(end+o.stride, o.most)
		if g := o.best(all[:end], o.lo, o.hi); g != nil {
			return o.filtered(all, g, end, "strict")
		}
	}
	if g := o.best(all, half{0, 1}, half{1, 1}); g != nil {
		return o.filtered(all, g, end, "relaxed")
	}
	ranked := slices.Clone(all)
	slices.SortFunc(ranked, func(a, b Sample) int {
		if o.usable(a) != o.usable(b) {
			if o.usable(a) {
				return -1
			}
			return 1
		}
		return slices.Compare(o.place(a), o.place(b))
	})
	var g []int
	for _, s := range ranked[:o.n] {
		g = append(g, s.Index)
	}
	slices.Sort(g)
	return o.filtered(all, g, end, "degenerate")
}

func (o refOptions) filtered(all []Sample, members []int, used int, kind string) string {
	sum, squares, positives := 0.0, 0.0, 0
	for _, i := range members {
		if !o.usable(all[i]) {
			return fmt.Sprintf("%d dropped", used)
		}
		r := *all[i].Reward
		sum, squares = sum+r, squares+r*r
		if r > 0 {
			positives++
		}
	}
	n := float64(len(members))
	if positives == 0 || math.Sqrt(max(0, squares/n-sum/n*sum/n)) < 1e-5 { // the rewards drawn are equal or far apart
		return fmt.Sprintf("%d dropped", used)
	}
	return fmt.Sprintf("%d %s %v", used, kind, members)
}

func said(d Decision) string {
	if d.Group == nil {
		return fmt.Sprintf("%d dropped", d.Used)
	}
	return fmt.Sprintf("%d %s %v", d.Used, d.Group.Kind, d.Group.Members)
}

func drawOptions(t *rapid.T) refOptions {
	o := refOptions{n: rapid.IntRange(2, 5).Draw(t, "n")}
	o.most = rapid.IntRange(o.n, 10).Draw(t, "most")
	o.stride = rapid.IntRange(1, 12).Draw(t, "stride")
	den := rapid.SampledFrom([]int64{int64(o.n), 10, 8}).Draw(t, "den")
	a, b := rapid.Int64Range(0, den).Draw(t, "a"), rapid.Int64Range(0, den).Draw(t, "b")
	o.lo, o.hi = half{min(a, b), den}, half{max(a, b), den}
	o.truncated, o.index = rapid.Bool().Draw(t, "truncated"), rapid.Bool().Draw(t, "index")
	o.up, o.larger = rapid.Bool().Draw(t, "up"), rapid.Bool().Draw(t, "larger")
	return o
}

func drawSamples(t *rapid.T, n int) []Sample {
	sample := rapid.Custom(func(t *rapid.T) Sample {
		s := Sample{Length: rapid.Int64Range(0, 3).Draw(t, "length")}
		s.Status = rapid.SampledFrom([]Status{Completed, Completed, Completed, Completed, Truncated, TimeExceeded, Aborted}).Draw(t, "status")
		if rapid.IntRange(0, 6).Draw(t, "known") > 0 {
			s.Reward = reward(rapid.SampledFrom([]float64{1, 1, 0, 0, -1, .5}).Draw(t, "reward"))
		}
		return s
	})
	all := rapid.SliceOfN(sample, n, n).Draw(t, "samples")
	for i := range all {
		all[i].Index = i
	}
	return all
}

func TestAgainstReference(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		o := drawOptions(t)
		b, err := New(o.options())
		if err != nil {
			if o.lo.num*int64(o.n)%o.lo.den == 0 && o.lo.num > 0 && o.lo.num < o.lo.den {
				t.Fatalf("%+v: %v", o, err) // lo itself is a share that a group can have
			}
			t.Skip("no such group")
		}
		all := drawSamples(t, o.most)
		// The samples end in any order, some before they are asked for.
		order := rapid.Permutation(all).Draw(t, "order")
		ended := slices.Clone(order[:rapid.IntRange(0, len(order)).Draw(t, "ended")])
		d, err := b.Next(ended)
		for err == nil && !d.Over() {
			ended = append(ended, all[d.Need[len(d.Need)-1]])
			d, err = b.Next(ended)
		}
		if err != nil {
			t.Fatal(err)
		}
		if got, want := said(d), o.run(all); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	})
}

// An eager stop only ever ends with strict groups sooner; what it cannot end is as without.
func TestEagerStop(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		o := drawOptions(t)
		plain, err := New(o.options())
		if err != nil {
			t.Skip("no such group")
		}
		opt := o.options()
		opt.EagerStop = true
		eager, _ := New(opt)
		all := drawSamples(t, o.most)
		want, err := plain.Next(all)
		if err != nil {
			t.Fatal(err)
		}
		var ended []Sample
		for _, s := range rapid.Permutation(all).Draw(t, "order") {
			ended = append(ended, s)
			if d, err := eager.Next(ended); err != nil {
				t.Fatal(err)
			} else if d.Over() {
				if d.Group != nil && d.Group.Kind == Strict {
					if !eager.Balanced(len(d.Group.Positives)) || len(d.Group.Members) != o.n {
						t.Fatalf("%+v", d.Group)
					}
					return
				}
				if said(d) != said(want) {
					t.Fatalf("got %s, want %s", said(d), said(want))
				}
				return
			}
		}
		t.Fatal("never over")
	})
}
