package simulate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"orchard/internal/bar"
)

// Report is what a simulation found.
type Report struct {
	Settings Config   `json:"settings"`
	Results  []Result `json:"results"` // a strategy each, in the order asked for
}

// Result is the figures of a strategy.
type Result struct {
	Strategy string `json:"strategy"`
	Measures
	Batches Batches    `json:"batching"`
	Refill  bar.Refill `json:"refill"`
	ByRate  []AtRate   `json:"by_rate"` // ascending; without those that no prompt has
}

// AtRate is the figures over the prompts whose pass rate is From, or from From to To.
type AtRate struct {
	From float64 `json:"from"`
	To   float64 `json:"to"`
	Measures
}

// mid is where a picture shows it.
func (a AtRate) mid() float64 { return (a.From + a.To) / 2 }

// bins are the pass rates that are shown apart: all of them if they are few, else twenty
// stretches of the same width.
type bins struct {
	few []float64 // ascending; nil for stretches
}

const (
	fewRates  = 24
	stretches = 20
)

func binsOf(rates []float64) bins {
	list := slices.Clone(rates)
	slices.Sort(list)
	if list = slices.Compact(list); len(list) <= fewRates {
		return bins{few: list}
	}
	return bins{}
}

func (b bins) count() int {
	if b.few != nil {
		return len(b.few)
	}
	return stretches
}

func (b bins) of(p float64) int {
	if b.few != nil {
		i, _ := slices.BinarySearch(b.few, p)
		return i
	}
	return min(stretches-1, int(p*stretches))
}

func (b bins) at(i int) (from, to float64) {
	if b.few != nil {
		return b.few[i], b.few[i]
	}
	return float64(i) / stretches, float64(i+1) / stretches
}

// tried is what a strategy did so far.
type tried struct {
	planned
	all    sums
	byRate []sums
	used   []int  // a prompt each
	gave   []bool // whether there was a group
}

// Simulate runs every strategy over prompts of the given pass rates.
func Simulate(ctx context.Context, c Config, rates []float64) (*Report, error) {
	strategies, err := c.strategies()
	if err != nil {
		return nil, err
	}
	shown := binsOf(rates)
	var list []*tried
	for _, s := range strategies {
		list = append(list, &tried{planned: s, byRate: make([]sums, shown.count()), used: make([]int, len(rates)), gave: make([]bool, len(rates))})
	}
	r := rand.New(rand.NewPCG(uint64(c.Seed), 2))
	for i, p := range rates {
		if i%1024 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		samples := draw(r, c, p, c.BAR.NMax)
		for _, t := range list {
			// All samples at once: a strategy looks at none before its turn.
			d, err := t.Next(samples[:t.Most()])
			if err == nil && !d.Over() {
				err = fmt.Errorf("asks for samples %v, which it has", d.Need)
			}
			if err != nil {
				return nil, fmt.Errorf("simulate %s: %w", t, err)
			}
			for _, s := range []*sums{&t.all, &t.byRate[shown.of(p)]} {
				if err := s.add(d, c.BAR.Balanced, c.Advantage); err != nil {
					return nil, fmt.Errorf("simulate %s: %w", t, err)
				}
			}
			t.used[i], t.gave[i] = d.Used, d.Group != nil
		}
	}
	c.BAR.Stride = 0 // of no strategy
	report := &Report{Settings: c}
	for _, t := range list {
		res, err := t.result(shown)
		if err != nil {
			return nil, err
		}
		report.Results = append(report.Results, res)
	}
	return report, nil
}

func (t *tried) result(shown bins) (Result, error) {
	res := Result{Strategy: t.String(), Measures: t.all.measures(), Batches: fill(t.refill, t.used, t.gave), Refill: t.refill, ByRate: []AtRate{}}
	sum := res.Groups
	for _, n := range res.Dropped {
		sum += n
	}
	if sum != res.Prompts {
		return res, fmt.Errorf("simulate %s: %d prompts, but %d groups and drops", t, res.Prompts, sum)
	}
	for i := range t.byRate {
		if t.byRate[i].prompts == 0 {
			continue
		}
		from, to := shown.at(i)
		res.ByRate = append(res.ByRate, AtRate{from, to, t.byRate[i].measures()})
	}
	return res, nil
}

// draw is the samples of a prompt. What is drawn does not depend on the shares, so that two
// simulations of one seed differ in nothing but what was set.
func draw(r *rand.Rand, c Config, p float64, n int) []bar.Sample {
	list := make([]bar.Sample, n)
	for i := range list {
		infra, cut, pass := r.Float64(), r.Float64(), r.Float64()
		list[i] = bar.Sample{Index: i, Status: bar.Completed}
		if infra < float64(c.Infra) {
			list[i].Status = bar.Aborted
			continue
		}
		if cut < float64(c.Truncated) {
			list[i].Status = bar.Truncated
		}
		reward := 0.0
		if pass < p {
			reward = 1
		}
		list[i].Reward = &reward
	}
	return list
}
