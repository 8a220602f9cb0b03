package evaluation

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"orchard/datasets/record"
	"orchard/internal/stats"
)

// mostListed is how many task ids a list of the page has.
const mostListed = 50

// page collects Markdown.
type page struct{ strings.Builder }

func (p *page) say(format string, a ...any) { fmt.Fprintf(p, format+"\n", a...) }

func (p *page) head(columns ...string) {
	p.row(columns...)
	p.say("|%s", strings.Repeat("---|", len(columns)))
}

func (p *page) row(cells ...string) { p.say("| %s |", strings.Join(cells, " | ")) }

// plain keeps what a row says from being markup, and from turning round what is beside it.
func plain(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case !unicode.IsPrint(r):
			b.WriteRune(unicode.ReplacementChar)
		case strings.ContainsRune("\\`*[]<>#|&", r):
			fmt.Fprintf(&b, "&#%d;", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func (s System) plain() string { return plain(s.Policy) + " in " + plain(s.Harness) }

// WriteMarkdown writes the analysis for people: evaluation.md.
func (a *Analysis) WriteMarkdown(w io.Writer, title string) error {
	p := &page{}
	p.say("# %s\n", plain(title))
	for _, s := range a.Systems {
		p.say("- **%s**: %s", s.plain(), s.Sentence())
	}
	if len(a.Systems) == 0 {
		p.say("There are no rollouts.")
	}
	p.say("\n%d tasks of %d repositories, %d rollouts. A rollout whose worth could not be found out is in no rate. A system of whose rollouts more than %s are so has no headline.",
		a.Tasks, a.Repos, a.Rollouts, Percent(a.MaxUnknown))
	for _, warning := range a.Warnings {
		p.say("\n> %s", plain(warning))
	}
	if len(a.Systems) > 0 {
		p.rates(a)
		p.pass(a)
		p.matrix(a.Matrix)
		p.counts(a)
	}
	p.changes(a)
	_, err := io.WriteString(w, p.String())
	return err
}

func (p *page) rates(a *Analysis) {
	p.say("\n## Resolve rates\n")
	p.head("policy in harness", "tasks", "rollouts", "no reward", "resolved %", "Wilson", "bootstrap, tasks", "bootstrap, repositories", "worst to best")
	for _, s := range a.Systems {
		rate, wilson, tasks, repos := "no headline", "", "", ""
		if h := s.Headline; h != nil {
			rate, wilson, tasks, repos = Points(h.Rate), Range(h.Wilson), percentile(h.Tasks), percentile(h.Repos)
		}
		p.row(s.plain(), fmt.Sprint(s.Tasks), fmt.Sprint(s.Rollouts), fmt.Sprintf("%d (%s)", s.Unknown, Percent(s.Share)), rate, wilson, tasks, repos, Range(s.Bounds))
	}
	p.say("\nIntervals are 95 %%. Wilson takes rollouts for independent; the bootstrap draws whole tasks, or whole repositories, %d times with seed %d.", a.Resamples, a.Seed)
}

func percentile(s *stats.Spread) string {
	if s == nil {
		return "not defined"
	}
	return Range(s.Percentile)
}

func (p *page) pass(a *Analysis) {
	p.say("\n## pass@k and pass^k\n")
	p.head("policy in harness", "k", "pass@k %", "interval", "worst to best", "pass^k %", "interval", "worst to best", "tasks", "without a reward for k", "with fewer than k rollouts")
	for _, s := range a.Systems {
		for _, k := range s.Pass {
			p.row(s.plain(), fmt.Sprint(k.K), k.point(k.At, s), percentile(k.AtIn), bounds(k.AtBounds), k.point(k.All, s), percentile(k.AllIn), bounds(k.AllBounds),
				fmt.Sprint(k.Tasks), fmt.Sprint(k.Unknown), fmt.Sprint(k.Undefined))
		}
	}
	p.say("\nUnbiased means over the tasks that have k rollouts with a reward: pass@k is how likely one of k resolves the task, pass^k how likely all do. Worst and best are over all tasks that should have k rollouts.")
}

func (k Pass) point(v *float64, s Score) string {
	switch {
	case v != nil:
		return Points(*v)
	case s.Headline == nil:
		return "no headline"
	}
	return "not defined"
}

func bounds(i *stats.Interval) string {
	if i == nil {
		return "not defined"
	}
	return Range(*i)
}

func (p *page) matrix(m *Matrix) {
	if m == nil {
		return
	}
	p.say("\n## Policies and harnesses on the same tasks\n")
	columns := []string{"policy"}
	for _, h := range m.Harnesses {
		columns = append(columns, plain(h))
	}
	p.head(columns...)
	for _, policy := range m.Policies {
		row := []string{plain(policy)}
		for _, harness := range m.Harnesses {
			row = append(row, m.Cell(policy, harness).Text())
		}
		p.row(row...)
	}
	p.say("\nResolved in percent, as the mean over the %d of %d tasks that have a reward in every cell.", m.Common, m.All)
	for _, c := range m.Cells {
		if c.Lacks > 0 {
			p.say("%s has no reward for %d of the %d tasks.", c.plain(), c.Lacks, m.All)
		}
	}
}

// Text is the cell in a table.
func (c *Cell) Text() string {
	switch {
	case c == nil:
		return "not run"
	case c.Rate == nil:
		return fmt.Sprintf("no headline; all its rollouts %s", Range(c.Bounds))
	case c.Interval == nil:
		return Points(*c.Rate)
	}
	return fmt.Sprintf("%s (%s)", Points(*c.Rate), Range(*c.Interval))
}

func (p *page) counts(a *Analysis) {
	p.say("\n## Outcomes\n")
	p.head("policy in harness", "outcome", "reward", "rollouts")
	for _, s := range a.Systems {
		for _, c := range s.Outcomes {
			p.row(s.plain(), plain(string(c.Outcome)), reward(c.Reward), fmt.Sprint(c.Rollouts))
		}
	}
	p.say("\n## How trajectories ended\n")
	outcomes := a.occurred()
	columns := []string{"policy in harness", "exit status", "rollouts"}
	for _, o := range outcomes {
		columns = append(columns, plain(string(o)))
	}
	p.head(columns...)
	for _, s := range a.Systems {
		for _, e := range s.Exits {
			row := []string{s.plain(), plain(cmp.Or(e.Status, "(not played)")), fmt.Sprint(e.Rollouts)}
			for _, o := range outcomes {
				row = append(row, fmt.Sprint(e.Of(o)))
			}
			p.row(row...)
		}
	}
}

// Of is how many of the trajectories had an outcome.
func (e Exit) Of(o record.Outcome) int64 {
	for _, c := range e.Outcomes {
		if c.Outcome == o {
			return c.Rollouts
		}
	}
	return 0
}

// occurred is the outcomes of all rows.
func (a *Analysis) occurred() []record.Outcome {
	var list []record.Outcome
	for _, s := range a.Systems {
		for _, c := range s.Outcomes {
			if c.Outcome != NotFinished && !slices.Contains(list, c.Outcome) {
				list = append(list, c.Outcome)
			}
		}
	}
	slices.SortFunc(list, CompareOutcomes)
	return list
}

func reward(r *float64) string {
	if r == nil {
		return "none"
	}
	return fmt.Sprint(*r)
}

func (p *page) changes(a *Analysis) {
	if len(a.Pairs) > 0 {
		p.say("\n## Systems of this run against each other\n")
		for _, c := range a.Pairs {
			p.say("- %s: %s", plain(c.Systems()), c.Sentence())
		}
	}
	b := a.Baseline
	if b == nil {
		return
	}
	p.say("\n## What changed since %s\n", plain(b.URI))
	for _, c := range b.Changes {
		p.say("- %s: %s", plain(c.Systems()), c.Sentence())
		p.say("  - both resolved %d, neither %d; without a reward on a side %d; only before %d, only now %d", c.Both, c.Neither, c.Unknown, c.OnlyBefore, c.OnlyAfter)
		p.list("newly resolved", c.NewlyResolved)
		p.list("newly failed", c.NewlyFailed)
	}
	for _, s := range b.New {
		p.say("- %s is new", s.plain())
	}
	for _, s := range b.Gone {
		p.say("- %s is gone", s.plain())
	}
	p.say("\nA task is resolved when its first rollout, that of index 0, is. McNemar's test is exact and two-sided; the difference is over all rollouts of the common tasks.")
}

func (p *page) list(name string, ids []string) {
	if len(ids) == 0 {
		return
	}
	shown := make([]string, 0, mostListed)
	for _, id := range ids[:min(len(ids), mostListed)] {
		shown = append(shown, plain(id))
	}
	if n := len(ids) - len(shown); n > 0 {
		shown = append(shown, fmt.Sprintf("and %d more, all in evaluation.json", n))
	}
	p.say("  - %s: %s", name, strings.Join(shown, ", "))
}
