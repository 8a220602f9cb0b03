package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"orchard/datasets/record"
)

// Summary is the numbers of a report. Add rollouts in any order; the same rollouts
// give the same summary.
type Summary struct {
	TasksIn  int64 // of the task dataset; 0 when it was not given
	SFTRows  int64 // of the SFT dataset; -1 when it was not given
	Missing  int64 // rollouts that the version dropped because we could not find out
	Rollouts int64
	Known    int64 // rollouts with a reward
	Resolved int64 // of Known
	Outcomes map[record.Outcome]int64
	Exits    map[string]int64 // trajectory exit statuses
	Steps    []measure        // of each rollout
	Tokens   []measure        // of each rollout whose server counted
	Usage    record.Usage

	tasks  map[string]*record.TaskReport
	groups map[string]map[string]*rate // by dimension and value
}

// measure is a number of one rollout.
type measure struct {
	value   int64
	outcome record.Outcome
}

// rate is how many of the rollouts that have a reward are resolved.
type rate struct{ rollouts, known, resolved int64 }

// dimensions is what rollouts are grouped by, in the order of the page.
var dimensions = []string{"policy", "harness", "source", "language"}

// NewSummary is an empty summary.
func NewSummary() *Summary {
	s := &Summary{
		SFTRows: -1, Outcomes: map[record.Outcome]int64{}, Exits: map[string]int64{},
		tasks: map[string]*record.TaskReport{}, groups: map[string]map[string]*rate{},
	}
	for _, d := range dimensions {
		s.groups[d] = map[string]*rate{}
	}
	return s
}

// Add counts one rollout.
func (s *Summary) Add(r record.Rollout) {
	var known, resolved int64
	if r.Verdict.Reward != nil {
		known = 1
		if r.Verdict.Outcome == record.Resolved {
			resolved = 1
		}
	}
	steps := int64(len(r.Trajectory.Steps))
	s.Rollouts++
	s.Known += known
	s.Resolved += resolved
	s.Outcomes[r.Verdict.Outcome]++
	s.Exits[r.Trajectory.ExitStatus]++
	s.Steps = append(s.Steps, measure{steps, r.Verdict.Outcome})
	s.Usage = s.Usage.Add(r.Usage)
	for i, value := range []string{r.Policy, r.Harness, r.Source, r.Language} {
		g := s.groups[dimensions[i]]
		if g[value] == nil {
			g[value] = &rate{}
		}
		g[value].rollouts++
		g[value].known += known
		g[value].resolved += resolved
	}

	t := s.tasks[r.TaskID]
	if t == nil {
		t = &record.TaskReport{TaskID: r.TaskID, Source: r.Source, Repo: r.Repo, Language: r.Language}
		s.tasks[r.TaskID] = t
	}
	t.Rollouts++
	t.Known += known
	t.Resolved += resolved
	t.Outcomes = count(t.Outcomes, r.Verdict.Outcome)
	t.Steps += steps
	t.TotalMS += max(0, r.Span.Ended.Sub(r.Span.Started).Milliseconds())
	if n := tokens(r.Usage); n != nil {
		s.Tokens = append(s.Tokens, measure{*n, r.Verdict.Outcome})
	}
	t.Tokens = record.Sum(t.Tokens, tokens(r.Usage))
	t.CostUSD = record.Sum(t.CostUSD, r.Usage.CostUSD)
}

// tokens is prompt and completion together; nil when the server did not count both.
func tokens(u record.Usage) *int64 {
	if u.PromptTokens == nil || u.CompletionTokens == nil {
		return nil
	}
	return record.Sum(u.PromptTokens, u.CompletionTokens)
}

func count(list []record.OutcomeCount, o record.Outcome) []record.OutcomeCount {
	for i := range list {
		if list[i].Outcome == o {
			list[i].Count++
			return list
		}
	}
	list = append(list, record.OutcomeCount{Outcome: o, Count: 1})
	slices.SortFunc(list, func(a, b record.OutcomeCount) int { return byOutcome(a.Outcome, b.Outcome) })
	return list
}

// byOutcome is the order of record.Outcomes; one that is not among them, of a newer
// dataset, comes last.
func byOutcome(a, b record.Outcome) int {
	place := func(o record.Outcome) int {
		if i := slices.Index(record.Outcomes, o); i >= 0 {
			return i
		}
		return len(record.Outcomes)
	}
	return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a, b))
}

// occurred is the outcomes that there are, in the order of reports.
func (s *Summary) occurred() []record.Outcome {
	return slices.SortedFunc(maps.Keys(s.Outcomes), byOutcome)
}

// Tasks are the rows of the report, by task id.
func (s *Summary) Tasks() []record.TaskReport {
	rows := make([]record.TaskReport, 0, len(s.tasks))
	for _, t := range s.tasks {
		rows = append(rows, *t)
	}
	slices.SortFunc(rows, func(a, b record.TaskReport) int { return cmp.Compare(a.TaskID, b.TaskID) })
	return rows
}

// split is how many tasks are resolved by all of their rollouts that have a reward, by
// some, by none, and how many have no such rollout.
func (s *Summary) split() (always, sometimes, never, unknown int64) {
	for _, t := range s.tasks {
		switch {
		case t.Known == 0:
			unknown++
		case t.Resolved == t.Known:
			always++
		case t.Resolved > 0:
			sometimes++
		default:
			never++
		}
	}
	return always, sometimes, never, unknown
}

// Unknown is the share of all rollouts of which we could not find out what they are worth.
func (s *Summary) Unknown() float64 {
	if all := s.Rollouts + s.Missing; all > 0 {
		return float64(all-s.Known) / float64(all)
	}
	return 0
}

// wilson is the 95 % score interval of k of n (Wilson 1927): it stays inside [0, 1]
// and says something even for 0 of n.
func wilson(k, n int64) (lo, hi float64) {
	if n == 0 {
		return 0, 1
	}
	const z = 1.959963984540054
	p, m := float64(k)/float64(n), float64(n)
	centre := (p + z*z/(2*m)) / (1 + z*z/m)
	half := z * math.Sqrt(p*(1-p)/m+z*z/(4*m*m)) / (1 + z*z/m)
	return math.Max(0, centre-half), math.Min(1, centre+half)
}

// Headline is the resolve rate in a sentence, with a warning where much is unknown.
func (s *Summary) Headline() string {
	if s.Rollouts == 0 {
		return "no rollouts"
	}
	if s.Known == 0 {
		return "no rollout has a reward"
	}
	lo, hi := wilson(s.Resolved, s.Known)
	text := fmt.Sprintf("%d of %d rollouts resolved: %.1f %% (95 %% interval %.1f to %.1f)",
		s.Resolved, s.Known, 100*float64(s.Resolved)/float64(s.Known), 100*lo, 100*hi)
	if u := s.Unknown(); u > 0.02 {
		text += fmt.Sprintf("; beware: %.1f %% of all rollouts have no reward", 100*u)
	}
	return text
}
