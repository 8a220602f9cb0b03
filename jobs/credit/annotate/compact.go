package annotate

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"orchard/datasets/record"
)

// Limits are the most characters of a prompt and, when it would be longer, of the texts in it.
type Limits struct {
	Task        int // the messages before the first step
	Observation int // what one action printed
	Reasoning   int // what the policy thought and said in one step
	Command     int // one action
	Total       int
}

// DefaultLimits are those without any flag.
func DefaultLimits() Limits {
	return Limits{Task: 4000, Observation: 1200, Reasoning: 600, Command: 400, Total: 240_000}
}

// fewestTotal has room for the words of the prompt itself.
const fewestTotal = 8000

// Validate says everything that is wrong, by the names of the flags.
func (l Limits) Validate() error {
	var errs []error
	for _, f := range []struct {
		flag         string
		value, least int
	}{{"--task-chars", l.Task, 1}, {"--observation-chars", l.Observation, 1}, {"--reasoning-chars", l.Reasoning, 1},
		{"--command-chars", l.Command, 1}, {"--total-chars", l.Total, fewestTotal}} {
		if f.value < f.least {
			errs = append(errs, fmt.Errorf("%s: %d must be at least %d", f.flag, f.value, f.least))
		}
	}
	return errors.Join(errs...)
}

// halved is every limit but Total, halved n times; 0 and less is as it is.
func (l Limits) halved(n int) Limits {
	n = max(n, 0)
	for _, v := range []*int{&l.Task, &l.Observation, &l.Reasoning, &l.Command} {
		*v = max(1, *v>>n)
	}
	return l
}

// cutter shortens texts and counts what it leaves out.
type cutter struct {
	off          bool
	limits       Limits
	parts, chars int
}

func (c *cutter) cut(s string, most int) string {
	if c.off {
		return s
	}
	short := shorten(s, most)
	if short != s {
		c.parts++
		c.chars += length(s) - most
	}
	return short
}

// shorten keeps most characters of s, three quarters of them from its beginning, and
// says how many are left out.
func shorten(s string, most int) string {
	n := length(s)
	if n <= most {
		return s
	}
	tail := most / 4
	runes := []rune(s)
	return fmt.Sprintf("%s[… %d characters left out …]%s", string(runes[:most-tail]), n-most, string(runes[n-tail:]))
}

func length(s string) int { return utf8.RuneCountInString(s) }

// task is what the policy was told before its first step, the system prompt apart.
func task(t record.Trajectory, c *cutter) string {
	var told []string
	for _, m := range t.Messages {
		if m.Step < 0 && m.Role != "system" {
			told = append(told, m.Content)
		}
	}
	return c.cut(strings.Join(told, "\n\n"), c.limits.Task)
}

// steps is every step with its number.
func steps(t record.Trajectory, c *cutter) string {
	said := make([][]record.Message, len(t.Steps)) // by step
	for _, m := range t.Messages {
		if m.Step >= 0 && int(m.Step) < len(said) {
			said[m.Step] = append(said[m.Step], m)
		}
	}
	var b strings.Builder
	for i, s := range t.Steps {
		fmt.Fprintf(&b, "--- step %d ---\n", i)
		var thoughts []string
		for _, m := range said[i] {
			if m.Role == "assistant" {
				thoughts = append(thoughts, m.Reasoning, m.Content)
			}
		}
		put(&b, "said", c.cut(strings.TrimSpace(strings.Join(thoughts, "\n")), c.limits.Reasoning))
		if s.FormatError != "" {
			put(&b, "this answer could not be followed", shorten(s.FormatError, 200))
		}
		if len(s.Actions) > 0 {
			actions(&b, s.Actions, c)
		} else {
			calls(&b, said[i], c)
		}
	}
	return strings.TrimSpace(b.String())
}

func put(b *strings.Builder, what, text string) {
	if text != "" {
		fmt.Fprintf(b, "%s: %s\n", what, text)
	}
}

func actions(b *strings.Builder, list []record.Action, c *cutter) {
	for _, a := range list {
		put(b, "command", c.cut(a.Command, c.limits.Command))
		switch {
		case a.TimedOut:
			put(b, "result", "timed out")
		case a.ExitCode == nil:
			put(b, "result", "not run")
		default:
			put(b, "exit code", fmt.Sprint(*a.ExitCode))
		}
		put(b, "output", c.cut(strings.TrimSpace(a.Observation.Value), c.limits.Observation))
	}
}

// calls is a step whose actions are known from its messages alone, as in an imported
// trajectory.
func calls(b *strings.Builder, messages []record.Message, c *cutter) {
	for _, m := range messages {
		for _, call := range m.ToolCalls {
			put(b, "command", c.cut(call.Name+" "+call.Arguments, c.limits.Command))
		}
	}
	for _, m := range messages {
		if m.Role != "assistant" {
			put(b, "output", c.cut(strings.TrimSpace(m.Content), c.limits.Observation))
		}
	}
}
