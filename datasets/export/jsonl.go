package export

import (
	"encoding/json"

	"orchard/datasets/record"
)

// chatMessage is an SFTMessage as chat templates want it: a key that means nothing on
// a message is absent, since templates test `if message.tool_calls`.
type chatMessage struct {
	Role         string               `json:"role"`
	Content      string               `json:"content"`
	Reasoning    string               `json:"reasoning_content,omitempty"`
	ToolCalls    []record.SFTToolCall `json:"tool_calls,omitempty"`
	ToolCallID   string               `json:"tool_call_id,omitempty"`
	Name         string               `json:"name,omitempty"`
	StepLossMask int8                 `json:"step_loss_mask"`
	Loss         bool                 `json:"loss"`
	LossScale    float64              `json:"loss_scale"`
	Train        bool                 `json:"train"`
	LossMask     int8                 `json:"loss_mask"`
}

// JSONLine is one line of an SFT file, newline included. Tools and metadata are JSON
// text, as in the Parquet file, so that a loader sees one type in every row.
func JSONLine(r record.SFTRow) ([]byte, error) {
	messages := make([]chatMessage, len(r.Messages))
	for i, m := range r.Messages {
		messages[i] = chatMessage(m)
	}
	b, err := json.Marshal(struct {
		ID                 string           `json:"id"`
		TaskID             string           `json:"task_id"`
		TrajectoryID       string           `json:"trajectory_id"`
		Harness            string           `json:"harness"`
		Teacher            string           `json:"teacher"`
		Resolved           bool             `json:"resolved"`
		Messages           []chatMessage    `json:"messages"`
		Tools              string           `json:"tools"`
		ChatTemplateKwargs string           `json:"chat_template_kwargs"`
		NTokens            *int64           `json:"n_tokens"`
		Segments           []record.Segment `json:"segments"`
		Metadata           string           `json:"metadata"`
	}{r.ID, r.TaskID, r.TrajectoryID, r.Harness, r.Teacher, r.Resolved, messages, r.Tools,
		r.ChatTemplateKwargs, r.NTokens, r.Segments, r.Metadata})
	return append(b, '\n'), err
}
