package llm

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// The server's side of the protocol, for servers of our own.

// DecodeRequest reads a chat request and the model that it names. Fields that Request
// does not have are ignored.
func DecodeRequest(b []byte) (model string, r Request, err error) {
	var doc struct {
		Model    string `json:"model"`
		Messages []struct {
			wireMessage
			Role       string `json:"role"`
			ToolCallID string `json:"tool_call_id"`
			Name       string `json:"name"`
		} `json:"messages"`
		Tools []struct {
			Function struct {
				Name        string          `json:"name"`
				Description string          `json:"description"`
				Parameters  json.RawMessage `json:"parameters"`
			} `json:"function"`
		} `json:"tools"`
		ParallelToolCalls *bool     `json:"parallel_tool_calls"`
		Temperature       *float64  `json:"temperature"`
		TopP              *float64  `json:"top_p"`
		MaxTokens         int       `json:"max_tokens"`
		Seed              *int64    `json:"seed"`
		Stop              oneOrMany `json:"stop"`
		Stream            bool      `json:"stream"`
		TokenIDs          bool      `json:"return_token_ids"`
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		return "", r, fmt.Errorf("chat request: %w", err)
	}
	r = Request{
		ParallelToolCalls: doc.ParallelToolCalls, Temperature: doc.Temperature, TopP: doc.TopP,
		MaxTokens: doc.MaxTokens, Seed: doc.Seed, Stop: doc.Stop, Stream: doc.Stream, TokenIDs: doc.TokenIDs,
	}
	for _, m := range doc.Messages {
		out := Message{Role: m.Role, Content: string(m.Content), Reasoning: m.reasoning(), ToolCallID: m.ToolCallID, Name: m.Name}
		for _, c := range m.ToolCalls {
			out.ToolCalls = append(out.ToolCalls, ToolCall{ID: c.ID, Name: c.Function.Name, Arguments: string(c.Function.Arguments)})
		}
		r.Messages = append(r.Messages, out)
	}
	for _, t := range doc.Tools {
		r.Tools = append(r.Tools, Tool{Name: t.Function.Name, Description: t.Function.Description, Parameters: t.Function.Parameters})
	}
	return doc.Model, r, nil
}

// oneOrMany is a list of strings, or one string that stands for a list of one.
type oneOrMany []string

func (o *oneOrMany) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		if one != "" { // null
			*o = oneOrMany{one}
		}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(o))
}

// object is a JSON object; its keys come out sorted.
type object = map[string]any

// EncodeWhole is r as the body of an answer that is not streamed, in vLLM's spelling.
func EncodeWhole(r Response) []byte {
	m := object{"role": "assistant", "content": r.Message.Content}
	if r.Message.Content == "" {
		m["content"] = nil
	}
	if r.Message.Reasoning != "" {
		m["reasoning_content"] = r.Message.Reasoning
	}
	var calls []object
	for _, c := range r.Message.ToolCalls {
		calls = append(calls, object{"id": c.ID, "type": "function", "function": object{"name": c.Name, "arguments": c.Arguments}})
	}
	if calls != nil {
		m["tool_calls"] = calls
	}
	ch := object{"index": 0, "message": m, "finish_reason": r.FinishReason}
	if len(r.CompletionIDs) > 0 {
		ch["token_ids"] = r.CompletionIDs
	}
	if len(r.LogProbs) > 0 {
		ch["logprobs"] = logprobs(r.LogProbs)
	}
	doc := envelope(r, "chat.completion")
	doc["choices"] = []object{ch}
	if len(r.PromptIDs) > 0 {
		doc["prompt_token_ids"] = r.PromptIDs
	}
	if r.Usage != nil {
		doc["usage"] = usage(r.Usage)
	}
	return mustJSON(doc)
}

// EncodeStream is r as server-sent events whose texts are cut into pieces of size bytes of
// at least one character each.
func EncodeStream(r Response, size int) []byte {
	var b bytes.Buffer
	event := func(doc object) {
		b.WriteString("data: ")
		b.Write(mustJSON(doc))
		b.WriteString("\n\n")
	}
	chunk := func(delta object, more object) {
		ch := object{"index": 0, "delta": delta, "finish_reason": nil}
		for k, v := range more {
			ch[k] = v
		}
		doc := envelope(r, "chat.completion.chunk")
		doc["choices"] = []object{ch}
		event(doc)
	}
	b.WriteString(": keepalive\n\n")
	first := envelope(r, "chat.completion.chunk")
	first["choices"] = []object{{"index": 0, "delta": object{"role": "assistant", "content": ""}, "finish_reason": nil}}
	if len(r.PromptIDs) > 0 {
		first["prompt_token_ids"] = r.PromptIDs
	}
	event(first)
	for _, p := range cut(r.Message.Reasoning, size) {
		chunk(object{"reasoning_content": p}, nil)
	}
	for _, p := range cut(r.Message.Content, size) {
		chunk(object{"content": p}, nil)
	}
	for i, c := range r.Message.ToolCalls {
		chunk(object{"tool_calls": []object{{"index": i, "id": c.ID, "type": "function", "function": object{"name": c.Name, "arguments": ""}}}}, nil)
		for _, p := range cut(c.Arguments, size) {
			chunk(object{"tool_calls": []object{{"index": i, "function": object{"arguments": p}}}}, nil)
		}
	}
	for i, id := range r.CompletionIDs {
		more := object{"token_ids": []int32{id}}
		if i < len(r.LogProbs) {
			more["logprobs"] = logprobs(r.LogProbs[i : i+1])
		}
		chunk(object{}, more)
	}
	chunk(object{}, object{"finish_reason": r.FinishReason})
	if r.Usage != nil {
		last := envelope(r, "chat.completion.chunk")
		last["choices"], last["usage"] = []object{}, usage(r.Usage)
		event(last)
	}
	b.WriteString("data: [DONE]\n\n")
	return b.Bytes()
}

func envelope(r Response, kind string) object {
	doc := object{"id": r.ID, "model": r.Model, "object": kind}
	if r.WeightVersion != "" {
		doc["metadata"] = object{"weight_version": r.WeightVersion}
	}
	return doc
}

func logprobs(ps []float32) object {
	content := make([]object, len(ps))
	for i, p := range ps {
		content[i] = object{"token": "t", "logprob": p, "bytes": nil, "top_logprobs": []any{}}
	}
	return object{"content": content}
}

func usage(u *Usage) object {
	doc := object{
		"prompt_tokens": u.PromptTokens, "completion_tokens": u.CompletionTokens,
		"total_tokens": u.PromptTokens + u.CompletionTokens,
	}
	if u.CachedTokens != nil {
		doc["prompt_tokens_details"] = object{"cached_tokens": *u.CachedTokens}
	}
	if u.ReasoningTokens != nil {
		doc["completion_tokens_details"] = object{"reasoning_tokens": *u.ReasoningTokens}
	}
	return doc
}

// cut splits s into pieces of about size bytes without splitting characters.
func cut(s string, size int) []string {
	var out []string
	start := 0
	for i := range s {
		if i-start >= max(size, 1) {
			out = append(out, s[start:i])
			start = i
		}
	}
	if start < len(s) {
		out = append(out, s[start:])
	}
	return out
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // maps of plain values always marshal
	}
	return b
}
