// Package rule decides from what a task's tests said, with its gold patch and without any,
// whether the task is fit to be used. It is pure: it runs nothing and knows no sandbox.
package rule

import (
	"orchard/datasets/record"
	"orchard/internal/grade"
)

// Run is one grading, as it is kept.
type Run struct {
	ID       string              `json:"id"`
	Outcome  record.Outcome      `json:"outcome"`
	Fault    string              `json:"fault"`  // ImageRefused or OutOfMemory, "" for neither
	Reason   string              `json:"reason"` // a sentence for people
	Required []record.TestResult `json:"required"`
	All      map[string]string   `json:"all"` // status of every test that was reported
	Log      record.Text         `json:"log"`
	Network  string              `json:"network"` // line of the log that speaks of a missing network

	DurationMS int64  `json:"duration_ms"`
	TestsMS    *int64 `json:"tests_ms"`
	PeakBytes  *int64 `json:"peak_bytes"`
}

// Key is the run's id.
func (r Run) Key() string { return r.ID }

// Schema is "admission_run", version 1.
func (Run) Schema() (string, int) { return "admission_run", 1 }

// Reasons of a quarantine.
const (
	GoldUnresolved  = "gold_unresolved"       // every gold run failed
	GoldFlaky       = "gold_flaky"            // the gold runs do not say the same
	GoldPatchFailed = "gold_patch_failed"     // the gold patch does not apply
	GoldPatchEmpty  = "gold_patch_empty"      // there is none
	NoFailToPass    = "no_fail_to_pass_fails" // without a patch nothing fails that should
	EmptyFlaky      = "empty_flaky"           // the runs without a patch do not say the same
	TestTimeout     = "test_timeout"          // the tests did not end in time
	NoTestsRan      = "no_tests_ran"          // the runner never started
	OutOfMemory     = "out_of_memory"         // the tests need more than --sandbox-memory
	ImageRefused    = "image_refused"         // the task's image will never start
	TaskInvalid     = "task_invalid"          // the task itself cannot be graded
)

// ended reports whether the tests of a run came to their end, so that a test it does not
// name is known to be missing.
func (r Run) ended() bool {
	return r.Outcome == record.Resolved || r.Outcome == record.Unresolved || r.Outcome == record.Partial
}

// kind is what a run said, in the words of a quarantine's reason; "" when its tests ended.
func (r Run) kind() string {
	switch {
	case r.Fault != "":
		return r.Fault
	case r.ended():
		return ""
	case r.Outcome == record.PatchFailed:
		return GoldPatchFailed
	case r.Outcome == record.EmptyPatch:
		return GoldPatchEmpty
	}
	return string(r.Outcome) // test_timeout, no_tests_ran, task_invalid
}

// A run without a patch says of fail_to_pass one of three things.
const (
	breaks  = iota // a test of it does not pass
	intact         // all of them pass
	unknown        // the tests did not come to an end
)

// base is what a run without a patch says. hangs takes tests that do not end for failing.
func (r Run) base(hangs bool) int {
	for _, t := range r.Required {
		if t.Kind != grade.FailToPass || grade.Passes(t) {
			continue
		}
		said := r.All[t.Name]
		if r.ended() || r.Outcome == record.TestTimeout && (said == record.TestFailed || said == record.TestError) {
			return breaks
		}
	}
	switch {
	case r.ended():
		return intact
	case hangs && r.Outcome == record.TestTimeout:
		return breaks
	}
	return unknown
}

// NotPassed is the required tests that did not pass.
func (r Run) NotPassed() []record.TestResult {
	list := []record.TestResult{}
	for _, t := range r.Required {
		if !grade.Passes(t) {
			list = append(list, t)
		}
	}
	return list
}
