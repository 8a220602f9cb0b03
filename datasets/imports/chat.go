package imports

import (
	"fmt"
	"strings"

	"orchard/datasets/record"
	"orchard/internal/seal"
)

// conversation collects the messages of a trajectory.
type conversation struct {
	r        *reader
	field    string // column, for problems
	messages []record.Message
	steps    []record.Step
}

// roles are the names that sources give to the four of a chat.
var roles = map[string]string{
	"system": "system", "developer": "system", "user": "user", "human": "user",
	"assistant": "assistant", "ai": "assistant", "gpt": "assistant", "model": "assistant",
	"tool": "tool", "function": "tool", "observation": "tool", "environment": "tool",
}

func (c *conversation) fail(i int, format string, a ...any) {
	c.r.fail(c.field, "message %d: %s", i, fmt.Sprintf(format, a...))
}

// chat reads messages in the shape of the OpenAI chat format.
func (c *conversation) chat(list []any) {
	for i, e := range list {
		o, err := asObject(e)
		if err != nil || o == nil {
			c.fail(i, "must be an object, not %s", kind(e))
			return
		}
		said, _ := o["role"].(string)
		role, ok := roles[said]
		if !ok {
			c.fail(i, "role: %s is none of system, user, assistant, tool", shown(said))
			return
		}
		m := record.Message{Role: role, ToolCalls: []record.ToolCall{}, Step: int64(len(c.steps)) - 1, Kept: true}
		m.Content = c.content(i, firstOf(o, "content", "text"))
		m.Reasoning = c.content(i, firstOf(o, "reasoning_content", "reasoning", "thinking"))
		m.ToolCallID, _ = o["tool_call_id"].(string)
		if role == "system" && m.Content == "" {
			m.Content = c.content(i, o["system_prompt"])
		}
		if role == "assistant" {
			c.calls(i, &m, firstOf(o, "tool_calls"))
			if f, ok := o["function_call"].(map[string]any); ok && len(m.ToolCalls) == 0 && f["name"] != nil {
				c.calls(i, &m, []any{map[string]any{"function": f}})
			}
			finish, _ := o["finish_reason"].(string)
			c.answer(&m, finish)
		}
		c.messages = append(c.messages, m)
	}
}

// answer begins the step of an answer of the model.
func (c *conversation) answer(m *record.Message, finish string) {
	m.Step = int64(len(c.steps))
	s := record.Step{FinishReason: finish, Actions: []record.Action{}, PromptTokenIDs: []int32{}, CompletionIDs: []int32{}, LogProbs: []float32{}}
	for _, call := range m.ToolCalls {
		s.Actions = append(s.Actions, action(call))
	}
	c.steps = append(c.steps, s)
}

// action is what a call ran: its command, or all of its arguments.
func action(call record.ToolCall) record.Action {
	command := call.Name + " " + call.Arguments
	if o, err := asObject(call.Arguments); err == nil {
		if s, ok := o["command"].(string); ok && len(o) == 1 {
			command = s
		}
	}
	return record.Action{Command: command, ToolCallID: call.ID}
}

// content is text, or a list of parts of which the texts are joined by line ends. What
// is no text is named in brackets; the raw row has it.
func (c *conversation) content(i int, v any) string {
	parts, list := v.([]any)
	if !list {
		s, err := asText(v)
		if err != nil {
			c.fail(i, "content: %v", err)
		}
		return s
	}
	var out []string
	for _, p := range parts {
		o, ok := p.(map[string]any)
		if s, text := p.(string); text {
			out = append(out, s)
			continue
		}
		if !ok {
			c.fail(i, "content: a part must be an object, not %s", kind(p))
			return ""
		}
		if s, ok := firstOf(o, "text", "content").(string); ok {
			out = append(out, s)
		} else if t, ok := o["type"].(string); ok {
			out = append(out, "["+t+"]")
		}
	}
	return strings.Join(out, "\n")
}

// calls reads the calls of an answer: a list, or its JSON; arguments as text or object.
func (c *conversation) calls(i int, m *record.Message, v any) {
	list, err := asItems(v)
	if err != nil {
		c.fail(i, "tool_calls: %v", err)
		return
	}
	for n, e := range list {
		o, err := asObject(e)
		if err != nil || o == nil {
			c.fail(i, "tool_calls: call %d must be an object, not %s", n, kind(e))
			return
		}
		f, err := asObject(o["function"])
		if err != nil || f == nil {
			f = o
		}
		name, _ := f["name"].(string)
		if name == "" {
			c.fail(i, "tool_calls: call %d has no name", n)
			return
		}
		call := record.ToolCall{Name: name, Arguments: arguments(f["arguments"])}
		call.ID, _ = firstOf(o, "id", "call_id").(string)
		m.ToolCalls = append(m.ToolCalls, call)
	}
}

// arguments are a JSON string, as sent. Files with one type a column have one struct
// for the arguments of all tools, with null for those of other tools: they are left out.
func arguments(v any) string {
	switch v := v.(type) {
	case nil:
		return "{}"
	case string:
		return v
	}
	b, err := seal.Canonical(plain(withoutNulls(v)))
	if err != nil {
		return ""
	}
	return string(b)
}

// withoutNulls is v without members that are null.
func withoutNulls(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, e := range v {
			if e != nil {
				out[k] = withoutNulls(e)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = withoutNulls(e)
		}
		return out
	}
	return v
}

func firstOf(o map[string]any, names ...string) any {
	for _, name := range names {
		if v := o[name]; v != nil {
			return v
		}
	}
	return nil
}

// input reads the items of the Responses API: messages, calls of functions and what
// they gave, or one text of a user.
func (c *conversation) input(v any) {
	if s, ok := v.(string); ok {
		v = []any{map[string]any{"role": "user", "content": s}}
	}
	list, err := asItems(v)
	if err != nil {
		c.r.fail(c.field, "input: %v", err)
	}
	open := -1 // the message that calls are added to
	for i, e := range list {
		o, _ := e.(map[string]any)
		switch o["type"] {
		case "function_call":
			if open < 0 {
				c.messages = append(c.messages, record.Message{Role: "assistant", ToolCalls: []record.ToolCall{}, Kept: true})
				open = len(c.messages) - 1
				c.answer(&c.messages[open], "")
			}
			m := &c.messages[open]
			before := len(m.ToolCalls)
			c.calls(i, m, []any{map[string]any{"id": o["call_id"], "name": o["name"], "arguments": o["arguments"]}})
			for _, call := range m.ToolCalls[before:] {
				c.steps[m.Step].Actions = append(c.steps[m.Step].Actions, action(call))
			}
		case "function_call_output":
			open = -1
			id, _ := o["call_id"].(string)
			c.messages = append(c.messages, record.Message{Role: "tool", Content: c.content(i, o["output"]), ToolCallID: id,
				ToolCalls: []record.ToolCall{}, Step: int64(len(c.steps)) - 1, Kept: true})
		case "reasoning":
			text := c.content(i, o["summary"])
			c.messages = append(c.messages, record.Message{Role: "assistant", Reasoning: text, ToolCalls: []record.ToolCall{}, Kept: true})
			open = len(c.messages) - 1
			c.answer(&c.messages[open], "")
		default:
			said := c.messages
			if open >= 0 && o["role"] == "assistant" && said[open].Content == "" && len(said[open].ToolCalls) == 0 { // after its reasoning
				said[open].Content = c.content(i, o["content"])
				continue
			}
			c.chat([]any{e})
			if open = -1; len(c.messages) > len(said) && c.messages[len(said)].Role == "assistant" {
				open = len(said)
			}
		}
	}
}

// tools is the definitions given to the model, as a JSON array; "" for none. They come
// as a list of objects, or of their JSON, or as the JSON of the whole list.
func (r *reader) tools(c column) string {
	list := r.items(c)
	out := make([]any, 0, len(list))
	for i, e := range list {
		o, err := asObject(e)
		if err != nil || o == nil {
			r.fail(c[0], "element %d must be an object or its JSON", i)
			return ""
		}
		out = append(out, withoutNulls(o))
	}
	if len(out) == 0 {
		return ""
	}
	b, err := seal.Canonical(plain(out))
	if err != nil {
		r.fail(c[0], "%v", err)
	}
	return string(b)
}
