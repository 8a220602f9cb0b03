package evaluation

import (
	"slices"

	"orchard/internal/stats"
)

// ks is the ks to report: those asked for, or powers of two up to the most, and the most.
func ks(asked []int64, most int64) []int64 {
	list := slices.Clone(asked)
	if len(list) == 0 {
		for k := int64(1); k <= most; k *= 2 {
			list = append(list, k)
		}
		if most > 0 {
			list = append(list, most)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// pass is pass@k and pass^k over the tasks that have k rollouts. A rollout without a
// reward is left out of a task's n, and counts in the bounds as either.
func pass(cells []*cell, k int64, headline bool, o Options) Pass {
	p := Pass{K: k}
	var at, all [3][]stats.Cluster // as known, at worst, at best
	add := func(i int, n, c int64) bool {
		a, ok := stats.PassAt(n, c, k)
		b, _ := stats.PassAll(n, c, k)
		if ok {
			at[i] = append(at[i], stats.Cluster{Sum: a, Weight: 1})
			all[i] = append(all[i], stats.Cluster{Sum: b, Weight: 1})
		}
		return ok
	}
	for _, c := range cells {
		if c.Planned < k {
			p.Undefined++
			continue
		}
		if add(0, c.Known, c.Resolved) {
			p.Tasks++
		} else {
			p.Unknown++
		}
		add(1, c.Planned, c.Resolved)
		add(2, c.Planned, c.Resolved+c.Planned-c.Known)
	}
	p.AtBounds, p.AllBounds = between(at[1], at[2]), between(all[1], all[2])
	if headline {
		p.At, p.All = mean(at[0]), mean(all[0])
		p.AtIn, p.AllIn = spread(at[0], o), spread(all[0], o)
	}
	return p
}

func mean(c []stats.Cluster) *float64 {
	m, ok := stats.Mean(c)
	if !ok {
		return nil
	}
	return &m
}

func between(worst, best []stats.Cluster) *stats.Interval {
	lo, hi := mean(worst), mean(best)
	if lo == nil {
		return nil
	}
	return &stats.Interval{Lo: *lo, Hi: *hi}
}
