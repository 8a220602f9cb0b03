// Package stats counts what is in a version: outcomes, turns and tokens of tasks,
// rollouts and SFT rows by source, and of any other rows each column by itself. Memory
// does not grow with the rows.
package stats

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"orchard/datasets"
	"orchard/datasets/arrowio"
	"orchard/datasets/record"
)

// Stats is what was counted. All lists are in a stated order, so that equal versions
// give equal bytes as JSON.
type Stats struct {
	Dataset    string      `json:"dataset"`
	Version    string      `json:"version"`
	Kind       string      `json:"kind"`
	Rows       int64       `json:"rows"`
	Tables     []Table     `json:"tables"`
	Histograms []Histogram `json:"histograms"`
}

// Table is counts by one or two names, such as outcomes by source.
type Table struct {
	Name    string   `json:"name"`
	Columns []string `json:"columns"` // in a fixed order, or by count
	Rows    []Line   `json:"rows"`    // by count, the largest first
	// Other is how many values had no place any more, as there were too many names.
	Other int64 `json:"other"`
}

// Line is a row of a table.
type Line struct {
	Name   string  `json:"name"`
	Total  int64   `json:"total"`
	Counts []int64 `json:"counts"` // as Columns
}

// Of counts a version. It reads the columns that it needs.
func Of(ctx context.Context, v *datasets.Version) (Stats, error) {
	m := v.Manifest()
	s := Stats{Dataset: v.Location().Name, Version: v.Digest(), Kind: m.Schema.Name, Tables: []Table{}, Histograms: []Histogram{}}
	var err error
	switch {
	case knows[record.Rollout](m.Schema):
		err = s.rollouts(ctx, v)
	case knows[record.Task](m.Schema):
		err = s.tasks(ctx, v)
	case knows[record.SFTRow](m.Schema):
		err = s.sft(ctx, v)
	default:
		err = s.any(ctx, v)
	}
	return s, err
}

// knows says whether rows of a schema can be read as R.
func knows[R record.Row](s arrowio.Schema) bool {
	var row R
	name, version := row.Schema()
	return s.Name == name && s.Version == version
}

func (s *Stats) rollouts(ctx context.Context, v *datasets.Version) error {
	outcomes := newCounter("outcomes by source")
	for _, o := range record.Outcomes {
		outcomes.column(string(o))
	}
	policies, ends := newCounter("outcomes by policy"), newCounter("ends by harness")
	policies.columns, policies.index = slices.Clone(outcomes.columns), maps.Clone(outcomes.index)
	turns, tokens := Histogram{Name: "turns"}, Histogram{Name: "tokens"}
	for r, err := range datasets.Rows[record.Rollout](ctx, v, datasets.WithColumns("rollout_id", "source", "policy", "harness", "verdict.outcome",
		"trajectory.exit_status", "trajectory.steps.finish_reason", "usage.prompt_tokens", "usage.completion_tokens")) {
		if err != nil {
			return err
		}
		s.Rows++
		outcomes.add(r.Source, string(r.Verdict.Outcome))
		policies.add(r.Policy, string(r.Verdict.Outcome))
		ends.add(r.Harness, r.Trajectory.ExitStatus)
		turns.add(int64(len(r.Trajectory.Steps)))
		tokens.maybe(record.Sum(r.Usage.PromptTokens, r.Usage.CompletionTokens))
	}
	s.Tables = []Table{outcomes.table(), policies.table(), ends.table()}
	s.Histograms = []Histogram{turns, tokens}
	return nil
}

func (s *Stats) tasks(ctx context.Context, v *datasets.Version) error {
	languages, repos := newCounter("languages by source"), newCounter("repositories")
	statement, patch, tests := Histogram{Name: "bytes of the statement"}, Histogram{Name: "bytes of the gold patch"}, Histogram{Name: "tests to mend"}
	for t, err := range datasets.Rows[record.Task](ctx, v, datasets.WithColumns("task_id", "source", "repo", "language", "problem_statement",
		"gold_patch.bytes", "fail_to_pass")) {
		if err != nil {
			return err
		}
		s.Rows++
		languages.add(t.Source, t.Language)
		repos.add(t.Repo, "tasks")
		statement.add(int64(len(t.Statement)))
		patch.add(t.GoldPatch.Bytes)
		tests.add(int64(len(t.FailToPass)))
	}
	s.Tables = []Table{languages.table(), repos.table()}
	s.Histograms = []Histogram{statement, patch, tests}
	return nil
}

func (s *Stats) sft(ctx context.Context, v *datasets.Version) error {
	outcomes, teachers := newCounter("outcomes by source"), newCounter("harnesses by teacher")
	turns, trained, tokens := Histogram{Name: "turns"}, Histogram{Name: "trained messages"}, Histogram{Name: "tokens"}
	for r, err := range datasets.Rows[record.SFTRow](ctx, v, datasets.WithColumns("id", "harness", "teacher", "resolved", "metadata", "messages.role", "messages.loss_mask", "n_tokens")) {
		if err != nil {
			return err
		}
		s.Rows++
		outcomes.add(sourceOf(r.Metadata), resolved(r.Resolved))
		teachers.add(r.Teacher, r.Harness)
		var answers, masked int64
		for _, m := range r.Messages {
			if m.Role == "assistant" {
				answers++
			}
			masked += int64(m.LossMask)
		}
		turns.add(answers)
		trained.add(masked)
		tokens.maybe(r.NTokens)
	}
	s.Tables = []Table{outcomes.table(), teachers.table()}
	s.Histograms = []Histogram{turns, trained, tokens}
	return nil
}

func resolved(yes bool) string {
	if yes {
		return string(record.Resolved)
	}
	return "not resolved"
}

// mostNames is how many names a table has at most; most says more than any reader wants.
const mostNames = 1000

// counter makes a table.
type counter struct {
	name    string
	columns []string
	index   map[string]int
	lines   map[string][]int64
	other   int64
}

func newCounter(name string) *counter {
	return &counter{name: name, index: map[string]int{}, lines: map[string][]int64{}}
}

func (c *counter) column(name string) (int, bool) {
	i, ok := c.index[name]
	if !ok && len(c.columns) < mostNames {
		i, ok = len(c.columns), true
		c.index[name] = i
		c.columns = append(c.columns, name)
	}
	return i, ok
}

func (c *counter) add(line, column string) {
	counts, ok := c.lines[line]
	if !ok && len(c.lines) >= mostNames {
		c.other++
		return
	}
	i, ok := c.column(column)
	if !ok {
		c.other++
		return
	}
	for len(counts) <= i {
		counts = append(counts, 0)
	}
	counts[i]++
	c.lines[line] = counts
}

// table leaves out the columns that are empty.
func (c *counter) table() Table {
	totals := make([]int64, len(c.columns))
	for _, counts := range c.lines {
		for i, n := range counts {
			totals[i] += n
		}
	}
	t := Table{Name: c.name, Columns: []string{}, Rows: []Line{}, Other: c.other}
	var used []int
	for i, n := range totals {
		if n > 0 {
			used = append(used, i)
			t.Columns = append(t.Columns, c.columns[i])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.lines)) {
		counts := c.lines[name]
		l := Line{Name: name, Counts: make([]int64, len(used))}
		for j, i := range used {
			if i < len(counts) {
				l.Counts[j] = counts[i]
				l.Total += counts[i]
			}
		}
		t.Rows = append(t.Rows, l)
	}
	slices.SortStableFunc(t.Rows, func(a, b Line) int { return cmp.Compare(b.Total, a.Total) })
	return t
}
