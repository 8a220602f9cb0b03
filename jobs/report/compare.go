package report

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/evaluation"
	"orchard/internal/exit"
	"orchard/internal/runner"
)

// What the page has at most: beyond it the first and a word, and all in report.json.
const (
	mostHeadlines = 4
	mostSquares   = 12_000
	mostChanged   = 200
)

// Analysis is what the rollouts say of the systems that made them.
func (s *Summary) Analysis() *evaluation.Analysis {
	if s.analysis == nil {
		s.set.Lose(s.Missing)
		s.analysis = evaluation.Analyze(s.set, s.Options)
	}
	return s.analysis
}

// since compares with an earlier run.
func (s *Summary) since(ctx context.Context, v *datasets.Version) error {
	if err := runner.Want(v, "baseline", "rollout", "evaluate"); err != nil {
		return err
	}
	before := evaluation.NewSet()
	before.LoseDropped(v)
	if err := before.Read(ctx, v); err != nil {
		return err
	}
	if err := s.Analysis().Compare(s.set, before, v.Location().String(), s.Options); err != nil {
		return exit.Inputf("--baseline: %w", err)
	}
	return nil
}

// headlines is the resolve rate in a sentence for each system.
func headlines(a *evaluation.Analysis) []string {
	switch len(a.Systems) {
	case 0:
		return []string{"no rollouts"}
	case 1:
		return []string{a.Systems[0].Sentence()}
	}
	var list []string
	for _, s := range a.Systems[:min(len(a.Systems), mostHeadlines)] {
		list = append(list, printable(s.String())+": "+s.Short())
	}
	if n := len(a.Systems) - mostHeadlines; n > 0 {
		list = append(list, fmt.Sprintf("and %d more below", n))
	}
	return list
}

// comparison is the part of the page that is about systems.
type comparison struct {
	*evaluation.Analysis
	Rates   []bar
	Exits   []exitRow
	Columns []record.Outcome // of Exits
	Grid    []gridRow
	GridAll int // how many tasks there are when not all are shown, else 0
}

func compared(a *evaluation.Analysis) comparison {
	c := comparison{Analysis: a}
	for _, s := range a.Systems {
		b := bar{Label: s.String(), Class: "good", Text: "no headline: " + evaluation.Range(s.Bounds) + " at worst and best", Lo: 100 * s.Bounds.Lo, Hi: 100 * s.Bounds.Hi}
		if s.Headline != nil {
			i, _ := s.Interval()
			b.Length, b.Lo, b.Hi = 100*s.Headline.Rate, 100*i.Lo, 100*i.Hi
			b.Text = fmt.Sprintf("%s %% (%s)", evaluation.Points(s.Headline.Rate), evaluation.Range(i))
		}
		c.Rates = append(c.Rates, b)
		for _, e := range s.Exits {
			for _, o := range e.Outcomes {
				if !slices.Contains(c.Columns, o.Outcome) {
					c.Columns = append(c.Columns, o.Outcome)
				}
			}
		}
	}
	slices.SortFunc(c.Columns, evaluation.CompareOutcomes)
	for _, s := range a.Systems {
		for _, e := range s.Exits {
			row := exitRow{System: s.String(), Status: cmp.Or(e.Status, "(not played)"), Rollouts: e.Rollouts}
			for _, o := range c.Columns {
				row.Counts = append(row.Counts, e.Of(o))
			}
			c.Exits = append(c.Exits, row)
		}
	}
	c.Grid = grid(a)
	c.GridAll = beyond(len(a.Results), len(c.Grid))
	return c
}

// exitRow is a line of the table of exit statuses.
type exitRow struct {
	System, Status string
	Rollouts       int64
	Counts         []int64 // by the table's columns
}

// gridRow is a task with a square for each of its rollouts, by system.
type gridRow struct {
	Task  string
	Cells []gridCell
}

type gridCell struct {
	Tried   bool
	Squares []square
	Missing int64 // rollouts without a row
}

type square struct {
	ID      string
	Outcome record.Outcome
}

// grid is the tasks from the first on, for as many as the page has room.
func grid(a *evaluation.Analysis) []gridRow {
	var list []gridRow
	squares := 0
	for _, r := range a.Results {
		row := gridRow{Task: r.TaskID}
		for _, s := range a.Systems {
			var cell gridCell
			i := slices.IndexFunc(r.Systems, func(t evaluation.TaskResult) bool { return t.System == s.System })
			if i >= 0 {
				cell = gridCell{Tried: true, Missing: r.Systems[i].Planned - int64(len(r.Systems[i].Rollouts))}
				for _, one := range r.Systems[i].Rollouts {
					cell.Squares = append(cell.Squares, square{one.ID, one.Outcome})
				}
			}
			squares += len(cell.Squares)
			row.Cells = append(row.Cells, cell)
		}
		if len(list) > 0 && squares > mostSquares || len(list) == mostTaskRows {
			break
		}
		list = append(list, row)
	}
	return list
}

// changed is the first of many task ids, and how many there are beyond them.
func changed(ids []string) []string { return ids[:min(len(ids), mostChanged)] }

// matrixCell is a cell of the matrix, shorter than in the text.
func matrixCell(m *evaluation.Matrix, policy, harness string) string {
	return strings.ReplaceAll(m.Cell(policy, harness).Text(), "no headline; all its rollouts ", "no headline: ")
}
