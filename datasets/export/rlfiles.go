package export

import (
	"encoding/json"

	"orchard/datasets/record"
)

// slimeStatus is a draw's status in slime's words.
var slimeStatus = map[string]string{
	"completed": "completed", "truncated": "truncated", "time_exceeded": "truncated", "aborted": "aborted",
}

// SlimeLine is a row with tokens as slime's Sample.from_dict reads it: one line of JSON.
// What slime has no field for is in its metadata.
func SlimeLine(r record.RLSample) ([]byte, error) {
	status, ok := slimeStatus[r.Status]
	if !ok {
		status = "failed"
	}
	var probs []float32 // null: the server gave none
	if r.LogProbSource == record.TokensServer {
		probs = r.LogProbs
	}
	return line(struct {
		GroupIndex     int64           `json:"group_index"`
		Index          int64           `json:"index"`
		SessionID      string          `json:"session_id"`
		Prompt         []chatTurn      `json:"prompt"`
		Tokens         []int32         `json:"tokens"`
		Response       string          `json:"response"` // "": text that nobody decoded is not made up
		ResponseLength int64           `json:"response_length"`
		Label          *string         `json:"label"`
		Reward         float64         `json:"reward"`
		LossMask       []int8          `json:"loss_mask"`
		WeightVersions []string        `json:"weight_versions"`
		LogProbs       []float32       `json:"rollout_log_probs"`
		RemoveSample   bool            `json:"remove_sample"`
		Status         string          `json:"status"`
		Metadata       json.RawMessage `json:"metadata"`
	}{
		GroupIndex: r.GroupIndex, Index: r.Index, SessionID: r.ID, Prompt: turns(r.Prompt, false), Tokens: r.Tokens, ResponseLength: r.ResponseLength,
		Reward: r.Reward, LossMask: r.LossMask, WeightVersions: r.WeightVersions, LogProbs: probs, Status: status, Metadata: json.RawMessage(r.Metadata),
	})
}

// RLMessagesLine is a row without tokens for a trainer that renders messages by itself.
func RLMessagesLine(r record.RLSample) ([]byte, error) {
	return line(struct {
		GroupIndex     int64           `json:"group_index"`
		Index          int64           `json:"index"`
		Messages       []chatTurn      `json:"messages"`
		Tools          string          `json:"tools"`
		Reward         float64         `json:"reward"`
		Advantage      *float64        `json:"advantage"`
		WeightVersions []string        `json:"weight_versions"`
		Status         string          `json:"status"`
		Metadata       json.RawMessage `json:"metadata"`
	}{r.GroupIndex, r.Index, turns(r.Messages, true), r.Tools, r.Reward, r.Advantage, r.WeightVersions, r.Status, json.RawMessage(r.Metadata)})
}

// chatTurn is an RLMessage as chat templates want it: see chatMessage.
type chatTurn struct {
	Role       string               `json:"role"`
	Content    string               `json:"content"`
	Reasoning  string               `json:"reasoning_content,omitempty"`
	ToolCalls  []record.SFTToolCall `json:"tool_calls,omitempty"`
	ToolCallID string               `json:"tool_call_id,omitempty"`
	Mask       *int8                `json:"loss_mask,omitempty"`
	StepMask   *int8                `json:"step_loss_mask,omitempty"` // the same for slime
}

func turns(messages []record.RLMessage, masked bool) []chatTurn {
	list := make([]chatTurn, len(messages))
	for i, m := range messages {
		list[i] = chatTurn{Role: m.Role, Content: m.Content, Reasoning: m.Reasoning, ToolCalls: m.ToolCalls, ToolCallID: m.ToolCallID}
		if masked {
			list[i].Mask, list[i].StepMask = &m.LossMask, &m.LossMask
		}
	}
	return list
}

func line(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	return append(b, '\n'), err
}

// VerlSample is a row with tokens under the names of verl's DataProto, without padding.
type VerlSample struct {
	ID            string       `json:"id"`
	UID           string       `json:"uid"` // what verl's GRPO groups by
	Index         int64        `json:"index"`
	DataSource    string       `json:"data_source"`
	Prompts       []int32      `json:"prompts"`
	Responses     []int32      `json:"responses"`
	AttentionMask []int8       `json:"attention_mask"` // of both
	ResponseMask  []int8       `json:"response_mask"`
	OldLogProbs   []float32    `json:"old_log_probs"` // of the rollout's server; empty when it gave none
	Advantages    []float32    `json:"advantages"`    // of the response, 0 where the mask is 0; empty when none was asked for
	Reward        float64      `json:"reward_score"`
	NumTurns      int64        `json:"num_turns"`
	Extra         VerlExtra    `json:"extra_info"`
	RawPrompt     []VerlPrompt `json:"raw_prompt"`
}

// VerlExtra is what verl hands through.
type VerlExtra struct {
	Index          int64    `json:"index"`
	TaskID         string   `json:"task_id"`
	RolloutID      string   `json:"rollout_id"`
	Branch         int64    `json:"branch"`
	Branches       int64    `json:"branches"`
	Status         string   `json:"status"`
	WeightVersions []string `json:"weight_versions"`
	Metadata       string   `json:"metadata"`
}

// VerlPrompt is a message of a prompt.
type VerlPrompt struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Key is the row's id.
func (r VerlSample) Key() string { return r.ID }

// Schema is "verl_sample", version 1.
func (VerlSample) Schema() (string, int) { return "verl_sample", 1 }

// Verl is a row with tokens in verl's columns.
func Verl(r record.RLSample) VerlSample {
	cut := len(r.Tokens) - int(r.ResponseLength)
	v := VerlSample{
		ID: r.ID, UID: r.GroupID, Index: r.Index, DataSource: r.Source, Prompts: r.Tokens[:cut], Responses: r.Tokens[cut:],
		AttentionMask: make([]int8, len(r.Tokens)), ResponseMask: r.LossMask, OldLogProbs: r.LogProbs, Advantages: []float32{},
		Reward: r.Reward, NumTurns: int64(len(r.Spans)), RawPrompt: []VerlPrompt{},
		Extra: VerlExtra{r.Index, r.TaskID, r.RolloutID, r.Branch, r.Branches, r.Status, r.WeightVersions, r.Metadata},
	}
	for i := range v.AttentionMask {
		v.AttentionMask[i] = 1
	}
	if r.Advantage != nil {
		for _, m := range r.LossMask {
			v.Advantages = append(v.Advantages, float32(*r.Advantage)*float32(m))
		}
	}
	for _, m := range r.Prompt {
		v.RawPrompt = append(v.RawPrompt, VerlPrompt{m.Role, m.Content})
	}
	return v
}
