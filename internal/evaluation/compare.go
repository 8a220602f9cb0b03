package evaluation

import (
	"fmt"
	"slices"

	"orchard/datasets/record"
	"orchard/internal/stats"
)

// Matrix is policies against harnesses, on the same tasks in every cell.
type Matrix struct {
	Policies  []string `json:"policies"`
	Harnesses []string `json:"harnesses"`
	Common    int64    `json:"common_tasks"` // with a reward in every cell
	All       int64    `json:"all_tasks"`
	Cells     []Cell   `json:"cells"`
}

// Cell is one system on the common tasks.
type Cell struct {
	System
	Rate     *float64        `json:"rate"` // mean over the common tasks; nil where the system has no headline
	Interval *stats.Interval `json:"interval"`
	Own      int64           `json:"own_tasks"` // with a reward in this cell
	Lacks    int64           `json:"lacks"`     // of all tasks, those without
	Bounds   stats.Interval  `json:"bounds"`    // over all of the system's rollouts
}

func matrix(a *Analysis, tasks []*task, o Options) *Matrix {
	m := &Matrix{All: int64(len(tasks)), Cells: []Cell{}}
	var common []*task
	for _, t := range tasks {
		everywhere := true
		for _, s := range a.Systems {
			everywhere = everywhere && t.of[s.System] != nil && t.of[s.System].Known > 0
		}
		if everywhere {
			common = append(common, t)
		}
	}
	m.Common = int64(len(common))
	for _, s := range a.Systems {
		m.Policies, m.Harnesses = append(m.Policies, s.Policy), append(m.Harnesses, s.Harness)
		c := Cell{System: s.System, Bounds: s.Bounds}
		for _, t := range tasks {
			if own := t.of[s.System]; own != nil && own.Known > 0 {
				c.Own++
			}
		}
		c.Lacks = m.All - c.Own
		if s.Headline != nil {
			var each []stats.Cluster
			for _, t := range common {
				own := t.of[s.System]
				each = append(each, stats.Cluster{Sum: float64(own.Resolved) / float64(own.Known), Weight: 1})
			}
			c.Rate = mean(each)
			if b := spread(each, o); b != nil {
				c.Interval = &b.Percentile
			}
		}
		m.Cells = append(m.Cells, c)
	}
	for _, list := range []*[]string{&m.Policies, &m.Harnesses} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return m
}

// Cell is the cell of a policy and a harness, nil when there is none.
func (m *Matrix) Cell(policy, harness string) *Cell {
	for i := range m.Cells {
		if m.Cells[i].System == (System{policy, harness}) {
			return &m.Cells[i]
		}
	}
	return nil
}

// Against is the comparison with an earlier run.
type Against struct {
	URI     string   `json:"uri"`
	Changes []Change `json:"changes"`
	New     []System `json:"new"`  // systems that the earlier run has not
	Gone    []System `json:"gone"` // and those that only it has
}

// Change is one system against another on the tasks that both have. A task is resolved
// when its first rollout, that of index 0, is.
type Change struct {
	Before System `json:"before"`
	After  System `json:"after"`

	Common     int64 `json:"common_tasks"` // of which both first rollouts have a reward
	Unknown    int64 `json:"unknown"`      // tasks of both, of which one has none
	OnlyBefore int64 `json:"only_before"`
	OnlyAfter  int64 `json:"only_after"`
	Both       int64 `json:"both_resolved"`
	Neither    int64 `json:"neither_resolved"`

	NewlyResolved []string `json:"newly_resolved"` // task ids
	NewlyFailed   []string `json:"newly_failed"`

	P        *float64 `json:"mcnemar_p"` // exact, two-sided; nil: Withheld says why
	Withheld string   `json:"withheld"`
	// Difference is by how much the share of resolved rollouts rose, over all rollouts of
	// the common tasks; nil where P is.
	Difference *Difference `json:"difference"`
}

// Difference is a paired mean over tasks.
type Difference struct {
	Mean      float64       `json:"mean"`
	Tasks     int64         `json:"tasks"`
	Bootstrap *stats.Spread `json:"bootstrap"`
}

// side is a system of a set.
type side struct {
	set   *Set
	score Score
}

func compare(before, after side, o Options) Change {
	c := Change{Before: before.score.System, After: after.score.System, NewlyResolved: []string{}, NewlyFailed: []string{}}
	var differences []stats.Cluster
	for _, t := range before.set.byID() {
		b, a := before.of(t.id), after.of(t.id)
		switch {
		case b == nil:
			continue
		case a == nil:
			c.OnlyBefore++
			continue
		}
		if a.Known > 0 && b.Known > 0 {
			d := float64(a.Resolved)/float64(a.Known) - float64(b.Resolved)/float64(b.Known)
			differences = append(differences, stats.Cluster{Sum: d, Weight: 1})
		}
		was, known := b.first()
		is, too := a.first()
		if !known || !too {
			c.Unknown++
			continue
		}
		c.Common++
		switch {
		case was && is:
			c.Both++
		case is:
			c.NewlyResolved = append(c.NewlyResolved, t.id)
		case was:
			c.NewlyFailed = append(c.NewlyFailed, t.id)
		default:
			c.Neither++
		}
	}
	for _, t := range after.set.byID() {
		if after.of(t.id) != nil && before.of(t.id) == nil {
			c.OnlyAfter++
		}
	}
	switch {
	case c.Common == 0:
		c.Withheld = "no task has a reward in both"
	case before.score.Withheld != "":
		c.Withheld = "before, " + before.score.Withheld
	case after.score.Withheld != "":
		c.Withheld = "after, " + after.score.Withheld
	case !slices.Equal(before.score.Graders, after.score.Graders):
		c.Withheld = "the two were graded by different rules"
	default:
		p := stats.McNemar(int64(len(c.NewlyFailed)), int64(len(c.NewlyResolved)))
		c.P = &p
		if m := mean(differences); m != nil {
			c.Difference = &Difference{*m, int64(len(differences)), spread(differences, o)}
		}
	}
	return c
}

// of is the cell of a task in this system, nil when it was not tried.
func (s side) of(taskID string) *cell {
	if t := s.set.tasks[taskID]; t != nil {
		if c := t.of[s.score.System]; c != nil && c.Planned > 0 {
			return c
		}
	}
	return nil
}

// first is whether the rollout of index 0 is resolved; known is false when it has no
// reward or no row.
func (c *cell) first() (resolved, known bool) {
	if len(c.rollouts) == 0 || c.rollouts[0].Index != 0 || c.rollouts[0].Reward == nil {
		return false, false
	}
	return c.rollouts[0].Outcome == record.Resolved, true
}

// Compare sets a run beside an earlier one. Systems of the same names are compared, and
// where each run has just one, those are, whatever their names. The error is that there
// is nothing to compare.
func (a *Analysis) Compare(now, before *Set, uri string, o Options) error {
	earlier := Analyze(before, Options{Ks: []int64{1}, MaxUnknown: o.MaxUnknown})
	b := &Against{URI: uri, Changes: []Change{}, New: []System{}, Gone: []System{}}
	paired := map[System]bool{}
	for _, s := range a.Systems {
		i := slices.IndexFunc(earlier.Systems, func(e Score) bool {
			return e.System == s.System || len(a.Systems) == 1 && len(earlier.Systems) == 1
		})
		if i < 0 {
			b.New = append(b.New, s.System)
			continue
		}
		paired[earlier.Systems[i].System] = true
		b.Changes = append(b.Changes, compare(side{before, earlier.Systems[i]}, side{now, s}, o))
	}
	for _, e := range earlier.Systems {
		if !paired[e.System] {
			b.Gone = append(b.Gone, e.System)
		}
	}
	if len(b.Changes) == 0 {
		return fmt.Errorf("%s has none of the policies and harnesses of this run: it has %v, this run %v", uri, b.Gone, b.New)
	}
	a.Baseline = b
	return nil
}
