package rule

import (
	"cmp"
	"fmt"
	"slices"

	"orchard/datasets/record"
	"orchard/internal/grade"
)

// Rule is what a task has to show. The zero value admits nothing.
type Rule struct {
	Repeats   int  // runs with the gold patch, and as many without
	Strict    bool // no test at all may change its status, required or not
	HangFails bool // tests that do not end without the patch count as failing
	AllRuns   bool // do all runs, even when the task can no longer be admitted
}

// Arm is the gold patch, or none.
type Arm string

// The arms.
const (
	Gold  Arm = "gold"
	Empty Arm = "empty"
)

// Verdict is the answer. A reason is there as soon as something speaks against the task;
// without one it is admitted when all runs are done.
type Verdict struct {
	Admitted       bool
	Reason, Detail string
	arm            Arm // that spoils it
}

// Next is the run to do after those that are done, one run of each arm after the other;
// more is false when the verdict will not change.
//
// A task that can no longer be admitted gets a second run of the arm that spoils it, which
// tells what never works from what is flaky, and then no more. What has nothing to do with
// luck gets none: a patch that is empty or does not apply, a refused image, an invalid task.
func (r Rule) Next(gold, empty []Run) (arm Arm, more bool) {
	v := r.Judge(gold, empty)
	switch {
	case len(gold) >= r.Repeats && len(empty) >= r.Repeats:
		return "", false
	case v.Reason == "" || r.AllRuns:
		if len(gold) <= len(empty) {
			return Gold, true
		}
		return Empty, true
	}
	switch v.Reason {
	case GoldPatchFailed, GoldPatchEmpty, ImageRefused, TaskInvalid:
		return "", false
	}
	done := len(gold)
	if v.arm == Empty {
		done = len(empty)
	}
	return v.arm, done < min(2, r.Repeats)
}

// Judge is the verdict on the runs so far.
func (r Rule) Judge(gold, empty []Run) Verdict {
	v := r.gold(gold)
	if v.Reason == "" {
		v = r.empty(empty)
	}
	v.Admitted = v.Reason == "" && r.Repeats > 0 && len(gold) == r.Repeats && len(empty) == r.Repeats
	return v
}

// gold wants every run to be resolved, with the same statuses.
func (r Rule) gold(runs []Run) Verdict {
	bad, at, same := 0, 0, true
	for i, run := range runs {
		if run.Outcome != record.Resolved {
			if bad++; bad == 1 {
				at = i
			}
			same = same && run.kind() == runs[at].kind()
		}
	}
	against := func(reason, format string, a ...any) Verdict {
		return Verdict{Reason: reason, Detail: fmt.Sprintf(format, a...), arm: Gold}
	}
	switch {
	case bad == 0:
	case bad < len(runs):
		return against(GoldFlaky, "%d of %d runs with the gold patch were not resolved; run %d: %s: %s", bad, len(runs), at+1, runs[at].Outcome, runs[at].Reason)
	case !same:
		return against(GoldFlaky, "no run with the gold patch was resolved, and they do not say the same; run 1: %s: %s", runs[0].Outcome, runs[0].Reason)
	default:
		return against(cmp.Or(runs[0].kind(), GoldUnresolved), "with the gold patch, graded %s: %s", times(len(runs)), runs[0].Reason)
	}
	if name, a, b, ok := changed(runs, r.Strict); ok {
		return against(GoldFlaky, "with the gold patch %s is %s in one run and %s in another", name, a, b)
	}
	return Verdict{}
}

// empty wants fail_to_pass to be broken in every run.
func (r Rule) empty(runs []Run) Verdict {
	n := [3]int{}
	kinds := map[string]bool{}
	at := 0 // the first run that tells nothing
	for i, run := range runs {
		what := run.base(r.HangFails)
		if what == unknown {
			if n[unknown] == 0 {
				at = i
			}
			kinds[run.kind()] = true
		}
		n[what]++
	}
	against := func(reason, format string, a ...any) Verdict {
		return Verdict{Reason: reason, Detail: fmt.Sprintf(format, a...), arm: Empty}
	}
	switch {
	case n[unknown] > 0 && n[unknown] == len(runs) && len(kinds) == 1:
		return against(runs[0].kind(), "without a patch, graded %s: %s", times(len(runs)), runs[0].Reason)
	case n[unknown] > 0:
		return against(EmptyFlaky, "%d of %d runs without a patch tell nothing; run %d: %s: %s", n[unknown], len(runs), at+1, runs[at].Outcome, runs[at].Reason)
	case n[intact] > 0 && n[intact] == len(runs):
		return against(NoFailToPass, "without a patch, graded %s, every test of fail_to_pass passes", times(len(runs)))
	case n[intact] > 0:
		return against(EmptyFlaky, "in %d of %d runs without a patch every test of fail_to_pass passes, in the others not", n[intact], len(runs))
	}
	if name, ok := wavers(runs); ok {
		return against(EmptyFlaky, "without a patch %s passes in one run and fails in another", name)
	}
	if r.Strict {
		if name, a, b, ok := changed(runs, true); ok {
			return against(EmptyFlaky, "without a patch %s is %s in one run and %s in another", name, a, b)
		}
	}
	return Verdict{}
}

// wavers finds a required test that passes in one run and says in another that it failed.
// What is only missing or broken off is no sign of luck here: without the patch one test
// may bring others down with it, at another place each time.
func wavers(runs []Run) (name string, ok bool) {
	type said struct{ passed, failed bool }
	tests := map[[2]string]said{}
	for _, run := range runs {
		for _, t := range run.Required {
			key := [2]string{t.Name, t.Kind}
			s := tests[key]
			switch {
			case t.Status == record.TestFailed:
				s.failed = true
			case grade.Passes(t):
				s.passed = true
			}
			tests[key] = s
			if s.passed && s.failed && (name == "" || t.Name < name) {
				name = t.Name
			}
		}
	}
	return name, name != ""
}

// changed finds a test whose status is not the same in all runs whose tests ended: one that
// is required, or with all any.
func changed(runs []Run, all bool) (name, a, b string, ok bool) {
	for _, t := range Flaky(runs, nil) {
		if t.Kind == "" && !all {
			continue
		}
		i := slices.IndexFunc(t.Gold, func(s string) bool { return s != t.Gold[0] })
		return t.Name, t.Gold[0], t.Gold[i], true
	}
	return "", "", "", false
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
