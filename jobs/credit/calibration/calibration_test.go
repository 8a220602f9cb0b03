package calibration

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orchard/datasets/record"
)

func TestShape(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		points     []float64
		up, smooth bool
	}{
		{"up and down", []float64{.4, .6, .1}, true, true},
		{"with a plateau", []float64{.4, .6, .6, .1, .1}, true, true},
		{"down only", []float64{.4, .3, .1}, false, false},
		{"up only", []float64{.1, .4, .6}, false, false},
		{"a valley", []float64{.4, .1, .3}, false, false},
		{"a valley before the peak", []float64{.4, .3, .6, .1}, true, false},
		{"two peaks", []float64{.4, .6, .5, .6, .1}, true, false},
		{"flat", []float64{.4, .4, .4}, false, false},
		{"one", []float64{.4}, false, false},
		{"a peak no higher than the start", []float64{.4, .3, .4, .1}, false, false},
	} {
		if up, smooth := Shape(c.points); up != c.up || smooth != c.smooth {
			t.Errorf("%s: %t %t", c.name, up, smooth)
		}
	}
}

func row(id string, keys []float64, rises, segments []record.Segment, steps int64) record.Credit {
	c := record.Credit{RolloutID: id, Method: record.CreditTeacher, Status: record.CreditAnnotated, Steps: steps, Rises: rises, Segments: segments, Answers: []record.CreditAnswer{{}}}
	for i, p := range keys {
		c.Keys = append(c.Keys, record.KeyStep{Step: int64(i), Probability: p})
	}
	for _, s := range segments {
		for i := s.Begin; i < s.End; i++ {
			c.Trained = append(c.Trained, i)
		}
	}
	return c
}

func TestReport(t *testing.T) {
	t.Parallel()
	r := New()
	r.Add(row("a", []float64{.3, .6, .05}, []record.Segment{{Begin: 0, End: 1}, {Begin: 2, End: 4}}, []record.Segment{{Begin: 0, End: 4}}, 10))
	again := row("b", []float64{.5, .4, .19}, nil, nil, 5)
	again.Answers = []record.CreditAnswer{{Reason: "no_array"}, {Reason: "no_array"}, {}}
	r.Add(again)
	r.Add(record.Credit{Status: record.CreditFailed, Method: record.CreditTeacher, Answers: []record.CreditAnswer{{Reason: "too_few_points"}}, Steps: 100})
	r.Add(record.Credit{Status: record.CreditNotNeeded, Method: record.CreditTeacher, Steps: 100, Trained: make([]int64, 100)})
	r.Close()
	half, one := .5, 1.5
	if d := cmp.Diff(Share{1, 2, &half}, r.InvertedU); d != "" {
		t.Error(d)
	}
	if r.Trained.Count != 4 || r.Trained.Of != 15 || r.NoRise.Count != 1 || r.Asked != 3 || !slices.Equal(r.Accepted, []int64{1, 0, 1}) {
		t.Errorf("%+v", r)
	}
	if d := cmp.Diff(map[string]int64{"no_array": 2, "too_few_points": 1}, r.Rejected); d != "" {
		t.Error(d)
	}
	if r.Rises.Count != 2 || *r.Rises.Median != one || *r.Rises.Mean != one || *r.Segments.Median != 4 || *r.Segments.Most != 4 {
		t.Errorf("%+v %+v", r.Rises, r.Segments)
	}
	count := func(bins []Bin) map[float64]int64 {
		got := map[float64]int64{}
		for _, b := range bins {
			if b.Count > 0 {
				got[b.From] = b.Count
			}
		}
		return got
	}
	if d := cmp.Diff(map[float64]int64{.3: 1, .5: 1}, count(r.Start)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(map[float64]int64{.05: 1, .15: 1}, count(r.Last)); d != "" {
		t.Error(d)
	}
	md := string(r.Markdown())
	for _, says := range []string{"50.0 % (1 of 2)", "| answer 3 was taken | 1 |", "rejected: `no_array` | 2", "| 0.30 | 0.35 | 1 | 0 |", "| as it rises | 2 | 1.5 | 1.5 | 2 |"} {
		if !strings.Contains(md, says) {
			t.Errorf("no %q in\n%s", says, md)
		}
	}
}

// Of nothing there is no share, and never a 0.
func TestReportOfNothing(t *testing.T) {
	t.Parallel()
	r := New()
	r.Compared = &Comparison{With: "x"}
	r.Close()
	if r.InvertedU.Share != nil || r.Trained.Share != nil || r.Rises.Median != nil || r.Compared.MeanDifference != nil || r.Compared.RankCorrelation != nil {
		t.Errorf("%+v", r)
	}
	if b, err := json.Marshal(r); err != nil || !strings.Contains(string(b), `"share":null`) {
		t.Errorf("%s, %v", b, err)
	}
	if md := string(r.Markdown()); !strings.Contains(md, "– (of none)") {
		t.Error(md)
	}
}

func TestSpearmanEqualsCountingPairs(t *testing.T) {
	t.Parallel()
	// The rank of a value is how many are below it, and half of those that equal it.
	slow := func(x []float64) []float64 {
		var out []float64
		for _, a := range x {
			rank := -.5
			for _, b := range x {
				if b < a {
					rank++
				} else if b == a {
					rank += .5
				}
			}
			out = append(out, rank)
		}
		return out
	}
	random := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		n := 2 + random.IntN(10)
		x, y := make([]float64, n), make([]float64, n)
		for i := range n {
			x[i], y[i] = float64(random.IntN(5)), float64(random.IntN(5))
		}
		a, b := slow(x), slow(y)
		var mx, my, xy, xx, yy float64
		for i := range n {
			mx, my = mx+a[i]/float64(n), my+b[i]/float64(n)
		}
		for i := range n {
			xy, xx, yy = xy+(a[i]-mx)*(b[i]-my), xx+(a[i]-mx)*(a[i]-mx), yy+(b[i]-my)*(b[i]-my)
		}
		got, ok := Spearman(x, y)
		if ok != (xx > 0 && yy > 0) || ok && math.Abs(got-xy/math.Sqrt(xx*yy)) > 1e-9 {
			t.Fatalf("%v %v: %v %t", x, y, got, ok)
		}
	}
}

func TestComparison(t *testing.T) {
	t.Parallel()
	v := func(list ...float64) []*float64 {
		out := make([]*float64, len(list))
		for i, x := range list {
			if x >= 0 {
				out[i] = &list[i]
			}
		}
		return out
	}
	c := Comparison{}
	c.Compare(record.Credit{Trajectory: "t", Values: v(.4, .6, -1, .1)}, record.Credit{Trajectory: "t", Values: v(0, 1, 1, -1)})
	c.Compare(record.Credit{Trajectory: "t", Values: v(.4, .6)}, record.Credit{Trajectory: "t", Values: v(.5, .5)})
	c.Compare(record.Credit{Trajectory: "t", Values: v(.4)}, record.Credit{Trajectory: "u", Values: v(.4)})
	c.Compare(record.Credit{Trajectory: "t", Values: v(.4)}, record.Credit{Trajectory: "t", Values: v(-1)})
	c.close()
	if c.Rollouts != 2 || c.States != 4 || c.Others != 1 || c.Ranked != 1 || math.Abs(*c.RankCorrelation-1) > 1e-12 || math.Abs(*c.MeanDifference-.25) > 1e-12 {
		t.Errorf("%+v", c)
	}
}
