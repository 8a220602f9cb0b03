package calibration

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"orchard/datasets/record"
)

// Comparison is how two credit datasets agree about the states that both value.
type Comparison struct {
	With     string `json:"with"`     // name and digest of the other
	Rollouts int64  `json:"rollouts"` // with a value of both for at least one state
	States   int64  `json:"states"`
	Others   int64  `json:"other_trajectories"` // rollouts of the same id and another trajectory: not compared

	// MeanDifference is the mean of |a - b| over all those states.
	MeanDifference *float64 `json:"mean_absolute_difference"`
	// RankCorrelation is Spearman's, of the states of a rollout, averaged over rollouts.
	// Where one side has the same value everywhere there is none; Ranked is how many have.
	RankCorrelation *float64 `json:"rank_correlation"`
	Ranked          int64    `json:"ranked"`

	difference, correlation float64
}

// Compare counts a rollout that both datasets have.
func (c *Comparison) Compare(a, b record.Credit) {
	if a.Trajectory != b.Trajectory || a.Steps != b.Steps {
		c.Others++
		return
	}
	var x, y []float64
	for i := range min(len(a.Values), len(b.Values)) {
		if a.Values[i] != nil && b.Values[i] != nil {
			x, y = append(x, *a.Values[i]), append(y, *b.Values[i])
		}
	}
	if len(x) == 0 {
		return
	}
	c.Rollouts++
	c.States += int64(len(x))
	for i := range x {
		c.difference += math.Abs(x[i] - y[i])
	}
	if r, ok := Spearman(x, y); ok {
		c.Ranked++
		c.correlation += r
	}
}

func (c *Comparison) close() {
	if c.States > 0 {
		d := c.difference / float64(c.States)
		c.MeanDifference = &d
	}
	if c.Ranked > 0 {
		r := c.correlation / float64(c.Ranked)
		c.RankCorrelation = &r
	}
}

// Spearman is the rank correlation of two lists of the same length, equal values sharing
// the mean of their ranks; ok is false when one of them is constant.
func Spearman(x, y []float64) (r float64, ok bool) {
	if len(x) < 2 || slices.Max(x) == slices.Min(x) || slices.Max(y) == slices.Min(y) {
		return 0, false
	}
	return stat.Correlation(ranks(x), ranks(y), nil), true
}

func ranks(x []float64) []float64 {
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(x[a], x[b]) })
	out := make([]float64, len(x))
	for i := 0; i < len(order); {
		j := i
		for j < len(order) && x[order[j]] == x[order[i]] {
			j++
		}
		for _, k := range order[i:j] {
			out[k] = float64(i+j-1) / 2
		}
		i = j
	}
	return out
}
