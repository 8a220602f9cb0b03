package evaluation

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"orchard/datasets"
	"orchard/datasets/record"
)

// columns is what Add looks at; trajectories may be megabytes each.
var columns = datasets.WithColumns("rollout_id", "task_id", "repo", "policy", "harness", "index",
	"trajectory.exit_status", "verdict.outcome", "verdict.reward", "verdict.grader")

// Read adds the rollouts of a dataset.
func (s *Set) Read(ctx context.Context, v *datasets.Version) error {
	for row, err := range datasets.Rows[record.Rollout](ctx, v, columns) {
		if err != nil {
			return err
		}
		s.Add(row)
	}
	return nil
}

// LoseDropped counts the rollouts that a version has no row for, since nobody could find
// out how they end or their task could not be played.
func (s *Set) LoseDropped(v *datasets.Version) {
	for _, reason := range []record.Outcome{record.InfraError, record.TaskInvalid} {
		s.Lose(v.Manifest().Dropped[string(reason)])
	}
}

// File is one of the files in which an analysis is for people and programs.
type File struct {
	Name    string
	Content []byte
}

// Files are evaluation.json, evaluation.md and, for a terminal, evaluation.txt.
func (a *Analysis) Files(title string) ([]File, error) {
	b, err := json.MarshalIndent(a, "", " ")
	if err != nil {
		return nil, err
	}
	var page bytes.Buffer
	if err := a.WriteMarkdown(&page, title); err != nil {
		return nil, err
	}
	return []File{{"evaluation.json", append(b, '\n')}, {"evaluation.md", page.Bytes()}, {"evaluation.txt", []byte(a.Text())}}, nil
}

// Text is the analysis in a few lines.
func (a *Analysis) Text() string {
	var b strings.Builder
	for _, s := range a.Systems {
		fmt.Fprintf(&b, "%s: %s\n", printable(s.String()), s.Sentence())
	}
	if len(a.Systems) == 0 {
		b.WriteString("no rollouts\n")
	}
	for _, w := range a.Warnings {
		fmt.Fprintf(&b, "beware: %s\n", printable(w))
	}
	if a.Baseline != nil {
		for _, c := range a.Baseline.Changes {
			fmt.Fprintf(&b, "%s since %s: %s\n", printable(c.After.String()), printable(a.Baseline.URI), c.Sentence())
		}
	}
	return b.String()
}

// printable keeps what a row says from steering a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// Rows are the systems as rows, without ids.
func (a *Analysis) Rows() []record.Evaluation {
	list := make([]record.Evaluation, 0, len(a.Systems))
	for _, s := range a.Systems {
		r := record.Evaluation{Policy: s.Policy, Harness: s.Harness, Tasks: s.Tasks, Rollouts: s.Rollouts, Known: s.Known, Resolved: s.Resolved,
			Withheld: s.Withheld, Worst: s.Bounds.Lo, Best: s.Bounds.Hi, Pass: []record.PassAt{}}
		if s.Headline != nil {
			i, name := s.Interval()
			r.Rate, r.Low, r.High, r.Interval = &s.Headline.Rate, &i.Lo, &i.Hi, name
		}
		for _, p := range s.Pass {
			r.Pass = append(r.Pass, record.PassAt{K: p.K, At: p.At, All: p.All})
		}
		if a.Baseline != nil {
			r.Baseline = a.Baseline.URI
			for _, c := range a.Baseline.Changes {
				if c.After == s.System {
					better, worse := int64(len(c.NewlyResolved)), int64(len(c.NewlyFailed))
					r.Common, r.NewlyResolved, r.NewlyFailed, r.McNemarP = &c.Common, &better, &worse, c.P
					if c.Difference != nil {
						r.Difference = &c.Difference.Mean
					}
				}
			}
		}
		list = append(list, r)
	}
	return list
}
