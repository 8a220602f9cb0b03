package stats

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Resamples is how often Bootstrap draws when nobody says otherwise.
const Resamples = 10_000

// Cluster is what belongs together in a mean, such as the rollouts of one task, or the
// tasks of one repository: the sum of its values, and how many they are.
type Cluster struct{ Sum, Weight float64 }

// Mean is the mean of all values; ok is false when there are none.
func Mean(clusters []Cluster) (mean float64, ok bool) {
	var sum, weight float64
	for _, c := range clusters {
		sum, weight = sum+c.Sum, weight+c.Weight
	}
	if weight <= 0 {
		return 0, false
	}
	return sum / weight, true
}

// Spread is the bootstrap's 95 % intervals of a mean.
type Spread struct {
	Percentile Interval `json:"percentile"`
	// BCa corrects for bias and for a spread that changes with the mean (Efron 1987).
	// Where it is not defined, since all draws are alike, it is the percentile interval.
	BCa Interval `json:"bca"`
}

// Bootstrap is the cluster bootstrap (Davison and Hinkley 1997, section 3.8) of the mean of
// all values: as many clusters as there are are drawn with replacement, resamples times.
// Rollouts of a task are alike, so an interval that takes them for independent is too
// narrow; this one is not. Clusters without a value are left out. With fewer than two
// clusters nothing is known of their spread, and ok is false. The order of the clusters is
// part of the seed.
func Bootstrap(clusters []Cluster, resamples int, seed int64) (s Spread, ok bool) {
	clusters = slices.DeleteFunc(slices.Clone(clusters), func(c Cluster) bool { return c.Weight <= 0 })
	n := len(clusters)
	mean, _ := Mean(clusters)
	if n < 2 || resamples < 1 {
		return Spread{}, false
	}
	draw := rand.New(rand.NewPCG(uint64(seed), 0x6f72636861726400))
	means := make([]float64, resamples)
	for i := range means {
		var sum, weight float64
		for range n {
			c := &clusters[draw.IntN(n)]
			sum, weight = sum+c.Sum, weight+c.Weight
		}
		means[i] = sum / weight
	}
	slices.Sort(means)
	s.Percentile = Interval{quantile(means, .025), quantile(means, .975)}
	s.BCa = s.Percentile
	if lo, hi, ok := corrected(clusters, means, mean); ok {
		s.BCa = Interval{quantile(means, lo), quantile(means, hi)}
	}
	return s, true
}

// corrected is the quantiles that BCa takes for 2.5 % and 97.5 %.
func corrected(clusters []Cluster, means []float64, mean float64) (lo, hi float64, ok bool) {
	below := 0.0 // draws below the mean; those at it, however they were added up, count half
	for _, m := range means {
		switch {
		case math.Abs(m-mean) <= 1e-12:
			below += .5
		case m < mean:
			below++
		}
	}
	bias := normalQuantile(below / float64(len(means)))
	a, ok := acceleration(clusters)
	if math.IsInf(bias, 0) || !ok {
		return 0, 0, false
	}
	at := func(q float64) float64 {
		v := bias + q
		return normal(bias + v/(1-a*v))
	}
	return at(-z), at(z), true
}

// acceleration is a sixth of the skewness of the means that leave one cluster out.
func acceleration(clusters []Cluster) (a float64, ok bool) {
	var sum, weight float64
	for _, c := range clusters {
		sum, weight = sum+c.Sum, weight+c.Weight
	}
	left, centre := make([]float64, len(clusters)), 0.0
	for i, c := range clusters {
		left[i] = (sum - c.Sum) / (weight - c.Weight)
		centre += left[i] / float64(len(clusters))
	}
	var square, cube float64
	for _, v := range left {
		d := centre - v
		square, cube = square+d*d, cube+d*d*d
	}
	if square <= 1e-30 {
		return 0, false
	}
	return cube / (6 * math.Pow(square, 1.5)), true
}

// quantile of sorted values, between two neighbours in proportion.
func quantile(sorted []float64, q float64) float64 {
	at := math.Min(1, math.Max(0, q)) * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

func normal(x float64) float64         { return .5 * math.Erfc(-x/math.Sqrt2) }
func normalQuantile(p float64) float64 { return math.Sqrt2 * math.Erfinv(2*p-1) }
