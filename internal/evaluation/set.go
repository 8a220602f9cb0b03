// Package evaluation says what rollouts say of the policies and harnesses that made them:
// resolve rates with their intervals, pass@k and pass^k, the same tasks in every cell of a
// matrix, and what changed against another run.
//
// A rollout whose worth nobody could find out is neither resolved nor not: it is in the
// bounds of a rate and in no rate. Where too many are so, there is no headline, no pass@k
// and no test, only the bounds, since what is left may be what is easy. The package reads
// rows and writes numbers and text; the stages around it read and write datasets.
package evaluation

import (
	"cmp"
	"maps"
	"slices"

	"orchard/datasets/record"
)

// System is what is evaluated: a policy in a harness.
type System struct {
	Policy  string `json:"policy"`
	Harness string `json:"harness"`
}

func (s System) compare(o System) int {
	return cmp.Or(cmp.Compare(s.Policy, o.Policy), cmp.Compare(s.Harness, o.Harness))
}

func (s System) String() string { return s.Policy + " in " + s.Harness }

// NotFinished is counted beside the outcomes for rollouts that have no row, since nobody
// could find out how they end.
const NotFinished record.Outcome = "not_finished"

// Set is the rollouts of one run, in any order. Add them, and say what should be there:
// Expect where that is known rollout by rollout, Lose where only their number is.
type Set struct {
	tasks    map[string]*task
	systems  map[System]*tally
	expected bool
	lost     int64
}

// task is the rollouts of a task by system.
type task struct {
	id, repo string
	of       map[System]*cell
}

// cell is the rollouts of a task by one system.
type cell struct {
	Planned  int64 // rollouts that there should be
	Known    int64
	Resolved int64
	rollouts []Rollout
}

// tally is what is counted of a system beside its tasks.
type tally struct {
	outcomes map[record.Outcome]int64
	exits    map[string]map[record.Outcome]int64
	graders  map[string]bool
}

// Rollout is a row without its trajectory.
type Rollout struct {
	ID      string         `json:"rollout_id"`
	Index   int64          `json:"index"`
	Outcome record.Outcome `json:"outcome"`
	Reward  *float64       `json:"reward"`
}

// NewSet is an empty set.
func NewSet() *Set { return &Set{tasks: map[string]*task{}, systems: map[System]*tally{}} }

func (s *Set) system(sys System) *tally {
	t := s.systems[sys]
	if t == nil {
		t = &tally{outcomes: map[record.Outcome]int64{}, exits: map[string]map[record.Outcome]int64{}, graders: map[string]bool{}}
		s.systems[sys] = t
	}
	return t
}

func (s *Set) cell(taskID, repo string, sys System) *cell {
	t := s.tasks[taskID]
	if t == nil {
		t = &task{id: taskID, repo: repo, of: map[System]*cell{}}
		s.tasks[taskID] = t
	}
	c := t.of[sys]
	if c == nil {
		c = &cell{}
		t.of[sys] = c
	}
	return c
}

// Add counts a rollout. Its row is not kept.
func (s *Set) Add(r record.Rollout) {
	sys := System{r.Policy, r.Harness}
	c, t := s.cell(r.TaskID, r.Repo, sys), s.system(sys)
	c.rollouts = append(c.rollouts, Rollout{r.RolloutID, r.Index, r.Verdict.Outcome, r.Verdict.Reward})
	if r.Verdict.Reward != nil {
		c.Known++
		if r.Verdict.Outcome == record.Resolved {
			c.Resolved++
		}
	}
	t.outcomes[r.Verdict.Outcome]++
	if t.exits[r.Trajectory.ExitStatus] == nil {
		t.exits[r.Trajectory.ExitStatus] = map[record.Outcome]int64{}
	}
	t.exits[r.Trajectory.ExitStatus][r.Verdict.Outcome]++
	if r.Verdict.Grader != "" {
		t.graders[r.Verdict.Grader] = true
	}
}

// Expect says that a task has n rollouts by a system. Those without a row are not known.
func (s *Set) Expect(taskID, repo string, sys System, n int64) {
	s.expected = true
	s.system(sys)
	s.cell(taskID, repo, sys).Planned += n
}

// ExpectSystem says that there is a system, though it may have no task.
func (s *Set) ExpectSystem(sys System) { s.expected = true; s.system(sys) }

// Lose says that n further rollouts have no row, without saying which.
func (s *Set) Lose(n int64) { s.lost += n }

// settle gives every cell its planned number, and orders its rollouts. The result is how
// many of the lost rollouts belong to no cell that is known of: each system may have lost
// all of those.
func (s *Set) settle() (unplaced int64) {
	var most, gaps int64
	for _, t := range s.tasks {
		for _, c := range t.of {
			slices.SortFunc(c.rollouts, func(a, b Rollout) int { return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.ID, b.ID)) })
			n := int64(len(c.rollouts))
			c.Planned = max(c.Planned, n)
			most = max(most, n)
			if n > 0 {
				most = max(most, c.rollouts[n-1].Index+1)
			}
		}
	}
	if s.expected || s.lost == 0 {
		return 0
	}
	// Were the gaps of a full grid just as many, then they are what was lost.
	for _, t := range s.tasks {
		for sys := range s.systems {
			if c := t.of[sys]; c != nil {
				gaps += max(0, most-int64(len(c.rollouts)))
			} else {
				gaps += most
			}
		}
	}
	if gaps != s.lost {
		return s.lost
	}
	for _, t := range s.tasks {
		for sys := range s.systems {
			s.cell(t.id, t.repo, sys).Planned = most
		}
	}
	return 0
}

// order is the systems in their order.
func (s *Set) order() []System {
	return slices.SortedFunc(maps.Keys(s.systems), System.compare)
}

// byID is the tasks in their order.
func (s *Set) byID() []*task {
	return slices.SortedFunc(maps.Values(s.tasks), func(a, b *task) int { return cmp.Compare(a.id, b.id) })
}
