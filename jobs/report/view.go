package report

import (
	"fmt"
	"strings"

	"orchard/datasets/record"
)

// What the viewer is given of one text, and about what of one trajectory. Longer ones
// are shortened in the middle, with a word: the dataset has all of them.
const (
	mostText       = 256 << 10
	mostTrajectory = 4 << 20
)

// trajectory is a rollout as the viewer shows it. Lists are never null.
type trajectory struct {
	ID       string              `json:"id"`
	Task     string              `json:"task"`
	Index    int64               `json:"index"`
	Policy   string              `json:"policy"`
	Harness  string              `json:"harness"`
	Outcome  record.Outcome      `json:"outcome"`
	Class    string              `json:"class"` // of the outcome's colour
	Reward   *float64            `json:"reward"`
	Reason   string              `json:"reason"`
	Exit     string              `json:"exit"`
	Detail   string              `json:"detail"` // of the exit
	Tokens   *int64              `json:"tokens"`
	MS       int64               `json:"ms"`
	Steps    []step              `json:"steps"`
	Messages []turn              `json:"messages"`
	Diff     string              `json:"diff"`
	Dropped  []string            `json:"dropped"` // hunks that grading left out
	Tests    []record.TestResult `json:"tests"`
	Log      string              `json:"log"`
	Curves   []curve             `json:"curves"`
}

type step struct {
	Finish     string   `json:"finish"`
	Error      string   `json:"error"` // of the format
	Actions    []action `json:"actions"`
	Completion *int64   `json:"completion"` // tokens
	MS         int64    `json:"ms"`         // of the model
}

type action struct {
	Call     string `json:"call"`
	Exit     *int64 `json:"exit"`
	TimedOut bool   `json:"timed_out"`
	MS       int64  `json:"ms"`
	// Output is the raw observation of an action whose answer the policy never saw, as
	// the trajectory ended with it; else the messages have it.
	Output string `json:"output"`
}

type turn struct {
	Role      string `json:"role"`
	Content   string `json:"content"`
	Reasoning string `json:"reasoning"`
	Calls     []tool `json:"calls"`
	Call      string `json:"call"` // that this message answers
	Step      int64  `json:"step"`
	Kept      bool   `json:"kept"`
}

type tool struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Args string `json:"args"`
}

func view(r record.Rollout) trajectory {
	most := max(1<<10, min(mostText, mostTrajectory/(1+len(r.Trajectory.Messages))))
	t := trajectory{
		ID: r.RolloutID, Task: r.TaskID, Index: r.Index, Policy: r.Policy, Harness: r.Harness,
		Outcome: r.Verdict.Outcome, Class: class(r.Verdict.Outcome), Reward: r.Verdict.Reward, Reason: clip(r.Verdict.Reason, most),
		Exit: r.Trajectory.ExitStatus, Detail: clip(r.Trajectory.ExitDetail, most), Tokens: tokens(r.Usage),
		MS: max(0, r.Span.Ended.Sub(r.Span.Started).Milliseconds()), Steps: []step{}, Messages: []turn{},
		Diff: whole(r.Trajectory.Diff, mostText), Dropped: append([]string{}, r.Verdict.Dropped...),
		Tests: append([]record.TestResult{}, r.Verdict.Tests...), Log: whole(r.Verdict.Log, mostText),
		Curves: []curve{},
	}
	answered := map[string]bool{} // by call, or by step where calls have no ids
	for _, m := range r.Trajectory.Messages {
		if m.Role != "assistant" {
			answered[answer(m.Step, m.ToolCallID)] = true
		}
		u := turn{m.Role, clip(m.Content, most), clip(m.Reasoning, most), []tool{}, m.ToolCallID, m.Step, m.Kept}
		for _, c := range m.ToolCalls {
			u.Calls = append(u.Calls, tool{c.ID, c.Name, clip(c.Arguments, most)})
		}
		t.Messages = append(t.Messages, u)
	}
	for i, s := range r.Trajectory.Steps {
		u := step{s.FinishReason, clip(s.FormatError, most), []action{}, s.CompletionTokens, s.ModelMS}
		for _, a := range s.Actions {
			v := action{Call: a.ToolCallID, Exit: a.ExitCode, TimedOut: a.TimedOut, MS: a.DurationMS}
			if !answered[answer(int64(i), a.ToolCallID)] {
				v.Output = whole(a.Observation, most)
			}
			u.Actions = append(u.Actions, v)
		}
		t.Steps = append(t.Steps, u)
	}
	return t
}

func answer(step int64, call string) string { return fmt.Sprint(step, " ", call) }

// whole is a text with a word where a row holds only a part of it.
func whole(t record.Text, most int) string {
	s := clip(t.Value, most)
	if t.Blob != "" {
		s += fmt.Sprintf("\n[shortened or not UTF-8: all %d bytes are blob %s]", t.Bytes, t.Blob)
	}
	return s
}

// clip keeps the ends of a text that has more than most bytes.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	head := strings.ToValidUTF8(s[:most/2], "")
	tail := strings.ToValidUTF8(s[len(s)-most/2:], "")
	return fmt.Sprintf("%s\n[%d bytes left out here; the dataset has them]\n%s", head, len(s)-len(head)-len(tail), tail)
}

// size is about how many bytes t takes in a script.
func (t trajectory) size() int {
	n := 1000 + len(t.Diff) + len(t.Log) + len(t.Reason)
	for _, r := range t.Tests {
		n += 60 + len(r.Name)
	}
	for _, c := range t.Curves {
		n += c.size()
	}
	for _, m := range t.Messages {
		n += 100 + len(m.Content) + len(m.Reasoning)
		for _, c := range m.Calls {
			n += 50 + len(c.Args)
		}
	}
	for _, s := range t.Steps {
		n += 100 + len(s.Error)
		for _, a := range s.Actions {
			n += 60 + len(a.Output)
		}
	}
	return n
}
