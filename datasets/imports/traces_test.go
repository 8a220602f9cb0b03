package imports

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orchard/datasets/record"
)

// outline is a rollout in short: what a reader of the set would look for.
type outline struct {
	Task, Policy, Harness, Exit string
	Outcome                     record.Outcome
	Reward                      *float64
	Turns                       []string // role and content
	Calls                       []string
	Tools                       int
	Diff                        bool
}

func outlineOf(t *testing.T, r *record.Rollout) outline {
	t.Helper()
	o := outline{Task: r.TaskID, Policy: r.Policy, Harness: r.Harness, Exit: r.Trajectory.ExitStatus,
		Outcome: r.Verdict.Outcome, Reward: r.Verdict.Reward, Diff: r.Trajectory.Diff.Value == pyPatch}
	for _, m := range r.Trajectory.Messages {
		o.Turns = append(o.Turns, m.Role+": "+m.Content)
		for _, c := range m.ToolCalls {
			o.Calls = append(o.Calls, c.ID+" "+c.Name+" "+c.Arguments)
		}
	}
	if r.Trajectory.Tools != "" {
		var tools []map[string]any
		if err := json.Unmarshal([]byte(r.Trajectory.Tools), &tools); err != nil {
			t.Errorf("tools: %v", err)
		}
		o.Tools = len(tools)
	}
	return o
}

func TestTrajectories(t *testing.T) {
	t.Parallel()
	reward := func(f float64) *float64 { return &f }
	turns := []string{"system: You fix bugs.", "user: add subtracts.", "assistant: Let me look.", "tool: return a - b", "assistant: Done."}
	calls := []string{`c1 bash {"command": "cat add.py"}`}
	count := []string{"system: s", "user: How many?", "assistant: ", "tool: 2", "assistant: Two."}
	for _, c := range []struct {
		format string
		row    int
		want   outline
	}{
		{"openhands-trajectories", 0, outline{"acme__calc-7", "", "openhands", "submitted", record.Resolved, reward(1), turns, calls, 1, true}},
		{"openhands-trajectories", 1, outline{"acme__calc-7", "", "openhands", "", record.Unresolved, reward(0), turns, calls, 1, false}},
		{"swe-agent-trajectories", 0, outline{"acme__calc-7", "swe-agent-llama-70b", "swe-agent", "token_limit", record.Resolved, reward(1),
			[]string{"system: You fix bugs.", "user: add subtracts.", "assistant: Look.\n```\ncat add.py\n```", "user: return a - b"}, nil, 0, true}},
		{"open-swe-traces", 0, outline{"acme__calc-7", "teacher-1", "", "", record.NotGraded, nil, turns, calls, 4, false}},
		{"open-swe-traces", 1, outline{"acme__calc-7", "teacher-1", "", "", record.Unresolved, reward(0), turns, calls, 4, false}},
		{"open-swe-traces", 2, outline{"acme__calc-7", "teacher-1", "", "", record.Resolved, reward(1), turns, calls, 4, false}},
		{"swe-smith-trajectories", 0, outline{"acme__calc.a1a1a1a1.func_pm_op_swap__x1", "teacher-2", "swe-agent", "", record.Unresolved, reward(0),
			[]string{"system: s", "user: u", "assistant: a"}, []string{`c1 bash {"command":"ls"}`}, 0, true}},
		{"nemotron-sft", 0, outline{"0c1d", "", "", "", record.NotGraded, nil, turns, calls, 0, false}},
		{"nemo-gym-rollouts", 0, outline{"0", "teacher-3", "", "", record.Resolved, reward(1), count, []string{"k1 count {}"}, 1, false}},
		{"nemo-gym-rollouts", 1, outline{"1", "teacher-3", "", "", record.Unresolved, reward(0), count, []string{"k1 count {}"}, 1, false}},
		{"nemo-gym-rollouts", 2, outline{"2", "teacher-3", "", "", record.Partial, reward(0.5), count, []string{"k1 count {}"}, 1, false}},
		{"nemo-gym-rollouts", 3, outline{"3", "teacher-3", "", "", record.NotGraded, nil, count, []string{"k1 count {}"}, 1, false}},
	} {
		f, _ := FormatByName(c.format)
		r := parseFile(t, fixture(f), c.format)[c.row].Rollout
		if d := cmp.Diff(c.want, outlineOf(t, r)); d != "" {
			t.Errorf("%s row %d: -want +got:\n%s", c.format, c.row, d)
		}
		if r.Raw == nil || r.Usage.PromptTokens != nil || r.Trajectory.Steps == nil || r.Verdict.Tests == nil {
			t.Errorf("%s: %+v", c.format, r)
		}
	}
}

// TestSteps: each answer is a step with its calls, and what follows belongs to it.
func TestSteps(t *testing.T) {
	t.Parallel()
	for format, want := range map[string][]int64{"openhands-trajectories": {-1, -1, 0, 0, 1}, "nemo-gym-rollouts": {-1, -1, 0, 0, 1}} {
		f, _ := FormatByName(format)
		tr := parseFile(t, fixture(f), format)[0].Rollout.Trajectory
		var got []int64
		for _, m := range tr.Messages {
			got = append(got, m.Step)
		}
		if d := cmp.Diff(want, got); d != "" || len(tr.Steps) != 2 || len(tr.Steps[0].Actions) != 1 || tr.Steps[0].Actions[0].ExitCode != nil {
			t.Errorf("%s: %s %+v", format, d, tr.Steps)
		}
	}
}

const openhands = `{"trajectory_id":"a","instance_id":"i","trajectory":%s,"tools":%s,"model_patch":"","exit_status":"","resolved":%s}`

func TestTrajectoryForms(t *testing.T) {
	t.Parallel()
	f, _ := FormatByName("openhands-trajectories")
	parse := func(messages, tools, resolved string) (*record.Rollout, *Problem) {
		text := strings.Replace(strings.Replace(strings.Replace(openhands, "%s", messages, 1), "%s", tools, 1), "%s", resolved, 1)
		row, problem := parseRow([]byte(text), "f:1")
		if problem != nil {
			t.Fatal(problem)
		}
		p, problem := f.Parse(row, "set")
		return p.Rollout, problem
	}
	for _, c := range []struct{ name, messages, tools, resolved, problem string }{
		{"resolved as text", `[{"role":"assistant","content":"x"}]`, "null", `"1"`, ""},
		{"resolved as float", `[{"role":"assistant","content":"x"}]`, "[]", `1.0`, ""},
		{"resolved as true", `[{"role":"assistant","content":"x"}]`, `""`, `true`, ""},
		{"messages as Python prints them", `"[{'role': 'assistant', 'content': 'it\\'s', 'tool_calls': None}]"`, "[]", `1`, ""},
		{"resolved is 7", `[{"role":"assistant","content":"x"}]`, "[]", `7`, `resolved: "7" must be 1, 0, or -1`},
		{"no messages", `[]`, "[]", `1`, "trajectory: is missing or empty"},
		{"no answer", `[{"role":"user","content":"x"}]`, "[]", `1`, "messages: hold no answer of a model"},
		{"unknown role", `[{"role":"critic","content":"x"}]`, "[]", `1`, `trajectory: message 0: role: "critic" is none of`},
		{"content is a number", `[{"role":"assistant","content":{"a":1}}]`, "[]", `1`, "trajectory: message 0: content: must be text, not an object"},
		{"call without a name", `[{"role":"assistant","content":"","tool_calls":[{"id":"x"}]}]`, "[]", `1`, "trajectory: message 0: tool_calls: call 0 has no name"},
		{"message is text", `["hello"]`, "[]", `1`, "trajectory: message 0: must be an object"},
		{"tools are text", `[{"role":"assistant","content":"x"}]`, `"bash"`, `1`, "tools: must be a list or its JSON"},
		{"a tool is a number", `[{"role":"assistant","content":"x"}]`, `[3]`, `1`, "tools: element 0 must be an object"},
	} {
		r, problem := parse(c.messages, c.tools, c.resolved)
		switch {
		case c.problem == "" && (problem != nil || r.Verdict.Outcome != record.Resolved || r.Trajectory.Tools != ""):
			t.Errorf("%s: %v %+v", c.name, problem, r)
		case c.problem != "" && (problem == nil || !strings.Contains(problem.Error(), c.problem)):
			t.Errorf("%s: got %v, want %q", c.name, problem, c.problem)
		}
	}
	// Arguments as a struct of a file with one type a column: null is what other tools have.
	r, problem := parse(`[{"role":"assistant","content":null,"tool_calls":[{"id":"c","function":{"name":"edit","arguments":{"path":"a","command":null}}}]}]`, "[]", "1")
	if problem != nil || r.Trajectory.Messages[0].ToolCalls[0].Arguments != `{"path":"a"}` {
		t.Errorf("%v %+v", problem, r)
	}
}

func TestExitStatus(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"Submitted": "submitted", "submit": "submitted", "submitted (exit_cost)": "cost_limit", "exit_context": "token_limit",
		"LimitsExceeded": "step_limit", "": "", "early_exit": "", "AgentStuckInLoopError": "stuck",
	} {
		if got := exitStatus(in); got != want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}
