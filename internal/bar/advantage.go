package bar

import (
	"fmt"
	"math"
)

// leastSpread is the standard deviation (n-1) of a group's rewards that counts as none.
const leastSpread = 1e-6

// Advantage is how the rewards of a group become advantages.
type Advantage struct {
	// DDof is what is taken off the number of samples in the standard deviation: 1 as in slime
	// and NeMo-RL (4 of 8 positive gives ±0.935), 0 as in the paper's formula (±1).
	DDof int `json:"ddof"`
	// Eps is added to the standard deviation.
	Eps float64 `json:"eps"`
	// NoStd leaves the division by the standard deviation out: Dr. GRPO.
	NoStd bool `json:"no_std"`
}

// DefaultAdvantage is GRPO's as slime computes it.
func DefaultAdvantage() Advantage { return Advantage{DDof: 1, Eps: 1e-6} }

// Validate says what is wrong with a.
func (a Advantage) Validate() error {
	if a.DDof != 0 && a.DDof != 1 {
		return fmt.Errorf("ddof %d: must be 0 or 1", a.DDof)
	}
	if !(a.Eps >= 0 && a.Eps < 1) {
		return fmt.Errorf("eps %v: must be at least 0 and below 1", a.Eps)
	}
	return nil
}

// Of is the advantage of each reward of a group. Where the rewards do not differ all are 0.
// A reward that is not finite is an error: a rollout without a reward belongs in no group,
// and a placeholder for it would make a variance that is not there.
func (a Advantage) Of(rewards []float64) ([]float64, error) {
	if err := a.Validate(); err != nil {
		return nil, fmt.Errorf("advantages: %w", err)
	}
	for i, r := range rewards {
		if math.IsNaN(r) || math.IsInf(r, 0) {
			return nil, fmt.Errorf("advantages: reward %d of the group is %v", i, r)
		}
	}
	list := make([]float64, len(rewards))
	if spread(rewards, 1) <= leastSpread {
		return list, nil
	}
	by := 1.0
	if !a.NoStd {
		by = spread(rewards, a.DDof) + a.Eps
	}
	m := mean(rewards)
	for i, r := range rewards {
		list[i] = (r - m) / by
	}
	return list, nil
}

func mean(list []float64) float64 {
	sum := 0.0
	for _, x := range list {
		sum += x
	}
	return sum / float64(len(list))
}

// spread is the standard deviation; of fewer than two numbers it is 0.
func spread(list []float64, ddof int) float64 {
	if len(list) < 2 {
		return 0
	}
	m, sum := mean(list), 0.0
	for _, x := range list {
		sum += (x - m) * (x - m)
	}
	return math.Sqrt(sum / float64(len(list)-ddof))
}
