package record

// Credit is what is known of the worth of a rollout's steps: how likely success was in
// every state, and which steps made it likelier and are to be trained.
//
// A trajectory of n steps has n+1 states: state t is what there is before step t, state n
// what there is after the last. A value, or a credit, that is not known is null.
type Credit struct {
	RolloutID string  `json:"rollout_id"`
	TaskID    string  `json:"task_id"`
	Policy    string  `json:"policy"`
	Harness   string  `json:"harness"`
	Outcome   Outcome `json:"outcome"` // of the rollout
	// Trajectory is seal.Sum of the rollout's messages: ids are those of the place in a
	// run, so two runs give the same id to different trajectories.
	Trajectory string `json:"trajectory_sha256"`
	Steps      int64  `json:"steps"`

	Method     string `json:"method"`      // CreditTeacher or CreditExecution
	Status     string `json:"status"`      // one of the Credit constants below
	Annotator  string `json:"annotator"`   // the model that was asked, "" for none
	TemplateID string `json:"template_id"` // of the question

	Moment   string     `json:"moment"`    // key steps speak of: "before" or "after" the step was taken; "" where nobody was asked
	Keys     []KeyStep  `json:"key_steps"` // of CreditTeacher, in order
	Values   []*float64 `json:"values"`    // of the states; empty when there is no curve
	Credits  []*float64 `json:"credits"`   // of the steps: value after less value before
	Rises    []Segment  `json:"rises"`     // steps whose credit is a rise, before they are joined and padded
	Segments []Segment  `json:"segments"`  // steps to train: apart, in order
	Trained  []int64    `json:"trained"`   // the same, step by step

	Answers     []CreditAnswer `json:"answers"`      // of the annotator, in order
	PromptChars int64          `json:"prompt_chars"` // of the question
	CutParts    int64          `json:"cut_parts"`    // texts in it that were shortened
	CutChars    int64          `json:"cut_chars"`    // characters left out of them

	Grades []DiffGrade `json:"grades"` // of CreditExecution, each distinct diff in the order of its first step

	Usage Usage `json:"usage" volatile:"true"`
}

// Key is the rollout's id.
func (c Credit) Key() string { return c.RolloutID }

// Schema is "credit", version 1.
func (Credit) Schema() (string, int) { return "credit", 1 }

// How values are found.
const (
	CreditTeacher   = "teacher"   // the policy itself says, knowing the outcome
	CreditExecution = "execution" // the share of fail_to_pass tests that pass with the diff of each state
)

// What became of a rollout. With the first two, segments say what to train, with the
// third all of it; with the others nothing is to be trained.
const (
	CreditAnnotated = "annotated"         // the annotator's answer kept all rules
	CreditMeasured  = "measured"          // by execution, as far as it is known
	CreditNotNeeded = "not_needed"        // resolved: trained whole
	CreditFailed    = "annotation_failed" // no answer kept all rules
	CreditTooShort  = "too_short"         // fewer steps than an answer must name
	CreditUnknown   = "unknown"           // no state but the first has a known value
)

// KeyStep is what the annotator says of a step.
type KeyStep struct {
	Step        int64   `json:"step"`
	Probability float64 `json:"probability"` // of success in the end
	Reasoning   string  `json:"reasoning"`
}

// CreditAnswer is one answer of the annotator, and why it was not taken.
type CreditAnswer struct {
	Reason string `json:"reason"` // "" for the one that was
	Detail string `json:"detail"` // what the annotator was told
	Answer Text   `json:"answer"`
}

// DiffGrade is what the tests say of the diff of one or more states.
type DiffGrade struct {
	DiffSHA256 string   `json:"diff_sha256"`
	Outcome    Outcome  `json:"outcome"` // "" when the diff was not graded
	Value      *float64 `json:"value"`   // share of fail_to_pass tests that pass
	Passed     int64    `json:"passed"`
	Tests      int64    `json:"tests"` // that are in fail_to_pass
	Reason     string   `json:"reason"`
}
