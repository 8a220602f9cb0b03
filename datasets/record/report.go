package record

// TaskReport is what a set of rollouts says of one task.
type TaskReport struct {
	TaskID   string `json:"task_id"`
	Source   string `json:"source"`
	Repo     string `json:"repo"`
	Language string `json:"language"`

	Rollouts int64          `json:"rollouts"`
	Known    int64          `json:"known"` // rollouts with a reward
	Resolved int64          `json:"resolved"`
	Outcomes []OutcomeCount `json:"outcomes"` // those that occurred, in the order of Outcomes

	Steps   int64    `json:"steps"`                    // of all rollouts
	Tokens  *int64   `json:"tokens" volatile:"true"`   // prompt and completion, nil when no server counted
	TotalMS int64    `json:"total_ms" volatile:"true"` // wall clock of all rollouts
	CostUSD *float64 `json:"cost_usd" volatile:"true"`
}

// Key is the task's id.
func (r TaskReport) Key() string { return r.TaskID }

// OutcomeCount is how often an outcome occurred.
type OutcomeCount struct {
	Outcome Outcome `json:"outcome"`
	Count   int64   `json:"count"`
}

// Schema is the row's schema name and version.
func (TaskReport) Schema() (string, int) { return "task_report", 1 }
