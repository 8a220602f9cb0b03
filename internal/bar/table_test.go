package bar

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

// path is a way in which the strides of one prompt can turn out: how many orders of outcomes
// it stands for, its positives among what was generated, and what came of it.
type path struct {
	orders    float64
	positives int
	d         Decision
}

// paths drives a strategy through every count of positives in every stride.
func paths(t testing.TB, s Strategy) (all []path) {
	var walk func(ended []Sample, orders float64, positives int)
	walk = func(ended []Sample, orders float64, positives int) {
		d := next(t, s, ended)
		if d.Over() {
			all = append(all, path{orders, positives, d})
			return
		}
		n := len(d.Need)
		for k := range n + 1 {
			more := ended[:len(ended):len(ended)]
			for i, index := range d.Need {
				r := 0.0
				if i < k {
					r = 1
				}
				more = append(more, Sample{Index: index, Status: Completed, Reward: &r})
			}
			walk(more, orders*choose(n, k), positives+k)
		}
	}
	walk(nil, 1, 0)
	return all
}

func choose(n, k int) float64 {
	x := 1.0
	for i := range k {
		x = x * float64(n-i) / float64(i+1)
	}
	return math.Round(x)
}

// expect is the mean of f over all outcomes at pass rate p.
func expect(all []path, p float64, f func(Decision) float64) float64 {
	sum := 0.0
	for _, w := range all {
		sum += w.orders * math.Pow(p, float64(w.positives)) * math.Pow(1-p, float64(w.d.Used-w.positives)) * f(w.d)
	}
	return sum
}

func is(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func one(Decision) float64         { return 1 }
func generated(d Decision) float64 { return float64(d.Used) }
func usable(d Decision) float64    { return is(d.Group != nil) }
func strict(d Decision) float64    { return is(d.Group != nil && d.Group.Kind == Strict) }
func few(d Decision) float64       { return is(d.Tally.Positive >= 1 && d.Tally.Positive <= 4) }

// oracle is the reference's table.
var oracle = []struct {
	p, pass, strict, fixed float64
	s8, s4, s2             float64
}{
	{.02, .149, .004, .149, 16.0, 16.0, 16.0},
	{.05, .337, .043, .337, 16.0, 15.9, 15.9},
	{.10, .569, .211, .570, 15.7, 15.4, 15.2},
	{.20, .822, .648, .832, 14.4, 13.4, 13.0},
	{.30, .884, .901, .942, 12.5, 11.3, 10.7},
	{.50, .633, .996, .992, 10.3, 9.3, 8.9},
	{.70, .194, .901, .942, 12.5, 11.3, 10.7},
	{.90, .005, .211, .570, 15.7, 15.4, 15.2},
}

func TestTable(t *testing.T) {
	t.Parallel()
	fixed := paths(t, FixedN{N: 8})
	by := map[int][]path{}
	for _, s := range []int{16, 8, 4, 2} {
		by[s] = paths(t, preset(t, PresetPaper, func(o *Options) { o.Stride = s }))
	}
	doc, err := os.ReadFile("../../docs/bar.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range oracle {
		for name, c := range map[string]struct{ got, want, digit float64 }{
			"1 to 4 of 8":    {expect(fixed, row.p, few), row.pass, .001},
			"fixed":          {expect(fixed, row.p, usable), row.fixed, .001},
			"dapo":           {expect(paths(t, DAPO{N: 8}), row.p, usable), row.fixed, .001},
			"strict, s=16":   {expect(by[16], row.p, strict), row.strict, .001},
			"strict, s=8":    {expect(by[8], row.p, strict), row.strict, .001},
			"strict, s=4":    {expect(by[4], row.p, strict), row.strict, .001},
			"strict, s=2":    {expect(by[2], row.p, strict), row.strict, .001},
			"generated s=16": {expect(by[16], row.p, generated), 16, .1},
			"generated s=8":  {expect(by[8], row.p, generated), row.s8, .1},
			"generated s=4":  {expect(by[4], row.p, generated), row.s4, .1},
			"generated s=2":  {expect(by[2], row.p, generated), row.s2, .1},
		} {
			if math.Abs(c.got-c.want) > c.digit/2+1e-9 {
				t.Errorf("p=%v, %s: %.5f, want %v", row.p, name, c.got, c.want)
			}
		}
		for s, all := range by {
			if sum := expect(all, row.p, one); math.Abs(sum-1) > 1e-12 {
				t.Errorf("s=%d: the paths' probabilities sum to %v", s, sum)
			}
			// A stride decides when to stop, not what is found in the end.
			if got, want := expect(all, row.p, usable), 1-math.Pow(row.p, 16)-math.Pow(1-row.p, 16); math.Abs(got-want) > 1e-12 {
				t.Errorf("p=%v s=%d: usable %v, want %v", row.p, s, got, want)
			}
		}
		line := fmt.Sprintf("| %.2f | %.3f | %.3f | %.3f | %.3f | %.2f | %.2f | %.2f |", row.p, expect(fixed, row.p, few), expect(fixed, row.p, usable),
			expect(by[16], row.p, strict), expect(by[16], row.p, usable), expect(by[8], row.p, generated), expect(by[4], row.p, generated), expect(by[2], row.p, generated))
		if !strings.Contains(string(doc), line+"\n") {
			t.Errorf("docs/bar.md lacks\n%s", line)
		}
	}
}

// The same by drawing outcomes one by one: order and all.
func TestTableBySimulation(t *testing.T) {
	t.Parallel()
	const prompts = 1000
	r := rand.New(rand.NewPCG(6, 1))
	strategies := []Strategy{FixedN{N: 8}}
	for _, s := range []int{16, 8, 4, 2} {
		strategies = append(strategies, preset(t, PresetPaper, func(o *Options) { o.Stride = s }))
	}
	for _, row := range oracle {
		sum, squares := make([][3]float64, len(strategies)), make([][3]float64, len(strategies))
		for range prompts {
			all := make([]Sample, 16)
			for i := range all {
				all[i] = Sample{Index: i, Status: Completed, Reward: reward(is(r.Float64() < row.p)), Length: r.Int64N(100)}
			}
			for i, s := range strategies {
				d := play(t, s, all)
				for j, x := range [3]float64{strict(d), generated(d), usable(d)} {
					sum[i][j] += x
					squares[i][j] += x * x
				}
			}
		}
		near := func(name string, i, j int, want, digit float64) {
			m := sum[i][j] / prompts
			sd := math.Sqrt(max(0, squares[i][j]/prompts-m*m))
			if off := math.Abs(m - want); off > digit/2+4.5*max(sd, math.Sqrt(want/prompts)*is(j != 1))/math.Sqrt(prompts)+1e-9 {
				t.Errorf("p=%v, %s: %.4f, want %v", row.p, name, m, want)
			}
		}
		near("fixed", 0, 2, row.fixed, .001)
		for i, want := range []float64{16, row.s8, row.s4, row.s2} {
			near(strategies[i+1].String()+" strict", i+1, 0, row.strict, .001)
			near(strategies[i+1].String()+" generated", i+1, 1, want, .1)
		}
	}
}
