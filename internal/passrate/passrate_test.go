package passrate

import (
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func decide(t rapid.TB, r Rule, pass, known, remaining int) Decision {
	t.Helper()
	d, err := r.Decide(pass, known, remaining)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// stop plays the outcomes of order, a bit each, until there is a decision.
func stop(t rapid.TB, r Rule, order uint) (d Decision, used int) {
	pass := 0
	for used = 0; ; used++ {
		if d = decide(t, r, pass, used, r.N-used); d != Undecided {
			return d, used
		}
		pass += int(order >> used & 1)
	}
}

// kept is what the full rule says, from its words alone: lo < p <= hi in hundredths.
func kept(c, n int, lo, hi int64) Decision {
	p := big.NewRat(int64(c), int64(n))
	if p.Cmp(big.NewRat(lo, 100)) > 0 && p.Cmp(big.NewRat(hi, 100)) <= 0 {
		return Keep
	}
	return Drop
}

// Stopping early decides as all 8 rollouts do, for every order of outcomes and for other
// bounds than ours, and never later than it could.
func TestAllOrders(t *testing.T) {
	t.Parallel()
	for n, step := range map[int]int64{8: 10, 10: 20} {
		for lo := int64(0); lo < 100; lo += step {
			for hi := lo + step; hi <= 100; hi += step {
				r := Rule{N: n, NMin: 1, Lo: float64(lo) / 100, Hi: float64(hi) / 100}
				if r.Validate() != nil {
					continue
				}
				for order := range uint(1) << n {
					d, used := stop(t, r, order)
					if want := kept(bits.OnesCount(order), n, lo, hi); d != want {
						t.Fatalf("%+v, order %0*b: %s after %d, all say %s", r, n, order, d, used, want)
					}
					if n == 8 && used > 0 && settled(order, used-1, n, lo, hi) {
						t.Fatalf("%+v, order %0*b: decided after %d, could have been before", r, n, order, used)
					}
				}
			}
		}
	}
}

// settled reports, the slow way, whether the first used outcomes leave one decision only.
func settled(order uint, used, n int, lo, hi int64) bool {
	seen := map[Decision]bool{}
	for rest := range uint(1) << (n - used) {
		all := order&(1<<used-1) | rest<<used
		seen[kept(bits.OnesCount(all), n, lo, hi)] = true
	}
	return len(seen) == 1
}

// The share of rollouts that stopping early saves, exactly, and the figures of the docs. Those
// wanted come from a sum over the states without a decision: at most 4 passes, and at most 3
// fails or no pass.
func TestSaved(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../docs/bar.md")
	if err != nil {
		t.Fatal(err)
	}
	r := Defaults()
	for _, c := range []struct{ p, saved float64 }{
		{.02, .0423}, {.05, .0960}, {.10, .1625}, {.20, .2265}, {.30, .2276}, {.50, .1680}, {.70, .1824}, {.90, .3069},
	} {
		used, sum := 0.0, 0.0
		for order := range uint(1) << r.N {
			c1 := bits.OnesCount(order)
			w := math.Pow(c.p, float64(c1)) * math.Pow(1-c.p, float64(r.N-c1))
			_, n := stop(t, r, order)
			used, sum = used+w*float64(n), sum+w
		}
		saved := 1 - used/float64(r.N)
		if math.Abs(sum-1) > 1e-12 || math.Abs(saved-c.saved) > .00006 {
			t.Errorf("p=%v: %.4f saved, want %v", c.p, saved, c.saved)
		}
		if line := fmt.Sprintf("| %.2f | %.2f | %.1f%% |\n", c.p, used, 100*saved); !strings.Contains(string(doc), line) {
			t.Errorf("docs/bar.md lacks %s", line)
		}
	}
}

// Rollouts whose outcome is not known: tried again they change nothing, given up they never
// turn a decision around.
func TestUnknown(t *testing.T) {
	t.Parallel()
	r := Defaults()
	for _, c := range []struct {
		pass, known, remaining int
		want                   Decision
	}{
		{0, 0, 8, Undecided},
		{1, 5, 3, Keep}, // at most 4 of 8
		{1, 4, 4, Undecided},
		{5, 5, 3, Drop},
		{0, 7, 1, Undecided}, // one pass would keep it
		{0, 8, 0, Drop},
		{0, 5, 0, Unknown}, // three given up
		{3, 5, 0, Unknown},
		{0, 0, 0, Unknown},
		{3, 4, 1, Unknown}, // never more than 5
		{3, 4, 2, Undecided},
		{3, 6, 0, Keep},
		{4, 6, 0, Drop}, // 4 of 6 is above half, 4 of 8 is not
		{4, 6, 2, Undecided},
		{4, 7, 1, Undecided},
		{4, 8, 0, Keep},
	} {
		if got := decide(t, r, c.pass, c.known, c.remaining); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
	narrow := Rule{N: 6, NMin: 1, Lo: .25, Hi: .34} // it holds a third, and no fifth
	if got := decide(t, narrow, 0, 0, 5); got != Undecided {
		t.Errorf("%+v: %s before any outcome, with one given up", narrow, got)
	}
	for _, c := range [][3]int{{-1, 0, 8}, {2, 1, 7}, {1, 2, 7}, {0, 0, -1}} {
		if d, err := r.Decide(c[0], c[1], c[2]); err == nil || d != Undecided {
			t.Errorf("%v: %v", c, d)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		r := drawRule(t)
		known := rapid.IntRange(0, r.N).Draw(t, "known")
		pass := rapid.IntRange(0, known).Draw(t, "pass")
		remaining := rapid.IntRange(0, r.N-known).Draw(t, "remaining")
		early, err := r.Decide(pass, known, remaining)
		if err != nil {
			t.Fatal(err)
		}
		if early == Undecided || early == Unknown {
			return
		}
		less := rapid.IntRange(0, remaining).Draw(t, "given up")
		more := rapid.IntRange(0, remaining-less).Draw(t, "more passes")
		if end := r.Final(pass+more, known+remaining-less); end != early && end != Unknown {
			t.Fatalf("%+v: %s at %d of %d with %d to come, %s in the end", r, early, pass, known, remaining, end)
		}
	})
}

func drawRule(t *rapid.T) Rule {
	r := Rule{N: rapid.IntRange(1, 12).Draw(t, "n")}
	r.NMin = rapid.IntRange(1, r.N).Draw(t, "n_min")
	lo := rapid.IntRange(0, 99).Draw(t, "lo")
	r.Lo, r.Hi = float64(lo)/100, float64(rapid.IntRange(lo+1, 100).Draw(t, "hi"))/100
	if r.Validate() != nil {
		t.Skip("nothing is kept")
	}
	return r
}

// What is run ahead is never in vain: whatever fewer outcomes are, they decide nothing.
func TestAhead(t *testing.T) {
	t.Parallel()
	if n, err := Defaults().Ahead(0, 0, 8); n != 5 || err != nil {
		t.Errorf("%d %v, want 5 at first", n, err)
	}
	if n, _ := Defaults().Ahead(5, 5, 3); n != 0 {
		t.Errorf("%d after a decision", n)
	}
	if _, err := Defaults().Ahead(3, 2, 3); err == nil {
		t.Error("3 passes of 2")
	}
	rapid.Check(t, func(t *rapid.T) {
		r := drawRule(t)
		order := rapid.Uint64Range(0, 1<<r.N-1).Draw(t, "order")
		_, used := stop(t, r, uint(order))
		pass, known := 0, 0
		for known < used {
			n, err := r.Ahead(pass, known, r.N-known)
			if err != nil || n < 1 || known+n > used {
				t.Fatalf("%+v: %d more after %d, decided at %d (%v)", r, n, known, used, err)
			}
			for range n {
				pass += int(order >> known & 1)
				known++
			}
		}
	})
}

func TestRule(t *testing.T) {
	if err := Defaults().Validate(); err != nil {
		t.Error(err)
	}
	for want, r := range map[string]Rule{
		"n 0: ":                         {N: 0, NMin: 1, Hi: .5},
		"n_min 9: must be from 1 to":    {N: 8, NMin: 9, Hi: .5},
		"n_min 0: ":                     {N: 8, Hi: .5},
		"above 0.5 and at most 0.5":     {N: 8, NMin: 6, Lo: .5, Hi: .5},
		"above NaN":                     {N: 8, NMin: 6, Lo: math.NaN(), Hi: .5},
		"at most 1.5":                   {N: 8, NMin: 6, Hi: 1.5},
		"at most 0.6: no number of pas": {N: 8, NMin: 6, Lo: .5, Hi: .6},
	} {
		if err := r.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if d := (Rule{N: 10, NMin: 1, Lo: .1, Hi: .3}).Final(3, 10); d != Keep {
		t.Errorf("3 of 10 with at most 0.3: %s", d)
	}
}
