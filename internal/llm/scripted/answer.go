package scripted

import (
	"fmt"
	"strings"

	"orchard/internal/llm"
	"orchard/internal/seal"
)

const sentinel = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"

// protocol is how the other side wants to be answered: calls of the bash tool, or one
// block with a command in the text.
type protocol struct {
	tools      bool
	fence      string // without tools: the word after the backticks
	oneCommand bool   // hands in with one command instead of three
}

// textV2 is the block of version 2's text protocol, which its prompt names.
const textV2 = "mswea_bash_command"

// talk is a conversation so far.
type talk struct {
	protocol protocol
	step     int // answers given, rejected ones that were taken out again too
}

// read finds out how far a conversation is. Each rejected answer that was taken out
// has left a complaint behind, a user message that is no observation: with tools,
// every one after the first; in text, every one that no answer stands before.
func read(r llm.Request) talk {
	t := talk{protocol: protocol{tools: len(r.Tools) > 0}}
	answers, users, opening := 0, 0, ""
	for _, m := range r.Messages {
		switch {
		case m.Role == "assistant":
			answers++
		case m.Role == "user":
			users++
		}
		if answers == 0 {
			opening += m.Content
		}
	}
	rejected := users - 1
	if !t.protocol.tools {
		rejected -= answers
		t.protocol.fence, t.protocol.oneCommand = "bash", true
		if strings.Contains(opening, textV2) {
			t.protocol.fence, t.protocol.oneCommand = textV2, false
		}
	}
	t.step = answers + max(0, rejected)
	return t
}

// answer puts a turn into the protocol.
func (t talk) answer(u turn) llm.Response {
	r := llm.Response{FinishReason: "stop"}
	r.Message.Reasoning = u.thought
	switch {
	case u.malformed && t.protocol.tools:
		t.malformedCall(&r, u.kind)
	case u.malformed:
		t.malformedText(&r, u.kind)
	case t.protocol.tools:
		r.Message.Content, r.FinishReason = u.thought, "tool_calls"
		for i, c := range u.commands {
			r.Message.ToolCalls = append(r.Message.ToolCalls, t.call(i, "bash", quoted(c)))
		}
	default:
		r.Message.Content = "THOUGHT: " + u.thought + "\n\n" + t.block(strings.Join(u.commands, "\n"))
	}
	return r
}

func (t talk) block(command string) string {
	return "```" + t.protocol.fence + "\n" + command + "\n```"
}

func (t talk) call(i int, name, arguments string) llm.ToolCall {
	return llm.ToolCall{ID: fmt.Sprintf("call_%d_%d", t.step, i), Name: name, Arguments: arguments}
}

// quoted is the arguments of a call.
func quoted(command string) string {
	b, err := seal.JSON(map[string]string{"command": command}) // without HTML escapes, as models write it
	if err != nil {
		panic(err) // strings always marshal
	}
	return string(b)
}

// kinds is how many malformed answers there are.
const kinds = 4

// malformedCall is an answer that a protocol with tools rejects.
func (t talk) malformedCall(r *llm.Response, kind int) {
	switch kind % kinds {
	case 0:
		r.Message.Content = "I should look at the files next."
	case 1:
		r.Message.ToolCalls, r.FinishReason = []llm.ToolCall{t.call(0, "python", quoted("print(1)"))}, "tool_calls"
	case 2:
		r.Message.ToolCalls, r.FinishReason = []llm.ToolCall{t.call(0, "bash", `{"command": "ls`)}, "tool_calls"
	default:
		r.Message.Content, r.FinishReason = "Let me think about everything that could be wrong here, beginning with", "length"
	}
}

// malformedText is an answer that a text protocol rejects.
func (t talk) malformedText(r *llm.Response, kind int) {
	switch kind % kinds {
	case 0:
		r.Message.Content = "THOUGHT: I should look at the files next."
	case 1:
		r.Message.Content = "THOUGHT: Two at once.\n\n" + t.block("ls") + "\n\n" + t.block("pwd")
	case 2:
		r.Message.Content = "THOUGHT: Look.\n\n```\nls\n```"
	default:
		r.Message.Content, r.FinishReason = "THOUGHT: Let me think.\n\n```"+t.protocol.fence+"\nls", "length"
	}
}
