// Package stats is the statistics of evaluations: intervals of a rate, the paired test of
// two runs, pass@k and pass^k, the bootstrap over tasks, and what can be said of a rate of
// which a part is not known.
//
// Every function is pure, and the same arguments give the same result. What is not defined
// (a rate of nothing, pass@k of fewer than k rollouts) is said to be so with ok = false, and
// is never a 0.
package stats

import "math"

// Interval is a range of a share or a mean.
type Interval struct {
	Lo float64 `json:"lo"`
	Hi float64 `json:"hi"`
}

// z is the quantile of the normal distribution that leaves 2.5 % on either side.
const z = 1.959963984540054

// Wilson is the 95 % score interval of k of n (Wilson 1927): it stays inside [0, 1] and
// says something even for 0 of n. Of nothing it is [0, 1].
func Wilson(k, n int64) Interval {
	if n <= 0 {
		return Interval{0, 1}
	}
	p, m := float64(k)/float64(n), float64(n)
	centre := (p + z*z/(2*m)) / (1 + z*z/m)
	half := z * math.Sqrt(p*(1-p)/m+z*z/(4*m*m)) / (1 + z*z/m)
	return Interval{math.Max(0, centre-half), math.Min(1, centre+half)}
}

// McNemar is the exact two-sided test of two runs on the same tasks (McNemar 1947), by the
// tasks that tell them apart: b that only the first resolved, c that only the second did.
// The result is how likely a split at least as uneven is when both are equally good; 1
// when nothing tells them apart.
func McNemar(b, c int64) float64 {
	n, least := b+c, min(b, c)
	if n <= 0 || b == c {
		return 1
	}
	// The smaller tail of Binomial(n, 1/2), by logarithms: 2^n is beyond a float64 from
	// a thousand on.
	lgamma := func(x int64) float64 { v, _ := math.Lgamma(float64(x) + 1); return v }
	tail := 0.0
	for i := range least + 1 {
		tail += math.Exp(lgamma(n) - lgamma(i) - lgamma(n-i) - float64(n)*math.Ln2)
	}
	return math.Min(1, 2*tail)
}

// PassAt is pass@k of a task, unbiased (Chen et al. 2021): how likely one of k rollouts
// resolves it, when c of n did. It is the share of the k-subsets of the n that hold one of
// the c. Not defined for k > n.
func PassAt(n, c, k int64) (p float64, ok bool) {
	if !possible(n, c, k) {
		return 0, false
	}
	if n-c < k {
		return 1, true
	}
	none := 1.0
	for i := n - c + 1; i <= n; i++ {
		none *= 1 - float64(k)/float64(i)
	}
	return 1 - none, true
}

// PassAll is pass^k of a task, unbiased (Yao et al. 2024): how likely k rollouts all resolve
// it, when c of n did. It is the share of the k-subsets of the n that hold none but the c;
// (c/n)^k would be too high. Not defined for k > n.
func PassAll(n, c, k int64) (p float64, ok bool) {
	if !possible(n, c, k) {
		return 0, false
	}
	all := 1.0
	for i := range k {
		if c <= i {
			return 0, true
		}
		all *= float64(c-i) / float64(n-i)
	}
	return all, true
}

func possible(n, c, k int64) bool { return k >= 1 && k <= n && c >= 0 && c <= n }

// Bounds is what the rate of all is at worst and at best, when known of them are known and
// resolved of those are resolved: with all others not resolved, and with all of them
// resolved (Manski 1989). They hold the true rate whatever the reason is for which the
// others are not known. Of nothing they are [0, 1].
func Bounds(resolved, known, all int64) Interval {
	if all <= 0 {
		return Interval{0, 1}
	}
	return Interval{float64(resolved) / float64(all), float64(resolved+all-known) / float64(all)}
}
