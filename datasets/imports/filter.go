package imports

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/vm"

	"orchard/internal/exit"
)

// Filter is an expression over a task or rollout that says whether to keep it, such as
//
//	language == "go" && len(fail_to_pass) > 0
//
// The names are those of the fields of columns, empty for what the row does not have;
// row has every column of the file.
// The zero value keeps all. Safe for concurrent use.
type Filter struct{ program *vm.Program }

// columns is what a filter can see.
type columns struct {
	TaskID     string         `expr:"task_id"`
	InstanceID string         `expr:"instance_id"`
	Source     string         `expr:"source"`
	Repo       string         `expr:"repo"`
	Language   string         `expr:"language"`
	Version    string         `expr:"version"`
	CreatedAt  time.Time      `expr:"created_at"` // the year 1 when the row has none
	BaseCommit string         `expr:"base_commit"`
	Statement  string         `expr:"problem_statement"`
	Hints      string         `expr:"hints_text"`
	Patch      string         `expr:"patch"`
	TestPatch  string         `expr:"test_patch"`
	FailToPass []string       `expr:"fail_to_pass"`
	PassToPass []string       `expr:"pass_to_pass"`
	TestCmds   []string       `expr:"test_cmds"`
	LogParser  string         `expr:"log_parser"`
	Image      string         `expr:"image"`
	Workdir    string         `expr:"workdir"`
	TimeoutMS  int64          `expr:"timeout_ms"`
	Kind       string         `expr:"kind"` // of a task's goal; "tests" for one that tests decide, "rollout"
	StartURL   string         `expr:"start_url"`
	ParentID   string         `expr:"parent_id"`
	Policy     string         `expr:"policy"`
	Harness    string         `expr:"harness"`
	Outcome    string         `expr:"outcome"`
	ExitStatus string         `expr:"exit_status"`
	Steps      int            `expr:"steps"`
	Tools      string         `expr:"tools"`
	Row        map[string]any `expr:"row"`
}

// NewFilter compiles an expression; "" keeps all. A bad one is an error marked
// exit.Config that shows where it is bad.
func NewFilter(s string) (Filter, error) {
	if s == "" {
		return Filter{}, nil
	}
	p, err := expr.Compile(s, expr.Env(columns{}), expr.AsBool())
	if err != nil {
		return Filter{}, exit.Configf("--filter: %w", err)
	}
	return Filter{p}, nil
}

// Keep says whether the filter keeps a row.
func (f Filter) Keep(p Parsed) (bool, error) {
	if f.program == nil {
		return true, nil
	}
	out, err := expr.Run(f.program, see(p))
	if err != nil {
		return false, exit.With(exit.Config, fmt.Errorf("--filter: %s: %s: %w", p.Place, p.Name(), err))
	}
	return out.(bool), nil
}

// see is what a filter sees of a row.
func see(p Parsed) columns {
	row := numbers(p.Row).(map[string]any)
	if r := p.Rollout; r != nil {
		return columns{
			TaskID: r.TaskID, InstanceID: r.TaskID, Source: r.Source, Repo: r.Repo, Language: r.Language, Kind: "rollout",
			Policy: r.Policy, Harness: r.Harness, Outcome: string(r.Verdict.Outcome), ExitStatus: r.Trajectory.ExitStatus,
			Steps: len(r.Trajectory.Steps), Tools: r.Trajectory.Tools, Patch: r.Trajectory.Diff.Value, Row: row,
		}
	}
	t := p.Task
	out := columns{
		TaskID: t.TaskID, InstanceID: t.TaskID, Source: t.Source, Repo: t.Repo, Language: t.Language, Version: t.Version,
		BaseCommit: t.BaseCommit, Statement: t.Statement, Hints: t.Hints, Patch: t.GoldPatch.Value, TestPatch: t.TestPatch.Value,
		FailToPass: t.FailToPass, PassToPass: t.PassToPass, TestCmds: t.TestCmds, LogParser: t.LogParser, Image: t.Image,
		Workdir: t.Workdir, TimeoutMS: t.TimeoutMS, Kind: "tests", Row: row,
	}
	if t.CreatedAt != nil {
		out.CreatedAt = *t.CreatedAt
	}
	if t.Goal != nil {
		out.Kind, out.StartURL, out.ParentID = t.Goal.Kind, t.Goal.StartURL, t.Goal.ParentID
	}
	return out
}

// numbers is v with numbers that an expression can count with.
func numbers(v any) any {
	return eachValue(v, func(v any) any {
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

// eachValue is v, a value as JSON has them, with change done to what is no list or object
// in it.
func eachValue(v any, change func(any) any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = eachValue(e, change)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = eachValue(e, change)
		}
		return out
	}
	return change(v)
}
