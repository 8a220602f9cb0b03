// Package columns is what an expression sees of a row: one name for each thing to know
// about a task or a rollout, whatever the file called it that the row came from.
//
// `orchard import --filter` and the rules of `orchard filter` use the same names. The
// package holds no expression language; it never reads a store.
package columns

import (
	"encoding/json"
	"reflect"
	"time"

	"orchard/datasets/record"
)

// Columns is a row for expressions. What a row does not have is empty. Embed it to add
// names.
type Columns struct {
	TaskID      string    `expr:"task_id"`
	InstanceID  string    `expr:"instance_id"`
	Source      string    `expr:"source"`
	Repo        string    `expr:"repo"`
	Language    string    `expr:"language"`
	Version     string    `expr:"version"`
	CreatedAt   time.Time `expr:"created_at"` // the year 1 when the row has none
	BaseCommit  string    `expr:"base_commit"`
	Statement   string    `expr:"problem_statement"`
	Hints       string    `expr:"hints_text"`
	Patch       string    `expr:"patch"`
	TestPatch   string    `expr:"test_patch"`
	FailToPass  []string  `expr:"fail_to_pass"`
	PassToPass  []string  `expr:"pass_to_pass"`
	PreCommands []string  `expr:"pre_commands"`
	TestCmds    []string  `expr:"test_cmds"`
	LogParser   string    `expr:"log_parser"`
	Image       string    `expr:"image"`
	Workdir     string    `expr:"workdir"`
	TimeoutMS   int64     `expr:"timeout_ms"`
	Kind        string    `expr:"kind"` // of a task's goal; "tests" for one that tests decide, "rollout"
	StartURL    string    `expr:"start_url"`
	Website     string    `expr:"website"` // of a web task, as its source calls it
	Answer      string    `expr:"answer"`
	ParentID    string    `expr:"parent_id"`
	Policy      string    `expr:"policy"`
	Harness     string    `expr:"harness"`
	Outcome     string    `expr:"outcome"`
	ExitStatus  string    `expr:"exit_status"`
	Steps       int       `expr:"steps"`
	Tools       string    `expr:"tools"`
}

// Task is what an expression sees of a task.
func Task(t *record.Task) Columns {
	c := Columns{
		TaskID: t.TaskID, InstanceID: t.TaskID, Source: t.Source, Repo: t.Repo, Language: t.Language, Version: t.Version,
		BaseCommit: t.BaseCommit, Statement: t.Statement, Hints: t.Hints, Patch: t.GoldPatch.Value, TestPatch: t.TestPatch.Value,
		FailToPass: t.FailToPass, PassToPass: t.PassToPass, PreCommands: t.PreCommands, TestCmds: t.TestCmds, LogParser: t.LogParser,
		Image: t.Image, Workdir: t.Workdir, TimeoutMS: t.TimeoutMS, Kind: "tests",
	}
	if t.CreatedAt != nil {
		c.CreatedAt = *t.CreatedAt
	}
	if g := t.Goal; g != nil {
		c.Kind, c.StartURL, c.Website, c.Answer, c.ParentID = g.Kind, g.StartURL, g.Site, g.Answer, g.ParentID
	}
	return c
}

// Rollout is what an expression sees of a rollout.
func Rollout(r *record.Rollout) Columns {
	return Columns{
		TaskID: r.TaskID, InstanceID: r.TaskID, Source: r.Source, Repo: r.Repo, Language: r.Language, Kind: "rollout",
		Policy: r.Policy, Harness: r.Harness, Outcome: string(r.Verdict.Outcome), ExitStatus: r.Trajectory.ExitStatus,
		Steps: len(r.Trajectory.Steps), Tools: r.Trajectory.Tools, Patch: r.Trajectory.Diff.Value,
	}
}

// ofRollouts are the columns that only rollouts have.
var ofRollouts = map[string]bool{"policy": true, "harness": true, "outcome": true, "exit_status": true, "steps": true, "tools": true}

// OfTasks is the names of all columns that a task can have, in their order.
func OfTasks() []string {
	var names []string
	for f := range reflect.TypeFor[Columns]().Fields() {
		if name := f.Tag.Get("expr"); !ofRollouts[name] {
			names = append(names, name)
		}
	}
	return names
}

// absent says of a column whose empty value means "not known" whether it is. Of the others
// empty is a value: a task without hints has none.
var absent = map[string]func(*Columns) bool{
	"source":      func(c *Columns) bool { return c.Source == "" },
	"repo":        func(c *Columns) bool { return c.Repo == "" },
	"language":    func(c *Columns) bool { return c.Language == "" },
	"version":     func(c *Columns) bool { return c.Version == "" },
	"created_at":  func(c *Columns) bool { return c.CreatedAt.IsZero() },
	"base_commit": func(c *Columns) bool { return c.BaseCommit == "" },
	"timeout_ms":  func(c *Columns) bool { return c.TimeoutMS == 0 },
	"start_url":   func(c *Columns) bool { return c.StartURL == "" },
	"website":     func(c *Columns) bool { return c.Website == "" },
}

// MayBeAbsent reports whether a row can lack the column.
func MayBeAbsent(name string) bool { return absent[name] != nil }

// Absent reports whether the row lacks the column.
func (c *Columns) Absent(name string) bool {
	is := absent[name]
	return is != nil && is(c)
}

// Numbers is v, a value as encoding/json makes it with UseNumber, with numbers that an
// expression can count with.
func Numbers(v any) any {
	return Each(v, func(v any) any {
		n, ok := v.(json.Number)
		if !ok {
			return v
		}
		if i, err := n.Int64(); err == nil {
			return i
		}
		f, _ := n.Float64()
		return f
	})
}

// Each is v, a value as JSON has them, with change done to what is no list or object in it.
func Each(v any, change func(any) any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = Each(e, change)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = Each(e, change)
		}
		return out
	}
	return change(v)
}
