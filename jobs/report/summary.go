package report

import (
	"cmp"
	"maps"
	"slices"

	"orchard/datasets/record"
	"orchard/internal/evaluation"
	"orchard/internal/stats"
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

	Options  evaluation.Options // of Analysis
	set      *evaluation.Set
	analysis *evaluation.Analysis
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
		tasks: map[string]*record.TaskReport{}, groups: map[string]map[string]*rate{}, set: evaluation.NewSet(),
		Options: evaluation.Options{MaxUnknown: .02, Resamples: stats.Resamples},
	}
	for _, d := range dimensions {
		s.groups[d] = map[string]*rate{}
	}
	return s
}

// Add counts one rollout.
func (s *Summary) Add(r record.Rollout) {
	s.set.Add(r)
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
	slices.SortFunc(list, func(a, b record.OutcomeCount) int { return evaluation.CompareOutcomes(a.Outcome, b.Outcome) })
	return list
}

// occurred is the outcomes that there are, in the order of reports.
func (s *Summary) occurred() []record.Outcome {
	return slices.SortedFunc(maps.Keys(s.Outcomes), evaluation.CompareOutcomes)
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
