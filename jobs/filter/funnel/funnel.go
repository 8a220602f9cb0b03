// Package funnel is the table and the picture of what a stage left out: how many rows came
// in, how many each rule removed, in order, and how many are left. Its arithmetic is
// checked before anything is shown. It knows no rows and no rules.
package funnel

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Funnel is the counts of one pass.
type Funnel struct {
	Title string  `json:"title"`
	In    int64   `json:"in"`
	Out   int64   `json:"out"`
	Steps []*Step `json:"steps"`
}

// Step is one rule.
type Step struct {
	Name    string           `json:"name"`
	Why     string           `json:"why"`
	In      int64            `json:"in"`
	Removed map[string]int64 `json:"removed"` // by reason; most rules have one, their name
	Unknown int64            `json:"unknown"` // rows of which the rule did not know, removed or not
	Out     int64            `json:"out"`
}

// Sum is how many rows the step removed.
func (s *Step) Sum() int64 {
	n := int64(0)
	for _, r := range s.Removed {
		n += r
	}
	return n
}

// New is a funnel without steps.
func New(title string) *Funnel { return &Funnel{Title: title, Steps: []*Step{}} }

// Add appends a step and returns it, for counting.
func (f *Funnel) Add(name, why string) *Step {
	s := &Step{Name: name, Why: why, Removed: map[string]int64{}}
	f.Steps = append(f.Steps, s)
	return s
}

// Pass counts a row that came through the step; Remove one that did not.
func (s *Step) Pass() { s.In++; s.Out++ }

// Remove counts a row that the step removed under a reason.
func (s *Step) Remove(reason string) { s.In++; s.Removed[reason]++ }

// Check asserts that every row that came in is out or removed, step by step.
func (f *Funnel) Check() error {
	left := f.In
	for _, s := range f.Steps {
		if s.In != left || s.Out != s.In-s.Sum() || s.Out < 0 {
			return fmt.Errorf("the funnel does not add up at %s: %d came to it and %d were counted there, of which %d were removed and %d passed", s.Name, left, s.In, s.Sum(), s.Out)
		}
		left = s.Out
	}
	if f.Out != left {
		return fmt.Errorf("the funnel does not add up: %d rows came through its steps and %d are out", left, f.Out)
	}
	return nil
}

// Markdown is the funnel as a table.
func (f *Funnel) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s rows in, %s out.\n\n", f.Title, Number(f.In), Number(f.Out))
	b.WriteString("| step | in | removed | of what came in | unknown | out | why |\n|---|---:|---:|---:|---:|---:|---|\n")
	for _, s := range f.Steps {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s | %s |\n", s.Name, Number(s.In), Number(s.Sum()), percent(s.Sum(), s.In), Number(s.Unknown), Number(s.Out), cell(s.Why))
		if names := slices.Sorted(maps.Keys(s.Removed)); len(names) > 1 || len(names) == 1 && names[0] != s.Name {
			for _, r := range names {
				fmt.Fprintf(&b, "| ↳ `%s` | | %s | %s | | | |\n", r, Number(s.Removed[r]), percent(s.Removed[r], s.In))
			}
		}
	}
	b.WriteString("\n`unknown` is the rows of which a rule asked for something that they do not have; what became of them is in the rule.\n")
	return b.String()
}

// cell is text for a cell of a Markdown table.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;").Replace(s)
}

// Number is 292092 as 292,092.
func Number(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func percent(n, of int64) string {
	if of == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f%%", 100*float64(n)/float64(of))
}
