package record

// Evaluation is what the rollouts of one policy in one harness say, as a row of the history
// of a benchmark. Rates are null where too much is unknown for a headline; the bounds hold
// whatever the unknown rollouts are.
type Evaluation struct {
	EvaluationID string `json:"evaluation_id"` // seal.ID(policy, harness)
	Policy       string `json:"policy"`
	Harness      string `json:"harness"`

	Tasks    int64 `json:"tasks"`
	Rollouts int64 `json:"rollouts"` // that there should be
	Known    int64 `json:"known"`    // of them with a reward
	Resolved int64 `json:"resolved"`

	Rate     *float64 `json:"rate"`
	Low      *float64 `json:"low"` // of the 95 % interval
	High     *float64 `json:"high"`
	Interval string   `json:"interval"` // how it was made; "" without one
	Withheld string   `json:"withheld"` // why there is no rate
	Worst    float64  `json:"worst"`
	Best     float64  `json:"best"`
	Pass     []PassAt `json:"pass"`

	// Against the baseline; null without one, or where it does not have this system.
	Baseline      string   `json:"baseline"` // URI, with the digest
	Common        *int64   `json:"common_tasks"`
	NewlyResolved *int64   `json:"newly_resolved"`
	NewlyFailed   *int64   `json:"newly_failed"`
	McNemarP      *float64 `json:"mcnemar_p"` // null as well where either has no headline
	Difference    *float64 `json:"difference"`
}

// PassAt is pass@k and pass^k; null where they are not defined.
type PassAt struct {
	K   int64    `json:"k"`
	At  *float64 `json:"pass_at_k"`
	All *float64 `json:"pass_all_k"`
}

// Key is the row's id.
func (e Evaluation) Key() string { return e.EvaluationID }

// Schema is "evaluation", version 1.
func (Evaluation) Schema() (string, int) { return "evaluation", 1 }
