package llm

import "encoding/json"

// The request as it goes over the wire. A map, so that Extra can add and replace
// fields, and so that equal requests have equal bytes.
func encode(model string, r Request) ([]byte, error) {
	doc := map[string]any{"model": model, "messages": encodeMessages(r.Messages)}
	if len(r.Tools) > 0 {
		tools := make([]map[string]any, len(r.Tools))
		for i, t := range r.Tools {
			tools[i] = map[string]any{"type": "function", "function": map[string]any{
				"name": t.Name, "description": t.Description, "parameters": t.Parameters,
			}}
		}
		doc["tools"] = tools
	}
	if r.ParallelToolCalls != nil {
		doc["parallel_tool_calls"] = *r.ParallelToolCalls
	}
	if r.Temperature != nil {
		doc["temperature"] = *r.Temperature
	}
	if r.TopP != nil {
		doc["top_p"] = *r.TopP
	}
	if r.MaxTokens > 0 {
		doc["max_tokens"] = r.MaxTokens
	}
	if r.Seed != nil {
		doc["seed"] = *r.Seed
	}
	if len(r.Stop) > 0 {
		doc["stop"] = r.Stop
	}
	if r.Stream {
		doc["stream"] = true
		doc["stream_options"] = map[string]any{"include_usage": true}
	}
	if r.TokenIDs {
		doc["logprobs"] = true
		doc["return_token_ids"] = true
	}
	for k, v := range r.Extra {
		doc[k] = v
	}
	return json.Marshal(doc)
}

func encodeMessages(ms []Message) []map[string]any {
	out := make([]map[string]any, len(ms))
	for i, m := range ms {
		w := map[string]any{"role": m.Role, "content": m.Content}
		if m.Reasoning != "" {
			w["reasoning_content"] = m.Reasoning
		}
		if len(m.ToolCalls) > 0 {
			calls := make([]wireCall, len(m.ToolCalls))
			for j, c := range m.ToolCalls {
				calls[j] = wireCall{ID: c.ID, Type: "function", Function: wireFunction{Name: c.Name, Arguments: arguments(c.Arguments)}}
			}
			w["tool_calls"] = calls
		}
		if m.ToolCallID != "" {
			w["tool_call_id"] = m.ToolCallID
		}
		if m.Name != "" {
			w["name"] = m.Name
		}
		out[i] = w
	}
	return out
}
