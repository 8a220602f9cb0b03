package grade

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"orchard/datasets/record"
	"orchard/internal/grade/parsers"
)

// The kinds of required tests.
const (
	FailToPass = "fail_to_pass"
	PassToPass = "pass_to_pass"
)

// judge sets the outcome, reason and tests of f from what the test commands said.
// tampered are the task's test files that are no longer what they were.
func (a *attempt) judge(f *finding, runs []ran, tampered []string) {
	seen := merge(runs)
	f.all, f.took = seen.Tests, took(runs)
	f.tests = required(a.task, seen)
	missing := slices.ContainsFunc(f.tests, func(t record.TestResult) bool { return t.Status == record.TestMissing })
	last := runs[len(runs)-1]
	switch {
	case last.timedOut:
		f.outcome = record.TestTimeout
		f.reason = fmt.Sprintf("the tests did not end within %s", a.g.timeout(a.task))
	case !seen.Started, missing && notStarted(runs) != "":
		f.outcome, f.retry = record.NoTestsRan, true
		f.reason = fmt.Sprintf("the test runner did not start: %s", notStarted(runs))
	case len(tampered) > 0:
		f.outcome = record.Unresolved
		f.reason = "test files changed while the tests ran: " + first(tampered, 3)
	default:
		f.outcome, f.reason = rule(f.tests, seen)
	}
}

// merge is what all commands said together, of two answers for one test the worse. A
// command that failed although no test of it did is a doubt.
func merge(runs []ran) parsers.Result {
	all := parsers.Result{Tests: map[string]string{}}
	for i, r := range runs {
		for name, status := range r.result.Tests {
			all.Tests[name] = parsers.Worse(all.Tests[name], status)
		}
		all.Started = all.Started || r.result.Started
		all.Broken = cmp.Or(all.Broken, r.result.Broken)
		all.Doubts = append(all.Doubts, r.result.Doubts...)
		if r.exit != 0 && !r.timedOut && !r.result.Failed() && r.result.Broken == "" {
			all.Doubts = append(all.Doubts, fmt.Sprintf("test command %d ended with exit code %d though no test failed", i+1, r.exit))
		}
	}
	return all
}

// notStarted names the first command whose runner gave no sign of life, "" for none.
func notStarted(runs []ran) string {
	for i, r := range runs {
		if !r.result.Started {
			return fmt.Sprintf("command %d (%s) ended with exit code %d and no output of the runner", i+1, r.command, r.exit)
		}
	}
	return ""
}

// required is what became of each test that the task asks for, by name and kind. One
// that is in no log is an error where something kept tests from being found, such as
// a package that does not compile, else missing.
func required(task record.Task, seen parsers.Result) []record.TestResult {
	cut := strings.HasPrefix(task.LogParser, "pytest")
	var tests []record.TestResult
	for kind, names := range map[string][]string{FailToPass: task.FailToPass, PassToPass: task.PassToPass} {
		for _, name := range names {
			status := lookup(seen.Tests, name, cut)
			if status == "" {
				status = record.TestMissing
				if seen.Broken != "" {
					status = record.TestError
				}
			}
			tests = append(tests, record.TestResult{Name: name, Kind: kind, Status: status})
		}
	}
	slices.SortFunc(tests, func(x, y record.TestResult) int {
		return cmp.Or(strings.Compare(x.Name, y.Name), strings.Compare(x.Kind, y.Kind))
	})
	return slices.Compact(tests)
}

// lookup is the status of a test. Some task sets have names of pytest that were cut
// within the parameters; such a name stands for all tests that begin with it, and has
// the worst of their statuses.
func lookup(tests map[string]string, name string, cut bool) string {
	if status, ok := tests[name]; ok || !cut || !strings.Contains(name, "[") || strings.HasSuffix(name, "]") {
		return status
	}
	worst := ""
	for full, status := range tests {
		if strings.HasPrefix(full, name) {
			worst = parsers.Worse(worst, status)
		}
	}
	return worst
}

// Passes is whether a status is good enough: passed, or failed as the test itself
// expects. A skipped test keeps a pass_to_pass promise and proves no fix.
func Passes(t record.TestResult) bool {
	switch t.Status {
	case record.TestPassed, record.TestXFail, record.TestXPass:
		return true
	case record.TestSkipped:
		return t.Kind == PassToPass
	}
	return false
}

// rule is the verdict on tests that ran: resolved when all required ones pass, partial
// when of fail_to_pass only some do.
func rule(tests []record.TestResult, seen parsers.Result) (record.Outcome, string) {
	var bad []string
	fixed, broken, wanted := 0, 0, 0
	for _, t := range tests {
		if t.Kind == FailToPass {
			wanted++
		}
		switch {
		case !Passes(t):
			bad = append(bad, t.Name+" "+t.Status)
			if t.Kind == PassToPass {
				broken++
			}
		case t.Kind == FailToPass:
			fixed++
		}
	}
	reason := fmt.Sprintf("%d of %d required tests did not pass: %s", len(bad), len(tests), first(bad, 3))
	if seen.Broken != "" {
		reason += " (" + seen.Broken + ")"
	}
	switch {
	case len(bad) == 0 && len(seen.Doubts) > 0:
		return record.Unresolved, "the required tests passed, but " + first(seen.Doubts, 3)
	case len(bad) == 0:
		return record.Resolved, fmt.Sprintf("all %d required tests passed", len(tests))
	case fixed > 0 && fixed < wanted && broken == 0 && len(seen.Doubts) == 0:
		return record.Partial, reason
	}
	return record.Unresolved, reason
}
