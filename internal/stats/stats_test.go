package stats

import (
	"fmt"
	"math"
	"math/bits"
	"testing"

	"pgregory.net/rapid"
)

func near(a, b, most float64) bool { return math.Abs(a-b) <= most }

// Published values of the score interval.
func TestWilson(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		k, n   int64
		lo, hi float64
	}{{338, 500, .634, .716}, {349, 500, .656, .737}, {365, 500, .689, .767}, {1, 8, .022, .471}, {0, 8, 0, .324}, {8, 8, .676, 1}, {0, 0, 0, 1}} {
		if got := Wilson(c.k, c.n); !near(got.Lo, c.lo, .0006) || !near(got.Hi, c.hi, .0006) {
			t.Errorf("Wilson(%d, %d) = %.4f, want %.3f to %.3f", c.k, c.n, got, c.lo, c.hi)
		}
	}
}

func TestMcNemar(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		b, c int64
		p    float64
	}{{38, 22, .052}, {22, 38, .052}, {48, 32, .093}, {25, 9, .009}, {0, 0, 1}, {7, 7, 1}, {1, 0, 1}, {0, 5, .0625}, {0, 6, .03125}} {
		if got := McNemar(c.b, c.c); !near(got, c.p, .0005) {
			t.Errorf("McNemar(%d, %d) = %.5f, want %.3f", c.b, c.c, got, c.p)
		}
	}
	if p := McNemar(5000, 5200); !(p > .04 && p < .06) { // normal approximation: z = 1.97
		t.Errorf("of ten thousand: %g", p)
	}
	if p := McNemar(100_000, 0); p != 0 && p > 1e-300 {
		t.Errorf("of a hundred thousand to none: %g", p)
	}
}

// The test by what it says: all 2^n ways in which n tasks fall to one of two equal runs.
func TestMcNemarByEnumeration(t *testing.T) {
	t.Parallel()
	for n := range 13 {
		for b := range n + 1 {
			atLeast := 0
			for outcome := range 1 << n {
				ones := bits.OnesCount(uint(outcome))
				if min(ones, n-ones) <= min(b, n-b) {
					atLeast++
				}
			}
			want := float64(atLeast) / float64(int(1)<<n)
			if got := McNemar(int64(b), int64(n-b)); !near(got, want, 1e-9) {
				t.Errorf("McNemar(%d, %d) = %g, enumerated %g", b, n-b, got, want)
			}
		}
	}
}

// Every outcome of n rollouts for n up to 8, and every choice of k of them.
func TestPassByEnumeration(t *testing.T) {
	t.Parallel()
	for n := int64(0); n <= 8; n++ {
		for outcome := range uint(1) << n {
			c := int64(bits.OnesCount(outcome))
			for k := int64(-1); k <= n+2; k++ {
				var one, all, subsets float64
				for subset := range uint(1) << n {
					if int64(bits.OnesCount(subset)) != k {
						continue
					}
					subsets++
					if subset&outcome != 0 {
						one++
					}
					if subset&outcome == subset {
						all++
					}
				}
				defined := k >= 1 && k <= n
				if got, ok := PassAt(n, c, k); ok != defined || defined && !near(got, one/subsets, 1e-12) {
					t.Fatalf("pass@%d of %d in %d: %g, %t; enumerated %g of %g", k, c, n, got, ok, one, subsets)
				}
				if got, ok := PassAll(n, c, k); ok != defined || defined && !near(got, all/subsets, 1e-12) {
					t.Fatalf("pass^%d of %d in %d: %g, %t; enumerated %g of %g", k, c, n, got, ok, all, subsets)
				}
			}
		}
	}
	if got, _ := PassAll(4, 2, 2); !near(got, 1./6, 1e-12) { // (2/4)^2 would say .25
		t.Errorf("pass^2 of 2 in 4 is %g", got)
	}
	for _, c := range []int64{-1, 5} {
		if _, ok := PassAt(4, c, 1); ok {
			t.Errorf("%d of 4 is possible", c)
		}
	}
}

// Unbiased: over all outcomes of n rollouts of a policy that resolves with probability p,
// the mean is what k rollouts really do.
func TestPassIsUnbiased(t *testing.T) {
	t.Parallel()
	for _, p := range []float64{.1, .5, .83} {
		for n := int64(1); n <= 8; n++ {
			for k := int64(1); k <= n; k++ {
				var at, all float64
				for outcome := range uint(1) << n {
					c := int64(bits.OnesCount(outcome))
					likely := math.Pow(p, float64(c)) * math.Pow(1-p, float64(n-c))
					a, _ := PassAt(n, c, k)
					b, _ := PassAll(n, c, k)
					at, all = at+likely*a, all+likely*b
				}
				if !near(at, 1-math.Pow(1-p, float64(k)), 1e-9) || !near(all, math.Pow(p, float64(k)), 1e-9) {
					t.Errorf("p %g, n %d, k %d: %g and %g", p, n, k, at, all)
				}
			}
		}
	}
}

// Whatever is hidden, and why, the bounds hold the rate of all.
func TestBoundsHoldTheTruth(t *testing.T) {
	t.Parallel()
	if got := Bounds(0, 0, 0); got != (Interval{0, 1}) {
		t.Errorf("of nothing: %v", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		truth := rapid.SliceOfN(rapid.Bool(), 1, 60).Draw(t, "truth")
		hidden := rapid.SliceOfN(rapid.Bool(), len(truth), len(truth)).Draw(t, "hidden")
		var all, known, resolved, really int64
		for i, ok := range truth {
			all++
			if ok {
				really++
			}
			if !hidden[i] {
				known++
				if ok {
					resolved++
				}
			}
		}
		b, rate := Bounds(resolved, known, all), float64(really)/float64(all)
		if rate < b.Lo-1e-12 || rate > b.Hi+1e-12 || known == all && b.Lo != b.Hi {
			t.Fatalf("%g is not in %v", rate, b)
		}
	})
}

func ExamplePassAt() {
	p, ok := PassAt(3, 1, 4)
	fmt.Println(p, ok)
	// Output: 0 false
}
