package evaluation

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"orchard/datasets/record"
	"orchard/internal/stats"
)

// Options is how a set is looked at.
type Options struct {
	Ks         []int64 // of pass@k and pass^k; none: the powers of two up to the most rollouts of a task, and that
	MaxUnknown float64 // share of unknown rollouts above which a system has no headline
	Resamples  int     // of the bootstrap
	Seed       int64
}

// Analysis is what a set says. It is the content of evaluation.json; lists are never null.
type Analysis struct {
	Tasks      int64    `json:"tasks"`
	Repos      int64    `json:"repos"`
	Rollouts   int64    `json:"rollouts"` // that there should be
	MaxUnknown float64  `json:"max_unknown_share"`
	Resamples  int      `json:"bootstrap_resamples"`
	Seed       int64    `json:"bootstrap_seed"`
	Systems    []Score  `json:"systems"`
	Matrix     *Matrix  `json:"matrix"` // nil for a single system
	Pairs      []Change `json:"pairs"`  // of systems of this run; not all when there are many
	Baseline   *Against `json:"baseline"`
	Warnings   []string `json:"warnings"`
	Results    []Result `json:"results"`
}

// Score is what is known of one system.
type Score struct {
	System
	Tasks    int64   `json:"tasks"`
	Rollouts int64   `json:"rollouts"` // that there should be
	Known    int64   `json:"known"`    // of them with a reward
	Resolved int64   `json:"resolved"`
	Unknown  int64   `json:"unknown"`
	Share    float64 `json:"unknown_share"`

	Headline *Headline      `json:"headline"` // nil: Withheld says why
	Withheld string         `json:"withheld"`
	Bounds   stats.Interval `json:"bounds"` // of the rate of all rollouts, whatever the unknown ones are
	Pass     []Pass         `json:"pass"`
	Outcomes []Count        `json:"outcomes"`
	Exits    []Exit         `json:"exits"`
	Graders  []string       `json:"graders"`
}

// Headline is a resolve rate over the rollouts that have a reward.
type Headline struct {
	Rate   float64        `json:"rate"`
	Wilson stats.Interval `json:"wilson"` // as if rollouts were independent
	Tasks  *stats.Spread  `json:"bootstrap_tasks"`
	Repos  *stats.Spread  `json:"bootstrap_repos"` // nil for fewer than two repositories
}

// Interval is the one to print beside the rate: Wilson's, or that over tasks when they have
// several rollouts and it is wider. It is not where the bootstrap cannot see a spread, as
// of tasks that are all alike.
func (s Score) Interval() (i stats.Interval, name string) {
	i, name = s.Headline.Wilson, "Wilson"
	if b := s.Headline.Tasks; b != nil && s.Known > s.Tasks && b.Percentile.Hi-b.Percentile.Lo > i.Hi-i.Lo {
		return b.Percentile, "bootstrap over tasks"
	}
	return i, name
}

// Pass is pass@k and pass^k, as means over tasks.
type Pass struct {
	K     int64         `json:"k"`
	At    *float64      `json:"pass_at_k"`  // nil: no task has k rollouts with a reward, or the headline is withheld
	All   *float64      `json:"pass_all_k"` // pass^k
	Tasks int64         `json:"tasks"`      // in the means: those with k rollouts or more that have a reward
	AtIn  *stats.Spread `json:"pass_at_k_bootstrap"`
	AllIn *stats.Spread `json:"pass_all_k_bootstrap"`

	Unknown   int64           `json:"tasks_unknown"`   // with k rollouts, but fewer that have a reward
	Undefined int64           `json:"tasks_undefined"` // with fewer than k rollouts
	AtBounds  *stats.Interval `json:"pass_at_k_bounds"`
	AllBounds *stats.Interval `json:"pass_all_k_bounds"`
}

// Count is how often an outcome occurred.
type Count struct {
	Outcome  record.Outcome `json:"outcome"`
	Rollouts int64          `json:"rollouts"`
	Reward   *float64       `json:"reward"`
}

// Exit is how many trajectories ended in one way, and what they were worth.
type Exit struct {
	Status   string  `json:"exit_status"` // "" for those that were not played
	Rollouts int64   `json:"rollouts"`
	Outcomes []Count `json:"outcomes"`
}

// Result is a task in the systems that tried it.
type Result struct {
	TaskID  string       `json:"task_id"`
	Repo    string       `json:"repo"`
	Systems []TaskResult `json:"systems"`
}

// TaskResult is a task in one system.
type TaskResult struct {
	System
	Planned  int64     `json:"planned"`
	Known    int64     `json:"known"`
	Resolved int64     `json:"resolved"`
	Rollouts []Rollout `json:"rollouts"` // by index
}

// mostPairs is how many pairs of systems of one run are compared.
const mostPairs = 15

// Analyze says what s says. s is not to be added to afterwards.
func Analyze(s *Set, o Options) *Analysis {
	unplaced := s.settle()
	tasks, systems := s.byID(), s.order()
	repos := map[string]bool{}
	for _, t := range tasks {
		repos[t.repo] = true
	}
	a := &Analysis{Tasks: int64(len(tasks)), Repos: int64(len(repos)), MaxUnknown: o.MaxUnknown, Resamples: o.Resamples, Seed: o.Seed,
		Systems: []Score{}, Pairs: []Change{}, Warnings: []string{}, Results: results(tasks, systems)}
	for _, sys := range systems {
		score := score(s, sys, tasks, unplaced, o)
		a.Systems, a.Rollouts = append(a.Systems, score), a.Rollouts+score.Rollouts
		if len(score.Graders) > 1 {
			a.warn("%s was graded by different rules (%s), which say different things", sys, strings.Join(score.Graders, ", "))
		}
	}
	if unplaced > 0 {
		a.Rollouts -= unplaced * int64(len(systems)-1)
		a.warn("%d rollouts have no row and nobody knows whose they were: each system is counted as if it had lost them all", unplaced)
	}
	if len(systems) > 1 {
		a.Matrix = matrix(a, tasks, o)
	}
	for i, before := range a.Systems {
		for _, after := range a.Systems[i+1:] {
			if len(a.Pairs) < mostPairs {
				a.Pairs = append(a.Pairs, compare(side{s, before}, side{s, after}, o))
			}
		}
	}
	return a
}

func (a *Analysis) warn(format string, args ...any) {
	a.Warnings = append(a.Warnings, fmt.Sprintf(format, args...))
}

func results(tasks []*task, systems []System) []Result {
	list := make([]Result, 0, len(tasks))
	for _, t := range tasks {
		r := Result{TaskID: t.id, Repo: t.repo, Systems: []TaskResult{}}
		for _, sys := range systems {
			if c := t.of[sys]; c != nil {
				r.Systems = append(r.Systems, TaskResult{sys, c.Planned, c.Known, c.Resolved, append([]Rollout{}, c.rollouts...)})
			}
		}
		list = append(list, r)
	}
	return list
}

func score(s *Set, sys System, tasks []*task, unplaced int64, o Options) Score {
	t := s.systems[sys]
	out := Score{System: sys, Rollouts: unplaced, Pass: []Pass{}, Graders: append([]string{}, slices.Sorted(maps.Keys(t.graders))...)}
	var cells []*cell
	var most int64
	for _, t := range tasks {
		c := t.of[sys]
		if c == nil || c.Planned == 0 {
			continue
		}
		cells = append(cells, c)
		out.Rollouts += c.Planned
		out.Known += c.Known
		out.Resolved += c.Resolved
		most = max(most, c.Planned)
	}
	out.Tasks, out.Unknown = int64(len(cells)), out.Rollouts-out.Known
	if out.Rollouts > 0 {
		out.Share = float64(out.Unknown) / float64(out.Rollouts)
	}
	out.Bounds = stats.Bounds(out.Resolved, out.Known, out.Rollouts)
	out.Withheld = withheld(out, o)
	if out.Withheld == "" {
		out.Headline = headline(sys, out, tasks, o)
	}
	for _, k := range ks(o.Ks, most) {
		p := pass(cells, k, out.Withheld == "", o)
		if unplaced > 0 { // any task may have lost some
			p.AtBounds, p.AllBounds = nil, nil
		}
		out.Pass = append(out.Pass, p)
	}
	outcomes := maps.Clone(t.outcomes)
	var rows int64
	for _, n := range outcomes {
		rows += n
	}
	if n := out.Rollouts - rows; n > 0 {
		outcomes[NotFinished] = n
	}
	out.Outcomes, out.Exits = counts(outcomes), exits(t.exits)
	return out
}

// withheld is why a system has no headline.
func withheld(s Score, o Options) string {
	switch {
	case s.Rollouts == 0:
		return "there are no rollouts"
	case s.Known == 0:
		return "no rollout has a reward"
	case s.Share > o.MaxUnknown:
		return fmt.Sprintf("%s of the rollouts have no reward, and at most %s may be so", Percent(s.Share), Percent(o.MaxUnknown))
	case len(s.Graders) > 1:
		return "the rollouts were graded by different rules"
	}
	return ""
}

func headline(sys System, s Score, tasks []*task, o Options) *Headline {
	h := &Headline{Rate: float64(s.Resolved) / float64(s.Known), Wilson: stats.Wilson(s.Resolved, s.Known)}
	var each []stats.Cluster
	repos := map[string]stats.Cluster{}
	for _, t := range tasks {
		if c := t.of[sys]; c != nil {
			one := stats.Cluster{Sum: float64(c.Resolved), Weight: float64(c.Known)}
			each = append(each, one)
			r := repos[t.repo]
			repos[t.repo] = stats.Cluster{Sum: r.Sum + one.Sum, Weight: r.Weight + one.Weight}
		}
	}
	h.Tasks = spread(each, o)
	var whole []stats.Cluster
	for _, r := range slices.Sorted(maps.Keys(repos)) {
		whole = append(whole, repos[r])
	}
	h.Repos = spread(whole, o)
	return h
}

func spread(c []stats.Cluster, o Options) *stats.Spread {
	s, ok := stats.Bootstrap(c, o.Resamples, o.Seed)
	if !ok {
		return nil
	}
	return &s
}

func counts(of map[record.Outcome]int64) []Count {
	list := make([]Count, 0, len(of))
	for o, n := range of {
		list = append(list, Count{o, n, o.Reward()})
	}
	slices.SortFunc(list, func(a, b Count) int { return CompareOutcomes(a.Outcome, b.Outcome) })
	return list
}

func exits(of map[string]map[record.Outcome]int64) []Exit {
	list := make([]Exit, 0, len(of))
	for status, outcomes := range of {
		e := Exit{Status: status, Outcomes: counts(outcomes)}
		for _, c := range e.Outcomes {
			e.Rollouts += c.Rollouts
		}
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b Exit) int {
		return cmp.Or(cmp.Compare(b.Rollouts, a.Rollouts), cmp.Compare(a.Status, b.Status))
	})
	return list
}

// CompareOutcomes is the order of record.Outcomes; one that is not among them, of a newer
// dataset, comes last.
func CompareOutcomes(a, b record.Outcome) int {
	place := func(o record.Outcome) int {
		if i := slices.Index(record.Outcomes, o); i >= 0 {
			return i
		}
		return len(record.Outcomes)
	}
	return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a, b))
}
