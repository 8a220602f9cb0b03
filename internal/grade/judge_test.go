package grade

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orchard/datasets/record"
	"orchard/internal/grade/parsers"
)

// said is a run of a command that exited with code and whose tests are given as
// "name status" pairs.
func said(code int, pairs ...string) ran {
	r := parsers.Result{Tests: map[string]string{}, Started: true}
	for _, p := range pairs {
		name, status, _ := strings.Cut(p, " ")
		r.Tests[name] = status
	}
	return ran{command: "c", exit: code, result: r}
}

func (r ran) with(change func(*ran)) ran {
	change(&r)
	return r
}

// TestJudge is the rule for what a runner said: every pairing of exit code and tests.
func TestJudge(t *testing.T) {
	t.Parallel()
	broken := func(r *ran) { r.result.Broken = "p does not compile" }
	silent := func(r *ran) { r.result.Started = false }
	doubt := func(r *ran) { r.result.Doubts = []string{"odd"} }
	late := func(r *ran) { r.timedOut = true }
	tests := []struct {
		name     string
		runs     []ran
		tampered []string
		want     record.Outcome
		reason   string
	}{
		{"all passed, code 0", []ran{said(0, "f passed", "g passed", "p passed")}, nil, record.Resolved, "all 3"},
		{"all passed, another failed, code 1", []ran{said(1, "f passed", "g passed", "p passed", "x failed")}, nil, record.Resolved, "all 3"},
		{"all passed, code 1", []ran{said(1, "f passed", "g passed", "p passed")}, nil, record.Unresolved, "exit code 1 though no test failed"},
		{"all passed, killed", []ran{said(-9, "f passed", "g passed", "p passed")}, nil, record.Unresolved, "exit code -9"},
		{"all passed, another package does not compile, code 1", []ran{said(1, "f passed", "g passed", "p passed").with(broken)}, nil, record.Resolved, "all 3"},
		{"all passed with a doubt", []ran{said(0, "f passed", "g passed", "p passed").with(doubt)}, nil, record.Unresolved, "odd"},
		{"all passed, test files changed", []ran{said(0, "f passed", "g passed", "p passed")}, []string{"t.py"}, record.Unresolved, "t.py"},
		{"failed, code 0", []ran{said(0, "f failed", "g failed", "p passed")}, nil, record.Unresolved, "f failed, g failed"},
		{"failed, code 1", []ran{said(1, "f failed", "g failed", "p passed")}, nil, record.Unresolved, "2 of 3"},
		{"one of two fixed", []ran{said(1, "f passed", "g failed", "p passed")}, nil, record.Partial, "g failed"},
		{"one of two fixed, another broken", []ran{said(1, "f passed", "g failed", "p failed")}, nil, record.Unresolved, "p failed"},
		{"all fixed, another broken", []ran{said(1, "f passed", "g passed", "p failed")}, nil, record.Unresolved, "p failed"},
		{"xfail and xpass pass", []ran{said(0, "f xfail", "g xpass", "p xfail")}, nil, record.Resolved, ""},
		{"skipped pass_to_pass is kept", []ran{said(0, "f passed", "g passed", "p skipped")}, nil, record.Resolved, ""},
		{"skipped fail_to_pass is no fix", []ran{said(0, "f passed", "g skipped", "p passed")}, nil, record.Partial, "g skipped"},
		{"missing pass_to_pass", []ran{said(0, "f passed", "g passed")}, nil, record.Unresolved, "p missing"},
		{"missing fail_to_pass", []ran{said(0, "g passed", "p passed")}, nil, record.Partial, "f missing"},
		{"missing since it does not compile", []ran{said(1).with(broken)}, nil, record.Unresolved, "f error, g error, p error (p does not compile)"},
		{"the runner ran and no test did, code 0", []ran{said(0)}, nil, record.Unresolved, "f missing"},
		{"the runner ran and no test did, code 1", []ran{said(1)}, nil, record.Unresolved, "f missing"},
		{"nothing, code 127", []ran{said(127).with(silent)}, nil, record.NoTestsRan, "exit code 127"},
		{"nothing, code 0", []ran{said(0).with(silent)}, nil, record.NoTestsRan, "did not start"},
		{"second command did not start", []ran{said(0, "f passed"), said(127).with(silent)}, nil, record.NoTestsRan, "command 2"},
		{"second command did not start and is not needed", []ran{said(0, "f passed", "g passed", "p passed"), said(0).with(silent)}, nil, record.Resolved, ""},
		{"over two commands", []ran{said(0, "f passed", "p passed"), said(0, "g passed")}, nil, record.Resolved, ""},
		{"over two commands, worse counts", []ran{said(0, "f passed", "g passed", "p passed"), said(1, "f failed")}, nil, record.Partial, "f failed"},
		{"timeout", []ran{said(0, "f passed", "g passed", "p passed"), said(124).with(late)}, nil, record.TestTimeout, "did not end within 1m"},
		{"timeout of all", []ran{said(124).with(silent).with(late)}, nil, record.TestTimeout, "did not end"},
		{"code 124 of the command itself", []ran{said(124, "f failed", "g failed", "p passed")}, nil, record.Unresolved, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a := &attempt{g: &Grader{}, task: record.Task{FailToPass: []string{"g", "f"}, PassToPass: []string{"p"}, TimeoutMS: 60_000}}
			var f finding
			a.judge(&f, tt.runs, tt.tampered)
			if f.outcome != tt.want || !strings.Contains(f.reason, tt.reason) {
				t.Errorf("got %s: %s; want %s with %q", f.outcome, f.reason, tt.want, tt.reason)
			}
			if (f.outcome == record.NoTestsRan) != f.retry {
				t.Errorf("retry is %v", f.retry)
			}
			var names []string
			for _, r := range f.tests {
				names = append(names, r.Name+" "+r.Kind)
			}
			if d := cmp.Diff([]string{"f fail_to_pass", "g fail_to_pass", "p pass_to_pass"}, names); d != "" {
				t.Errorf("required tests (-want +got):\n%s", d)
			}
		})
	}
}

func TestEmptyListsCountAsPassed(t *testing.T) {
	t.Parallel()
	for _, task := range []record.Task{{FailToPass: []string{"f"}}, {PassToPass: []string{"f"}}} {
		a := &attempt{g: &Grader{}, task: task}
		var f finding
		a.judge(&f, []ran{said(0, "f passed")}, nil)
		if f.outcome != record.Resolved {
			t.Errorf("%v: %s: %s", task, f.outcome, f.reason)
		}
	}
}

func TestLookup(t *testing.T) {
	t.Parallel()
	seen := map[string]string{
		"a.py::t[x y]": "passed", "a.py::t[x z]": "failed", "a.py::u[1]": "passed", "a.py::v": "passed", "a.py::vv": "failed",
	}
	tests := []struct {
		name, want string
		cut        bool
	}{
		{"a.py::v", "passed", true},
		{"a.py::u[1]", "passed", true},
		{"a.py::u[", "passed", true},
		{"a.py::t[x", "failed", true}, // two begin so: the worse
		{"a.py::t[x", "", false},
		{"a.py::t[x]", "", true}, // not cut, and not there
		{"a.py::", "", true},
		{"a.py::t[w", "", true},
	}
	for _, tt := range tests {
		if got := lookup(seen, tt.name, tt.cut); got != tt.want {
			t.Errorf("lookup(%q, %v) = %q, want %q", tt.name, tt.cut, got, tt.want)
		}
	}
}
