package record

// SFTRow is one training example: a conversation with a loss mask per message. The
// mask is written under the five names that trainers read; all carry the same value.
type SFTRow struct {
	ID                 string       `json:"id"` // the rollout's id
	TaskID             string       `json:"task_id"`
	TrajectoryID       string       `json:"trajectory_id"`
	Harness            string       `json:"harness"`
	Teacher            string       `json:"teacher"`
	Resolved           bool         `json:"resolved"`
	Messages           []SFTMessage `json:"messages"`
	Tools              string       `json:"tools"`                // JSON array, "" when the harness has none
	ChatTemplateKwargs string       `json:"chat_template_kwargs"` // JSON object
	NTokens            *int64       `json:"n_tokens"`             // of the last prompt and answer, as the server counted
	Segments           []Segment    `json:"segments"`             // message ranges [begin, end) that are trained
	Metadata           string       `json:"metadata"`             // JSON object
}

// Key is the row's id.
func (r SFTRow) Key() string { return r.ID }

// Schema is "sft", version 1.
func (SFTRow) Schema() (string, int) { return "sft", 1 }

// Segment is a half-open range of indexes: of messages in an SFTRow, of steps in a Credit.
type Segment struct {
	Begin int64 `json:"begin"`
	End   int64 `json:"end"`
}

// SFTMessage is a message in the shape of the OpenAI chat format, plus its mask.
type SFTMessage struct {
	Role         string        `json:"role"`
	Content      string        `json:"content"`
	Reasoning    string        `json:"reasoning_content"`
	ToolCalls    []SFTToolCall `json:"tool_calls"`
	ToolCallID   string        `json:"tool_call_id"`
	Name         string        `json:"name"`
	StepLossMask int8          `json:"step_loss_mask"` // slime
	Loss         bool          `json:"loss"`           // ms-swift
	LossScale    float64       `json:"loss_scale"`     // ms-swift
	Train        bool          `json:"train"`          // axolotl
	LossMask     int8          `json:"loss_mask"`      // verl
}

// SFTToolCall is a call in the OpenAI shape; Arguments stays a JSON string so that
// Arrow does not merge the arguments of all tools into one struct.
type SFTToolCall struct {
	ID       string      `json:"id"`
	Type     string      `json:"type"` // "function"
	Function SFTFunction `json:"function"`
}

// SFTFunction names the function and its arguments.
type SFTFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}
