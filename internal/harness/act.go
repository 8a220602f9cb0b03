package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"orchard/datasets/record"
	"orchard/internal/llm"
	"orchard/internal/lossy"
	"orchard/internal/sandbox"
)

// act runs the commands of an answer in order and tells the model about them, unless
// one of them hands in.
func (p *play) act(ctx context.Context, actions []action) error {
	rows := make([]record.Action, len(actions))
	for i, a := range actions {
		rows[i] = record.Action{Command: a.command, ToolCallID: a.callID}
	}
	p.last().Actions = rows
	var told []llm.Message
	var what []string
	for i, a := range actions {
		o, timedOut, err := p.run(ctx, a, &rows[i])
		if err != nil {
			return err
		}
		if rest, ok := p.protocol.submission(o.text); ok && o.code == 0 && !timedOut {
			p.tree(ctx)
			return p.submit(ctx, rest)
		}
		m, err := p.tell(a, o, timedOut)
		if err != nil {
			return err
		}
		told = append(told, m)
		what = append(what, a.command, m.Content)
	}
	for _, m := range told {
		p.say(m, true)
	}
	p.tree(ctx)
	p.happened(what...)
	return nil
}

func (p *play) submit(ctx context.Context, rest string) error {
	text, err := p.Keep(ctx, []byte(rest))
	if err != nil {
		return fmt.Errorf("keep submission: %w", err)
	}
	p.t.Submission = text
	p.end(record.ExitSubmitted, "Submitted", text.Value)
	return nil
}

// tell is the message about a command.
func (p *play) tell(a action, o outcome, timedOut bool) (llm.Message, error) {
	warning, err := p.prompts.render("long_output", p.vars())
	if err != nil {
		return llm.Message{}, err
	}
	if timedOut {
		v := p.vars()
		v.Command, v.Output = a.command, output(o, warning)
		text, err := p.prompts.render("timeout", v)
		if err != nil || p.protocol.timeoutMessage {
			return llm.Message{Role: "user", Content: text}, err
		}
		o.exception = text
	}
	m := llm.Message{Role: "user", Content: observation(o, warning)}
	if a.callID != "" {
		m.Role, m.ToolCallID = "tool", a.callID
	}
	return m, nil
}

// run executes one command and records it in row.
func (p *play) run(ctx context.Context, a action, row *record.Action) (o outcome, timedOut bool, err error) {
	var raw []byte
	if why := unrunnable(a.command); why != "" {
		// The kernel would refuse it. That is the policy's doing and no trouble of ours,
		// so it ends as it would in a shell that is asked to run it.
		raw = []byte("bash: " + why + "\n")
		o = outcome{text: string(raw), code: 126}
		row.ExitCode = number(126)
	} else {
		res, err := p.Shell.Exec(ctx, sandbox.Command{
			Argv: append(slices.Clone(p.protocol.shell), a.command), Cwd: p.Workdir, Env: p.protocol.env,
			Timeout: p.Limits.CommandTimeout, Merge: true,
		})
		if err != nil {
			return o, false, fmt.Errorf("command %q of step %d: %w", head(a.command, 80), len(p.t.Steps)-1, err)
		}
		raw, timedOut = res.Stdout, res.TimedOut
		o = outcome{text: lossy.Text(raw), unseen: res.StdoutBytes - int64(len(raw)), code: shown(res.ExitCode)}
		if timedOut {
			o.code = -1
		} else {
			o.text = newlines(o.text)
		}
		if !res.Truncated {
			o.unseen = 0
		}
		row.ExitCode, row.TimedOut = number(res.ExitCode), timedOut
		row.DurationMS = int64(res.Duration / time.Millisecond)
	}
	if row.Observation, err = p.Keep(ctx, raw); err != nil {
		return o, timedOut, fmt.Errorf("keep output of step %d: %w", len(p.t.Steps)-1, err)
	}
	return o, timedOut, nil
}

// maxArgument is the longest argument that Linux hands to a program.
const maxArgument = 128<<10 - 1

// unrunnable is why no program can be started with this command, "" when one can.
func unrunnable(command string) string {
	switch {
	case len(command) > maxArgument:
		return "Argument list too long"
	case strings.ContainsRune(command, 0):
		return "the command has a NUL character in it"
	}
	return ""
}

// shown is an exit code as a shell tells it: 128+N for signal N. A negative one would
// look like the -1 of a command that has none.
func shown(code int) int {
	if code < 0 {
		return 128 - code
	}
	return code
}

func number(n int) *int64 {
	v := int64(n)
	return &v
}

// happened notes what a step did and ends the episode when it has been the same too
// often in a row.
func (p *play) happened(what ...string) {
	if slices.Equal(p.before, what) {
		p.repeats++
	} else {
		p.before, p.repeats = what, 1
	}
	if 0 < p.Limits.Stuck && p.Limits.Stuck <= p.repeats {
		p.end(record.ExitStuck, "Stuck", "")
	}
}

// toolsJSON is the definitions as the model gets them, "" for none.
func toolsJSON(tools []llm.Tool) string {
	if len(tools) == 0 {
		return ""
	}
	type function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	}
	type definition struct {
		Type     string   `json:"type"`
		Function function `json:"function"`
	}
	var out []definition
	for _, t := range tools {
		out = append(out, definition{"function", function{t.Name, t.Description, t.Parameters}})
	}
	b, err := json.Marshal(out)
	if err != nil {
		panic(err) // our own constants
	}
	return string(b)
}
