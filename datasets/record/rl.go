package record

// RLSample is one row of reinforcement learning: what one member of a group sampled, as
// far as it is one token sequence. A trajectory is several rows where a step's prompt
// does not begin with what was before: Branch counts them.
//
// A row whose model server gave no token ids has no tokens, TokenSource TokensNone, and
// the conversation in Messages with a mask for each.
type RLSample struct {
	ID         string `json:"id"` // seal.ID(group_id, rollout_id, branch)
	GroupID    string `json:"group_id"`
	GroupIndex int64  `json:"group_index"` // of the group in this dataset, from 0
	Index      int64  `json:"index"`       // of the row in this dataset, from 0; the rows of a group are neighbours
	TaskID     string `json:"task_id"`
	RolloutID  string `json:"rollout_id"`
	Source     string `json:"source"`
	Repo       string `json:"repo"`
	Language   string `json:"language"`
	Policy     string `json:"policy"`
	Harness    string `json:"harness"`

	Member   int64 `json:"member"`   // of the group, from 0
	Members  int64 `json:"members"`  // of the group
	Branch   int64 `json:"branch"`   // of the trajectory, from 0
	Branches int64 `json:"branches"` // of the trajectory; a row's share of it is 1/Branches

	Tokens         []int32   `json:"tokens"` // the prompt and the response
	ResponseLength int64     `json:"response_length"`
	LossMask       []int8    `json:"loss_mask"`         // of the response; 1 only where the policy sampled the token
	LogProbs       []float32 `json:"rollout_log_probs"` // of the response, 0 where the mask is 0; empty when LogProbSource is TokensNone
	Spans          []RLSpan  `json:"spans"`             // what each step sampled; the mask says the same
	Trained        int64     `json:"trained"`           // ones in the mask, of LossMask or of Messages
	TokenSource    string    `json:"token_source"`      // one of the Tokens constants
	LogProbSource  string    `json:"log_prob_source"`
	NTokens        *int64    `json:"n_tokens" volatile:"true"` // of a row without tokens, as the server counted

	Prompt   []RLMessage `json:"prompt"`   // the opening messages
	Messages []RLMessage `json:"messages"` // the whole conversation of a row without tokens; else empty
	Tools    string      `json:"tools"`    // JSON array, "" for none

	Reward     float64  `json:"reward"`
	Advantage  *float64 `json:"advantage"` // the same for all branches of a trajectory; nil when none was asked for
	Outcome    Outcome  `json:"outcome"`
	Status     string   `json:"status"` // of the draw: completed, truncated, time_exceeded, aborted
	ExitStatus string   `json:"exit_status"`
	Grader     string   `json:"grader"`
	Parser     string   `json:"parser"`

	WeightVersion  string   `json:"weight_version"`  // of all steps; "" when they differ or nobody knows
	WeightVersions []string `json:"weight_versions"` // that occur in the row, in the order of their first step; "" is not known
	WeightMixed    bool     `json:"weight_mixed"`    // there is more than one

	Metadata string `json:"metadata"` // JSON object
}

// Where token ids and log-probabilities came from.
const (
	TokensServer = "server"
	TokensNone   = "none"
)

// Key is the row's id.
func (r RLSample) Key() string { return r.ID }

// Schema is "rl_sample", version 1.
func (RLSample) Schema() (string, int) { return "rl_sample", 1 }

// RLSpan is what one step sampled, as a half-open range: of tokens, counted from the
// response's first, or of Messages in a row without tokens.
type RLSpan struct {
	Step  int64 `json:"step"`
	Begin int64 `json:"begin"`
	End   int64 `json:"end"`
}

// RLMessage is a message in the shape of the OpenAI chat format, plus its mask.
type RLMessage struct {
	Role       string        `json:"role"`
	Content    string        `json:"content"`
	Reasoning  string        `json:"reasoning_content"`
	ToolCalls  []SFTToolCall `json:"tool_calls"`
	ToolCallID string        `json:"tool_call_id"`
	LossMask   int8          `json:"loss_mask"`
}

// RLPrompt is a task as trainers take it that roll out by themselves.
type RLPrompt struct {
	ID        string `json:"id"` // the task's
	TaskID    string `json:"task_id"`
	Index     int64  `json:"index"` // of the row in this dataset, from 0
	Source    string `json:"source"`
	Repo      string `json:"repo"`
	Language  string `json:"language"`
	Statement string `json:"problem_statement"`
	Label     string `json:"label"`    // the gold patch; "" when it was left out. Never a part of the prompt
	Metadata  string `json:"metadata"` // JSON object: what the trainer's environment and grader need

	// Of the pass-rate estimate; null without one.
	PassRate      *float64 `json:"pass_rate"`
	Rollouts      *int64   `json:"n_rollouts"` // that were drawn
	Passed        *int64   `json:"n_pass"`
	Infra         *int64   `json:"n_infra"` // drawn without a reward
	Policy        string   `json:"policy"`  // that was estimated
	Harness       string   `json:"harness"`
	WeightVersion string   `json:"weight_version"`
}

// Key is the row's id.
func (r RLPrompt) Key() string { return r.ID }

// Schema is "rl_prompt", version 1.
func (RLPrompt) Schema() (string, int) { return "rl_prompt", 1 }
