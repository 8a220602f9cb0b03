package record

// Draw is one rollout of a task as the stages see it that decide by several of them:
// enough to decide again without the trajectory.
type Draw struct {
	RolloutID string   `json:"rollout_id"`
	Index     int64    `json:"index"`
	Outcome   Outcome  `json:"outcome"`
	Reward    *float64 `json:"reward"` // nil: not known
	Status    string   `json:"status"` // completed, truncated, time_exceeded, aborted
	// Length is how long the answers are together: in tokens where the server gave their
	// ids, else in bytes.
	Length  int64  `json:"length"`
	Member  bool   `json:"member"`                  // of the group that was chosen
	Trouble string `json:"trouble" volatile:"true"` // why nothing is known of an infra_error
}

// PassRate is how often a policy solves a task, as far as that was found out.
type PassRate struct {
	PassRateID    string `json:"pass_rate_id"` // seal.ID(task_id, policy, harness, weight_version)
	TaskID        string `json:"task_id"`
	Source        string `json:"source"`
	Repo          string `json:"repo"`
	Language      string `json:"language"`
	Policy        string `json:"policy"`
	Harness       string `json:"harness"`
	WeightVersion string `json:"weight_version"` // as the stage was told; "" when it was not

	Wanted  int64  `json:"wanted"` // draws of a full estimate
	Draws   []Draw `json:"draws"`  // by index
	Valid   int64  `json:"valid"`  // draws with a reward
	Passed  int64  `json:"passed"`
	Unknown int64  `json:"unknown"` // draws without one

	Rate *float64 `json:"rate"` // Passed/Valid; nil when no draw has a reward
	Low  *float64 `json:"low"`  // 95 % score interval (Wilson 1927) of Passed of Valid
	High *float64 `json:"high"`

	Decision string `json:"decision"` // one of the Pool constants
	Early    bool   `json:"early"`    // decided before all were drawn, as no further draw could change it
	Reason   string `json:"reason"`   // a sentence for people
	Usage    Usage  `json:"usage" volatile:"true"`
}

// Whether a task is one of the pool that reinforcement learning draws from.
const (
	PoolKeep    = "keep"
	PoolDrop    = "drop"
	PoolUnknown = "unknown" // too few draws have a reward
)

// Key is the estimate's id.
func (r PassRate) Key() string { return r.PassRateID }

// Schema is "pass_rate", version 1.
func (PassRate) Schema() (string, int) { return "pass_rate", 1 }

// Group is the rollouts of one task that one gradient step uses, and those that were
// drawn and left.
type Group struct {
	GroupID       string `json:"group_id"` // seal.ID(task_id, policy, harness, weight_version, round)
	TaskID        string `json:"task_id"`
	Source        string `json:"source"`
	Repo          string `json:"repo"`
	Language      string `json:"language"`
	Policy        string `json:"policy"`
	Harness       string `json:"harness"`
	WeightVersion string `json:"weight_version"`
	Round         int64  `json:"round"`
	Place         int64  `json:"place"` // of the task among those of the round

	Strategy string `json:"strategy"` // bar, fixed, dapo
	Kind     string `json:"kind"`     // strict, relaxed, degenerate, fixed; "" when there is no group
	Usable   bool   `json:"usable"`   // all members can be trained on, and their rewards differ
	Reason   string `json:"reason"`   // why there is no group
	Draws    []Draw `json:"draws"`    // by index, members and others
	Members  int64  `json:"members"`
	Passed   int64  `json:"passed"` // of the members
	Usage    Usage  `json:"usage" volatile:"true"`
}

// Key is the group's id.
func (r Group) Key() string { return r.GroupID }

// Schema is "group", version 1.
func (Group) Schema() (string, int) { return "group", 1 }
