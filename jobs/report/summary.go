package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"orchard/datasets/record"
)

// Summary is the numbers of a report. Add rollouts in any order; the same rollouts
// give the same summary.
type Summary struct {
	TasksIn  int64 // of the task dataset; 0 when it was not given
	SFTRows  int64 // of the SFT dataset; -1 when it was not given
	Rollouts int64
	Missing  int64 // rollouts that the version dropped because we could not find out
	Outcomes map[record.Outcome]int64
	Exits    map[string]int64 // trajectory exit statuses
	Policies map[string]bool
	Harness  map[string]bool
	Steps    []int64 // of each rollout
	Tokens   []int64 // of each rollout whose server counted
	Usage    record.Usage

	tasks map[string]*record.TaskReport
}

// NewSummary is an empty summary.
func NewSummary() *Summary {
	return &Summary{
		SFTRows: -1, Outcomes: map[record.Outcome]int64{}, Exits: map[string]int64{},
		Policies: map[string]bool{}, Harness: map[string]bool{}, tasks: map[string]*record.TaskReport{},
	}
}

// Add counts one rollout.
func (s *Summary) Add(r record.Rollout) {
	s.Rollouts++
	s.Outcomes[r.Verdict.Outcome]++
	s.Exits[r.Trajectory.ExitStatus]++
	s.Policies[r.Policy] = true
	s.Harness[r.Harness] = true
	s.Steps = append(s.Steps, int64(len(r.Trajectory.Steps)))
	s.Usage = s.Usage.Add(r.Usage)

	t := s.tasks[r.TaskID]
	if t == nil {
		t = &record.TaskReport{TaskID: r.TaskID, Source: r.Source, Repo: r.Repo, Language: r.Language}
		s.tasks[r.TaskID] = t
	}
	t.Rollouts++
	if r.Verdict.Reward != nil {
		t.Known++
	}
	if r.Verdict.Outcome == record.Resolved {
		t.Resolved++
	}
	t.Outcomes = count(t.Outcomes, r.Verdict.Outcome)
	t.Steps += int64(len(r.Trajectory.Steps))
	t.TotalMS += r.Span.Ended.Sub(r.Span.Started).Milliseconds()
	if p, c := r.Usage.PromptTokens, r.Usage.CompletionTokens; p != nil && c != nil {
		s.Tokens = append(s.Tokens, *p+*c)
		n := *p + *c
		if t.Tokens != nil {
			n += *t.Tokens
		}
		t.Tokens = &n
	}
	if r.Usage.CostUSD != nil {
		usd := *r.Usage.CostUSD
		if t.CostUSD != nil {
			usd += *t.CostUSD
		}
		t.CostUSD = &usd
	}
}

func count(list []record.OutcomeCount, o record.Outcome) []record.OutcomeCount {
	for i := range list {
		if list[i].Outcome == o {
			list[i].Count++
			return list
		}
	}
	list = append(list, record.OutcomeCount{Outcome: o, Count: 1})
	slices.SortFunc(list, func(a, b record.OutcomeCount) int {
		return cmp.Compare(slices.Index(record.Outcomes, a.Outcome), slices.Index(record.Outcomes, b.Outcome))
	})
	return list
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

// Known is how many rollouts have a reward, Resolved how many of them have 1.
func (s *Summary) Known() (known, resolved int64) {
	for o, n := range s.Outcomes {
		if o.Reward() != nil {
			known += n
		}
	}
	return known, s.Outcomes[record.Resolved]
}

// SolvedTasks is how many tasks have a resolved rollout.
func (s *Summary) SolvedTasks() (n int) {
	for _, t := range s.tasks {
		if t.Resolved > 0 {
			n++
		}
	}
	return n
}

// Unknown is the share of all rollouts of which we could not find out what they are worth.
func (s *Summary) Unknown() float64 {
	known, _ := s.Known()
	if all := s.Rollouts + s.Missing; all > 0 {
		return float64(all-known) / float64(all)
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

// Headline is the resolve rate in a sentence; it is not given where too much is unknown.
func (s *Summary) Headline() string {
	known, resolved := s.Known()
	if known == 0 {
		return "no rollout has a reward"
	}
	lo, hi := wilson(resolved, known)
	text := fmt.Sprintf("%d of %d rollouts resolved: %.1f %% (95 %% interval %.1f to %.1f)",
		resolved, known, 100*float64(resolved)/float64(known), 100*lo, 100*hi)
	if u := s.Unknown(); u > 0.02 {
		text += fmt.Sprintf("; beware: %.1f %% of all rollouts have no reward", 100*u)
	}
	return text
}

// WriteTable writes the funnel and the outcomes for a terminal.
func (s *Summary) WriteTable(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	if s.TasksIn > 0 {
		fmt.Fprintf(tw, "tasks\t%d\t\n", s.TasksIn)
	}
	fmt.Fprintf(tw, "rollouts\t%d\t%d tasks, %d solved at least once\n", s.Rollouts, len(s.tasks), s.SolvedTasks())
	for _, o := range record.Outcomes {
		if n := s.Outcomes[o]; n > 0 {
			fmt.Fprintf(tw, "  %s\t%d\t%s\n", o, n, reward(o))
		}
	}
	if s.Missing > 0 {
		fmt.Fprintf(tw, "  (not finished)\t%d\tno reward, left out of the version\n", s.Missing)
	}
	if s.SFTRows >= 0 {
		fmt.Fprintf(tw, "SFT rows\t%d\t\n", s.SFTRows)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%s; policy %s, harness %s\n", s.Headline(), names(s.Policies), names(s.Harness))
	return err
}

func reward(o record.Outcome) string {
	if r := o.Reward(); r != nil {
		return fmt.Sprintf("reward %g", *r)
	}
	return "no reward"
}

func names(set map[string]bool) string {
	var list []string
	for n := range set {
		list = append(list, n)
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}
