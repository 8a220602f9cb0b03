package record

// Outcome is what grading a diff said. "It failed" and "we could not find out" are
// different outcomes.
type Outcome string

// The outcomes. The first six have a reward, the others have none.
const (
	Resolved    Outcome = "resolved"     // every required test passed
	Unresolved  Outcome = "unresolved"   // a required test failed, errored or is missing
	Partial     Outcome = "partial"      // some of fail_to_pass, all of pass_to_pass
	EmptyPatch  Outcome = "empty_patch"  // nothing to grade; the tests were not run
	PatchFailed Outcome = "patch_failed" // the diff does not apply
	TestTimeout Outcome = "test_timeout" // the tests did not end in time

	NoTestsRan  Outcome = "no_tests_ran" // the test runner never started
	InfraError  Outcome = "infra_error"  // sandbox, store or network trouble: retried
	TaskInvalid Outcome = "task_invalid" // the task itself cannot be graded
	NotGraded   Outcome = "not_graded"   // imported from a source that does not say
)

// Reward is 1 for Resolved, 0 for the other outcomes that say something about the
// diff, nil where we do not know.
func (o Outcome) Reward() *float64 {
	r := 0.0
	switch o {
	case Resolved:
		r = 1
	case Unresolved, Partial, EmptyPatch, PatchFailed, TestTimeout:
	default:
		return nil
	}
	return &r
}

// Outcomes is every outcome in the order of reports.
var Outcomes = []Outcome{Resolved, Partial, Unresolved, EmptyPatch, PatchFailed, TestTimeout, NoTestsRan, InfraError, TaskInvalid, NotGraded}

// Verdict is an outcome with its evidence.
type Verdict struct {
	Outcome     Outcome      `json:"outcome"`
	Reward      *float64     `json:"reward"`
	Reason      string       `json:"reason"`       // a sentence for people
	Grader      string       `json:"grader"`       // id and version of the grading rules
	Parser      string       `json:"parser"`       // that read the test output
	ApplyMethod string       `json:"apply_method"` // how the diff was applied; "" when it was not
	Dropped     []string     `json:"dropped"`      // paths of hunks left out, each with why
	Tests       []TestResult `json:"tests"`        // required tests, sorted by name
	Log         Text         `json:"log" volatile:"true"`
	DurationMS  int64        `json:"duration_ms" volatile:"true"`
}

// The states of a test. A required test that is in no log is Missing.
const (
	TestPassed  = "passed"
	TestFailed  = "failed"
	TestError   = "error"
	TestSkipped = "skipped"
	TestXFail   = "xfail"
	TestXPass   = "xpass"
	TestMissing = "missing"
)

// TestResult is what became of one required test.
type TestResult struct {
	Name   string `json:"name"`
	Kind   string `json:"kind"` // "fail_to_pass" or "pass_to_pass"
	Status string `json:"status"`
}
