package harness_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"orchard/datasets/record"
	"orchard/internal/harness"
	"orchard/internal/llm"
	"orchard/internal/llm/llmtest"
	"orchard/internal/sandbox"
	"orchard/internal/seal"
)

// shell answers commands from a table and keeps a log. A command that is not in the
// table prints nothing.
type shell struct {
	results map[string]sandbox.Result
	err     error // of every command

	mu  sync.Mutex
	log []sandbox.Command
}

var _ harness.Shell = (*shell)(nil)

func (s *shell) Exec(_ context.Context, c sandbox.Command) (sandbox.Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, c)
	r := s.results[c.Argv[len(c.Argv)-1]]
	if r.StdoutBytes == 0 {
		r.StdoutBytes = int64(len(r.Stdout))
	}
	return r, s.err
}

func out(text string) sandbox.Result { return sandbox.Result{Stdout: []byte(text)} }

// keep is Keep without a store: what a row cannot hold is named by its hash.
func keep(_ context.Context, b []byte) (record.Text, error) {
	if t, ok := record.Exact(b); ok {
		return t, nil
	}
	return record.Text{Value: strings.ToValidUTF8(string(b), "\ufffd"), Blob: seal.Bytes(b), Bytes: int64(len(b))}, nil
}

// text and calls are answers of the model.
func text(content string) llm.Response {
	return llm.Response{Message: llm.Message{Content: content}, FinishReason: "stop", Usage: &llm.Usage{PromptTokens: 100, CompletionTokens: 10}}
}

func calls(content string, commands ...string) llm.Response {
	r := text(content)
	r.FinishReason = "tool_calls"
	for i, c := range commands {
		args, err := json.Marshal(map[string]string{"command": c})
		if err != nil {
			panic(err)
		}
		r.Message.ToolCalls = append(r.Message.ToolCalls, llm.ToolCall{ID: fmt.Sprintf("call_%d", i), Name: "bash", Arguments: string(args)})
	}
	return r
}

// play runs an episode against a real server that gives the answers in turn, the last
// one again and again.
func play(t *testing.T, name string, answers []llm.Response, change func(*harness.Episode)) (record.Trajectory, *llmtest.Server, error) {
	t.Helper()
	replies := make([]llmtest.Reply, len(answers))
	for i, a := range answers {
		replies[i].Response = a
	}
	return playReplies(t, name, replies, change)
}

func playReplies(t *testing.T, name string, replies []llmtest.Reply, change func(*harness.Episode)) (record.Trajectory, *llmtest.Server, error) {
	t.Helper()
	s := llmtest.New(t, nil, llmtest.Script(replies...))
	m, err := llm.New(llm.Options{URL: s.URL, Model: "m", PriceOut: 1})
	if err != nil {
		t.Fatal(err)
	}
	h, err := harness.New(name, harness.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e := harness.Episode{
		Statement: "The sum of 1 and 1 is 3.", Workdir: "/testbed", Model: m, Keep: keep, Shell: &shell{},
		Sampling: harness.Sampling{Seed: 7},
		Limits:   harness.Limits{Steps: 20, CommandTimeout: time.Minute},
	}
	if change != nil {
		change(&e)
	}
	traj, err := h.Run(t.Context(), e)
	checkSent(t, traj, s)
	return traj, s, err
}

// checkSent holds the record against what the server saw: every request is the kept
// messages up to then, and no more.
func checkSent(t *testing.T, traj record.Trajectory, s *llmtest.Server) {
	t.Helper()
	var kept []record.Message
	for _, m := range traj.Messages {
		if m.Kept {
			kept = append(kept, m)
		}
	}
	for n, r := range s.Requests() {
		sent := r.Doc["messages"].([]any)
		if len(sent) > len(kept) {
			t.Fatalf("request %d has %d messages, %d were kept", n, len(sent), len(kept))
		}
		for i, m := range sent {
			m := m.(map[string]any)
			if m["role"] != kept[i].Role || m["content"] != kept[i].Content {
				t.Errorf("request %d, message %d: sent %v, recorded %+v", n, i, m, kept[i])
			}
			if id, _ := m["tool_call_id"].(string); id != kept[i].ToolCallID {
				t.Errorf("request %d, message %d: sent tool_call_id %q, recorded %q", n, i, id, kept[i].ToolCallID)
			}
		}
	}
}

// transcript is a trajectory for people: what a golden file holds.
func transcript(tr record.Trajectory) string {
	var b strings.Builder
	fmt.Fprintf(&b, "exit %s (%s)\ntools %s\n", tr.ExitStatus, tr.ExitDetail, tr.Tools)
	for i, m := range tr.Messages {
		fmt.Fprintf(&b, "\n######## %d %s", i, m.Role)
		if m.ToolCallID != "" {
			fmt.Fprintf(&b, " to %s", m.ToolCallID)
		}
		fmt.Fprintf(&b, ", step %d", m.Step)
		if !m.Kept {
			b.WriteString(", not kept")
		}
		b.WriteString("\n" + shorten(m.Content) + "\n")
		if m.Reasoning != "" {
			b.WriteString("######## reasoning\n" + m.Reasoning + "\n")
		}
		for _, c := range m.ToolCalls {
			fmt.Fprintf(&b, "######## call %s %s %s\n", c.ID, c.Name, c.Arguments)
		}
	}
	for i, s := range tr.Steps {
		fmt.Fprintf(&b, "\n######## step %d: %s", i, s.FinishReason)
		if s.FormatError != "" {
			fmt.Fprintf(&b, ", rejected: %s", s.FormatError)
		}
		b.WriteString("\n")
		for _, a := range s.Actions {
			code := "not run"
			if a.ExitCode != nil {
				code = fmt.Sprint(*a.ExitCode)
			}
			fmt.Fprintf(&b, "%q: %s, timed out %v, observed %s\n", a.Command, code, a.TimedOut, shorten(fmt.Sprintf("%q", a.Observation.Value)))
		}
	}
	fmt.Fprintf(&b, "\n######## submission\n%s", tr.Submission.Value)
	return b.String()
}

// shorten writes runs of one character as its count, so that long outputs can be read
// and counted by eye.
func shorten(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		n := 0
		for strings.HasPrefix(s[n*size:], string(r)) {
			n++
		}
		if n < 20 {
			b.WriteString(s[:n*size])
		} else {
			fmt.Fprintf(&b, "[%d×%c]", n, r)
		}
		s = s[n*size:]
	}
	return b.String()
}
