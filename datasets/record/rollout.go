package record

// Rollout is one attempt of a policy at a task: what happened, what it changed, and
// what grading said of that.
type Rollout struct {
	RolloutID string `json:"rollout_id"` // seal.ID(task_id, policy, harness, index)
	TaskID    string `json:"task_id"`
	Source    string `json:"source"`
	Repo      string `json:"repo"`
	Language  string `json:"language"`
	Policy    string `json:"policy"`  // the model's name, or "scripted"
	Harness   string `json:"harness"` // "mini-swe-v2", …
	Index     int64  `json:"index"`   // 0-based among the rollouts of one task, policy and harness
	Seed      int64  `json:"seed"`

	Trajectory Trajectory `json:"trajectory"`
	Verdict    Verdict    `json:"verdict"`

	Usage Usage `json:"usage" volatile:"true"`
	Span  Span  `json:"span" volatile:"true"`

	Raw *string `json:"raw"` // the imported row as JSON, for a round trip; nil for rollouts of our own
}

// Key is the rollout's id.
func (r Rollout) Key() string { return r.RolloutID }

// Schema is "rollout", version 1.
func (Rollout) Schema() (string, int) { return "rollout", 1 }

// How a trajectory ended.
const (
	ExitSubmitted       = "submitted"
	ExitStepLimit       = "step_limit"
	ExitTokenLimit      = "token_limit" // context or token budget
	ExitCostLimit       = "cost_limit"
	ExitTimeLimit       = "time_limit"
	ExitRepeatedFormat  = "repeated_format_error" // too many malformed calls in a row
	ExitStuck           = "stuck"                 // the same action again and again
	ExitContentFiltered = "content_filtered"
	ExitMissing         = "missing_prediction" // of predictions of another system: it has none for the task
)

// Trajectory is the conversation of one rollout, step by step.
type Trajectory struct {
	ExitStatus string    `json:"exit_status"` // one of the Exit constants
	ExitDetail string    `json:"exit_detail"`
	TemplateID string    `json:"template_id"` // which prompts were used
	Tools      string    `json:"tools"`       // JSON array of the tool definitions given to the model, "" for none
	Messages   []Message `json:"messages"`
	Steps      []Step    `json:"steps"`
	// Diff is what the working tree had changed against the base commit at the end,
	// taken even when nothing was submitted.
	Diff       Text   `json:"diff"`
	DiffSHA256 string `json:"diff_sha256"` // of the exact bytes; of nothing for an empty diff
	Submission Text   `json:"submission"`  // what the policy handed in, when the protocol has it hand in something
	// StepDiffs is the diffs that Step.DiffSHA256 names, nil where they were not kept.
	StepDiffs *StepDiffs `json:"step_diffs"`
}

// StepDiffs is diffs of the working tree on the way, each a blob under its sha256.
type StepDiffs struct {
	Kept []StepDiff `json:"kept"` // without the empty one, in the order of their first step
}

// StepDiff is the exact bytes of a diff.
type StepDiff struct {
	SHA256 string `json:"sha256" blob:"true"`
	Bytes  int64  `json:"bytes"`
}

// Message is one turn as the model saw or wrote it.
type Message struct {
	Role       string     `json:"role"` // system, user, assistant, tool
	Content    string     `json:"content"`
	Reasoning  string     `json:"reasoning_content"`
	ToolCalls  []ToolCall `json:"tool_calls"`
	ToolCallID string     `json:"tool_call_id"`
	Step       int64      `json:"step"` // index into Steps, -1 for the opening messages
	// Kept is false for a message that was recorded but is not part of the
	// conversation that the model saw next (a rejected malformed answer).
	Kept bool `json:"kept"`
}

// ToolCall is a call that the model asked for. Arguments is a JSON string, as sent.
type ToolCall struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// Step is one answer of the model and what came of it.
type Step struct {
	FinishReason     string    `json:"finish_reason"` // raw, from the server
	FormatError      string    `json:"format_error"`  // "" when the answer could be followed
	Actions          []Action  `json:"actions"`
	DiffSHA256       string    `json:"diff_sha256"` // of the working tree after the step; "" when it could not be taken
	PromptTokenIDs   []int32   `json:"prompt_token_ids"`
	CompletionIDs    []int32   `json:"completion_token_ids"`
	LogProbs         []float32 `json:"log_probs"` // of CompletionIDs
	WeightVersion    string    `json:"weight_version"`
	PromptTokens     *int64    `json:"prompt_tokens" volatile:"true"`
	CompletionTokens *int64    `json:"completion_tokens" volatile:"true"`
	ModelMS          int64     `json:"model_ms" volatile:"true"`
}

// Action is one command that a step ran.
type Action struct {
	Command     string `json:"command"`
	ToolCallID  string `json:"tool_call_id"`
	ExitCode    *int64 `json:"exit_code"` // nil when it was not run
	TimedOut    bool   `json:"timed_out"`
	Observation Text   `json:"observation" volatile:"true"` // raw, before the harness shortened it
	DurationMS  int64  `json:"duration_ms" volatile:"true"`
}
