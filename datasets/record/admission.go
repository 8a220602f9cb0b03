package record

// Admission says whether a task is fit to train and to measure with, and on what evidence:
// its gold patch and no patch at all, each graded several times in fresh sandboxes.
type Admission struct {
	AdmissionID string `json:"admission_id"` // seal.ID("admission", task_id): a task's id may hold any character
	TaskID      string `json:"task_id"`
	Source      string `json:"source"`
	Repo        string `json:"repo"`
	Language    string `json:"language"`

	Admitted bool   `json:"admitted"`
	Reason   string `json:"reason"` // why it is quarantined, in snake_case; "" when it is admitted
	Detail   string `json:"detail"` // a sentence for people
	// NetworkHint is a line of a log that makes it likely that the tests want a network,
	// which sandboxes do not have; "" when there is none. It is a guess, and no reason.
	NetworkHint string `json:"network_hint"`

	Repeats    int64          `json:"repeats"`
	GoldRuns   []AdmissionRun `json:"gold_runs"`
	EmptyRuns  []AdmissionRun `json:"empty_runs"`
	Flaky      []FlakyTest    `json:"flaky"`       // required ones first, then by name
	FlakyCount int64          `json:"flaky_count"` // all of them; the list may be cut

	ContentSHA256 string `json:"content_sha256"` // of the columns that decide a grading
	Grader        string `json:"grader"`
	Image         string `json:"image"` // in which it was graded

	TestsMedianMS *int64 `json:"tests_median_ms" volatile:"true"` // of the test commands, over all runs; nil when none ran
	TestsMaxMS    *int64 `json:"tests_max_ms" volatile:"true"`
	PeakBytes     *int64 `json:"peak_bytes" volatile:"true"` // most memory that a sandbox had; nil where it cannot be known
	TotalMS       int64  `json:"total_ms" volatile:"true"`   // of all gradings, with making their sandboxes
}

// Key is the row's id.
func (a Admission) Key() string { return a.AdmissionID }

// Schema is "admission", version 1.
func (Admission) Schema() (string, int) { return "admission", 1 }

// AdmissionRun is one grading of a task's gold patch, or of nothing.
type AdmissionRun struct {
	Repeat    int64        `json:"repeat"` // from 1
	Outcome   Outcome      `json:"outcome"`
	Reason    string       `json:"reason"`     // a sentence for people
	NotPassed []TestResult `json:"not_passed"` // required tests
	Differs   []string     `json:"differs"`    // tests with another status than in the first such run
	Log       Text         `json:"log" volatile:"true"`

	DurationMS int64  `json:"duration_ms" volatile:"true"`
	TestsMS    *int64 `json:"tests_ms" volatile:"true"` // nil when no test command ran
	PeakBytes  *int64 `json:"peak_bytes" volatile:"true"`
}

// FlakyTest is a test that says one thing and then another of the same code. The statuses
// are those of the runs whose tests came to an end, in their order.
type FlakyTest struct {
	Name  string   `json:"name"`
	Kind  string   `json:"kind"` // "fail_to_pass" or "pass_to_pass", "" when it is not required
	Gold  []string `json:"gold"`
	Empty []string `json:"empty"`
}
