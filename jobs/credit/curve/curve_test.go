package curve

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// reference is what section by section of the method says, with no thought of speed: a
// state's value from the key states around it, every pair of states tried as a rise.
func reference(points []Point, n int, o Options) (values []float64, rises [][2]int, trained []bool) {
	shift := map[When]int{Before: 0, After: 1}[o.When]
	at := map[int]float64{}
	for _, p := range points {
		at[p.Step+shift] = p.P
	}
	for s := range n + 1 {
		below, above := -1, -1
		for k := range at {
			if k <= s && k > below {
				below = k
			}
			if k >= s && (above < 0 || k < above) {
				above = k
			}
		}
		switch {
		case below < 0:
			values = append(values, at[above])
		case above < 0 || above == below:
			values = append(values, at[below])
		default:
			share := float64(s-below) / float64(above-below)
			values = append(values, (1-share)*at[below]+share*at[above])
		}
	}
	rises1 := func(t int) bool { // does step t rise?
		if t < 0 || t >= n {
			return false
		}
		if o.Rise == ByStep {
			return values[t+1]-values[t] > o.Epsilon-1e-9
		}
		below, above := -1, -1
		for k := range at {
			if k <= t && k > below {
				below = k
			}
			if k > t && (above < 0 || k < above) {
				above = k
			}
		}
		if below < 0 || above < 0 {
			return false
		}
		need := o.Epsilon
		if o.Rise == ByIntervalMean {
			need = o.Epsilon * float64(above-below)
		}
		return at[above]-at[below] > need-1e-9
	}
	for i := range n + 1 {
		for j := i + 1; j <= n; j++ {
			all := true
			for t := i; t <= j-1; t++ {
				all = all && rises1(t)
			}
			if all && !rises1(i-1) && !rises1(j) {
				rises = append(rises, [2]int{i, j})
			}
		}
	}
	raw := make([]bool, n)
	for _, r := range rises {
		for t := r[0]; t <= r[1]; t++ {
			if t < n && (t < r[1] || o.Last) {
				raw[t] = true
			}
		}
	}
	joined := slices.Clone(raw)
	for a := range n {
		for b := a + 1; b < n; b++ {
			between := false
			for t := a + 1; t < b; t++ {
				between = between || raw[t]
			}
			if raw[a] && raw[b] && !between && b-a-1 <= o.Gap {
				for t := a; t <= b; t++ {
					joined[t] = true
				}
			}
		}
	}
	trained = make([]bool, n)
	for t := range n {
		for u := range n {
			if joined[u] && t >= u-o.Pad && t <= u+o.Pad {
				trained[t] = true
			}
		}
	}
	return values, rises, trained
}

func random(r *rand.Rand) ([]Point, int, Options) {
	n := 1 + r.IntN(24)
	var points []Point
	for s := range n {
		if r.IntN(3) > 0 && (len(points) > 0 || s < n-1) {
			continue
		}
		p := r.Float64()
		if r.IntN(2) == 0 { // on the borders of epsilon
			p = float64(r.IntN(21)) / 20
		}
		points = append(points, Point{s, p})
	}
	if len(points) == 0 {
		points = []Point{{r.IntN(n), .4}}
	}
	return points, n, Options{
		Epsilon: []float64{.05, .05, .1, .3}[r.IntN(4)], When: []When{Before, After}[r.IntN(2)],
		Rise: []Rise{ByStep, ByStep, ByInterval, ByIntervalMean}[r.IntN(4)], Last: r.IntN(3) == 0, Gap: r.IntN(4), Pad: r.IntN(3),
	}
}

func TestTenThousandCurvesEqualTheReference(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 5))
	rising, merged := 0, 0
	for i := range 10_000 {
		points, n, o := random(r)
		got, err := Of(points, n, o)
		if err != nil {
			t.Fatalf("%v of %d steps: %v", points, n, err)
		}
		values, rises, trained := reference(points, n, o)
		for s := range values {
			if math.Abs(values[s]-got.Values[s]) > 1e-12 {
				t.Fatalf("curve %d: %v of %d steps, %+v: state %d is %v, want %v", i, points, n, o, s, got.Values[s], values[s])
			}
		}
		var have [][2]int
		for _, x := range got.Rises {
			have = append(have, [2]int{x.Begin, x.End})
		}
		if d := cmp.Diff(rises, have); d != "" {
			t.Fatalf("curve %d: %v of %d steps, %+v: rises\n%s", i, points, n, o, d)
		}
		mask := make([]bool, n)
		for k, s := range got.Segments {
			if s.Begin >= s.End || k > 0 && s.Begin <= got.Segments[k-1].End {
				t.Fatalf("curve %d: segments %v are not apart", i, got.Segments)
			}
			for x := s.Begin; x < s.End; x++ {
				mask[x] = true
			}
		}
		if d := cmp.Diff(trained, mask); d != "" {
			t.Fatalf("curve %d: %v of %d steps, %+v: trained\n%s", i, points, n, o, d)
		}
		rising += min(1, len(rises))
		if len(got.Segments) < len(rises) {
			merged++
		}
	}
	if rising < 2000 || merged < 200 {
		t.Errorf("of the curves %d rise and %d have rises that are joined: too few to say anything", rising, merged)
	}
}

// The decisions that the method leaves open, each by an example.
func TestDecisions(t *testing.T) {
	t.Parallel()
	set := func(change func(*Options)) Options {
		o := Defaults()
		if change != nil {
			change(&o)
		}
		return o
	}
	up5, up7 := []Point{{0, .3}, {5, .6}, {9, .1}}, []Point{{0, .3}, {7, .6}, {9, .1}}
	for _, c := range []struct {
		name   string
		points []Point
		n      int
		o      Options
		want   []Range
	}{
		{"the last step of a rise is not trained", []Point{{0, .3}, {2, .5}, {9, .1}}, 10, set(nil), []Range{{0, 2}}},
		{"it is when it should be", []Point{{0, .3}, {2, .5}, {9, .1}}, 10, set(func(o *Options) { o.Last = true }), []Range{{0, 3}}},
		{"after the action shifts by one", []Point{{0, .3}, {2, .5}, {9, .1}}, 10, set(func(o *Options) { o.When = After }), []Range{{1, 3}}},
		{"a rise up to the last step has no step after it", []Point{{0, .3}, {2, .5}}, 3, set(func(o *Options) { o.When, o.Last = After, true }), []Range{{1, 3}}},
		{".30 over 5 steps are five steps", up5, 10, set(nil), []Range{{0, 5}}},
		{".30 over 7 steps are none", up7, 10, set(nil), []Range{}},
		{"but a key interval rises", up7, 10, set(func(o *Options) { o.Rise = ByInterval }), []Range{{0, 7}}},
		{"unless each of its steps has to", up7, 10, set(func(o *Options) { o.Rise = ByIntervalMean }), []Range{}},
		{"0.35-0.30 is a rise of .05", []Point{{0, .30}, {1, .35}, {2, .1}}, 3, set(nil), []Range{{0, 1}}},
		{"one step between two rises is trained", []Point{{0, .3}, {1, .4}, {2, .4}, {3, .5}, {4, .1}}, 5, set(nil), []Range{{0, 3}}},
		{"unless no gap is allowed", []Point{{0, .3}, {1, .4}, {2, .4}, {3, .5}, {4, .1}}, 5, set(func(o *Options) { o.Gap = 0 }), []Range{{0, 1}, {2, 3}}},
		{"padding stays in the trajectory", []Point{{0, .3}, {1, .4}, {2, .1}}, 3, set(func(o *Options) { o.Pad = 5 }), []Range{{0, 3}}},
		{"gaps are those of the rises, not of what is padded", []Point{{0, .3}, {1, .4}, {4, .4}, {5, .5}, {9, .1}}, 10, set(func(o *Options) { o.Pad = 1 }), []Range{{0, 2}, {3, 6}}},
	} {
		got, err := Of(c.points, c.n, c.o)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(c.want, got.Segments); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
}

func TestWhatIsNotKnownRisesNowhere(t *testing.T) {
	t.Parallel()
	got := Measured([]float64{0, 0, math.NaN(), 1, 1}, Defaults())
	if Known(got.Credits[1]) || Known(got.Credits[2]) || len(got.Segments) != 0 {
		t.Errorf("%+v", got)
	}
	got = Measured([]float64{0, .5, .5, 1, .5}, Defaults())
	if d := cmp.Diff([]Range{{0, 1}, {2, 3}}, got.Rises); d != "" {
		t.Error(d)
	}
	if got := Measured(nil, Defaults()); len(got.Credits) != 0 || len(got.Values) != 0 {
		t.Errorf("of nothing: %+v", got)
	}
}

func TestBadPointsAndOptions(t *testing.T) {
	t.Parallel()
	for _, points := range [][]Point{nil, {{-1, .3}}, {{3, .3}}, {{1, .3}, {1, .4}}, {{2, .3}, {1, .4}}, {{0, math.NaN()}}, {{0, 1.01}}} {
		if _, err := Of(points, 3, Defaults()); err == nil {
			t.Errorf("%v makes a curve", points)
		}
	}
	err := Options{Epsilon: math.NaN(), When: "x", Rise: "y", Gap: -1, Pad: -1}.Validate()
	for _, flag := range []string{"--epsilon", "--probability", "--rise", "--gap", "--pad"} {
		if err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%v does not name %s", err, flag)
		}
	}
	if err := Defaults().Validate(); err != nil {
		t.Error(err)
	}
}

// More context and wider gaps never train less.
func TestMoreIsNeverLess(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		points, n, o := random(rand.New(rand.NewPCG(seed, 1)))
		few, err := Of(points, n, o)
		if err != nil {
			t.Fatal(err)
		}
		o.Gap += rapid.IntRange(0, 2).Draw(t, "gap")
		o.Pad += rapid.IntRange(0, 2).Draw(t, "pad")
		more, err := Of(points, n, o)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range few.Segments {
			if !slices.ContainsFunc(more.Segments, func(m Range) bool { return m.Begin <= s.Begin && s.End <= m.End }) {
				t.Fatalf("%v is not in %v", s, more.Segments)
			}
		}
	})
}
