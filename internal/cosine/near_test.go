package cosine

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func keeping(t testing.TB, dim int, o Options, kept [][]float32) *Near {
	t.Helper()
	n, err := NewNear(dim, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range kept {
		if err := n.Keep(v); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// plainNear is the plain loop in float64 over the definition: unit vectors as they are
// rounded, summed one product after the other.
func plainNear(unit, kept [][]float32, tau float64) [][]Hit {
	out := make([][]Hit, len(unit))
	for i, v := range unit {
		for key, w := range kept {
			var dot float64
			for j := range v {
				dot += float64(v[j]) * float64(w[j])
			}
			if slices.Equal(v, w) {
				dot = 1
			}
			if dot >= tau {
				out[i] = append(out[i], Hit{key, min(dot, 1)})
			}
		}
	}
	return out
}

// Near finds what the plain loop finds, for any bounds, tiles, goroutines and kernels.
func TestNearEqualsThePlainLoop(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		dim := rapid.SampledFrom([]int{1, 2, 7, 64, 333}).Draw(rt, "dim")
		tau := rapid.SampledFrom([]float64{0.1, 0.5, 0.9, 0.99, 1}).Draw(rt, "tau")
		all := units(t, around(r, rapid.IntRange(0, 150).Draw(rt, "n"), dim, rapid.IntRange(1, 30).Draw(rt, "clusters"), tau))
		cut := rapid.IntRange(0, len(all)).Draw(rt, "kept")
		kept, asked := all[:cut], append(slices.Clone(all[cut:]), all[:min(cut, 3)]...) // some that are kept themselves
		o := Options{Tau: tau, Workers: rapid.IntRange(0, 4).Draw(rt, "workers"), Seed: rapid.Uint64().Draw(rt, "signs"),
			prefix: rapid.SampledFrom([]int{0, 1, 8}).Draw(rt, "prefix"), tile: rapid.IntRange(0, 2).Draw(rt, "tile")}
		if rapid.Bool().Draw(rt, "scalar") {
			o.with = plain
		}
		got, err := keeping(t, dim, o, kept).Find(t.Context(), asked)
		if err != nil {
			rt.Fatal(err)
		}
		want := plainNear(asked, kept, tau)
		for i := range want {
			// The plain sum has another order: what is within its rounding of tau is for the next test.
			border := func(h Hit) bool { return math.Abs(h.Score-tau) < 1e-12 && h.Score < 1 }
			g, w := slices.DeleteFunc(slices.Clone(got[i]), border), slices.DeleteFunc(slices.Clone(want[i]), border)
			if !slices.EqualFunc(g, w, func(a, b Hit) bool { return a.Key == b.Key && math.Abs(a.Score-b.Score) < 1e-12 }) {
				rt.Fatalf("vector %d of %d x %d, %d kept, %+v: got %v, want %v", i, len(asked), dim, cut, o, g, w)
			}
		}
	})
}

// At the border the float64 score decides: the very score is near, the next number is not.
func TestNearAtTheBorder(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for _, dim := range []int{3, 100, 1024} {
		v := units(t, around(r, 40, dim, 2, 0.9))
		for i := 1; i < len(v); i++ {
			score := Score(v[0], v[i])
			if score <= 0.1 || score >= 1 {
				continue
			}
			for tau, want := range map[float64]int{score: 1, math.Nextafter(score, 2): 0, math.Nextafter(score, 0): 1} {
				got, err := keeping(t, dim, Options{Tau: tau}, v[i:i+1]).Find(t.Context(), v[:1])
				if err != nil || len(got[0]) != want || want == 1 && got[0][0].Score != score {
					t.Fatalf("%d numbers, score %v, tau %v: %v, %v", dim, score, tau, got, err)
				}
			}
		}
	}
}

func TestNearRefuses(t *testing.T) {
	t.Parallel()
	if _, err := NewNear(2, Options{Tau: 1.5}); err == nil {
		t.Error("tau 1.5 passes")
	}
	n := keeping(t, 2, Options{Tau: 0.5}, [][]float32{{1, 0}})
	if err := n.Keep([]float32{1, 0, 0}); err == nil || err.Error() != "a vector of 3 numbers among those of 2" {
		t.Error(err)
	}
	if _, err := n.Find(t.Context(), [][]float32{{1, 0}, {1}}); err == nil {
		t.Error("a short vector passes")
	}
	if hits, err := n.Find(t.Context(), nil); err != nil || len(hits) != 0 {
		t.Errorf("%v, %v", hits, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := n.Find(ctx, [][]float32{{1, 0}}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
