package rule

import (
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"orchard/datasets/record"
	"orchard/internal/grade"
)

// said is a run in which the required tests f (fail_to_pass) and p (pass_to_pass) and the
// test x, which is not required, have these statuses; "" is in no log.
func said(o record.Outcome, f, p, x string) Run {
	r := Run{Outcome: o, Reason: "so", All: map[string]string{}}
	for _, t := range []record.TestResult{{Name: "f", Kind: grade.FailToPass, Status: f}, {Name: "p", Kind: grade.PassToPass, Status: p}} {
		if t.Status == "" {
			t.Status = record.TestMissing
		} else {
			r.All[t.Name] = t.Status
		}
		r.Required = append(r.Required, t)
	}
	if x != "" {
		r.All["x"] = x
	}
	return r
}

var (
	good   = said(record.Resolved, "passed", "passed", "passed")
	broken = said(record.Unresolved, "failed", "passed", "passed")
	whole  = said(record.Resolved, "passed", "passed", "passed")
	slow   = said(record.TestTimeout, "", "", "")
	away   = said(record.NoTestsRan, "", "", "")
)

func with(fault string, r Run) Run { r.Fault = fault; return r }

func TestJudge(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		gold, empty []Run
		change      func(*Rule)
		want        string
	}{
		{"healthy", []Run{good, good}, []Run{broken, broken}, nil, ""},
		{"unresolved", []Run{broken, broken}, nil, nil, GoldUnresolved},
		{"unresolved and partial", []Run{broken, said(record.Partial, "passed", "passed", "")}, nil, nil, GoldUnresolved},
		{"sometimes resolved", []Run{good, broken}, nil, nil, GoldFlaky},
		{"two ways to fail", []Run{slow, broken}, nil, nil, GoldFlaky},
		{"always slow", []Run{slow, slow}, nil, nil, TestTimeout},
		{"no runner", []Run{away}, nil, nil, NoTestsRan},
		{"memory", []Run{with(OutOfMemory, away)}, nil, nil, OutOfMemory},
		{"image", []Run{with(ImageRefused, Run{Outcome: record.TaskInvalid})}, nil, nil, ImageRefused},
		{"skipped once", []Run{good, said(record.Resolved, "passed", "skipped", "")}, []Run{broken, broken}, nil, GoldFlaky},
		{"not required", []Run{good, said(record.Resolved, "passed", "passed", "failed")}, []Run{broken, broken}, nil, ""},
		{"not required, strict", []Run{good, said(record.Resolved, "passed", "passed", "failed")}, []Run{broken, broken}, func(r *Rule) { r.Strict = true }, GoldFlaky},
		{"not required, strict, without", []Run{good, good}, []Run{broken, said(record.Unresolved, "failed", "passed", "failed")}, func(r *Rule) { r.Strict = true }, EmptyFlaky},
		{"no op", []Run{good, good}, []Run{whole, whole}, nil, NoFailToPass},
		{"sometimes no op", []Run{good, good}, []Run{broken, whole}, nil, EmptyFlaky},
		{"fails by not being there", []Run{good, good}, []Run{said(record.Unresolved, "", "passed", ""), said(record.Unresolved, "error", "error", "")}, nil, ""},
		{"one brings others down", []Run{good, good}, []Run{broken, said(record.Unresolved, "failed", "error", "")}, nil, ""},
		{"pass_to_pass wavers without", []Run{good, good}, []Run{broken, said(record.Unresolved, "failed", "failed", "passed")}, nil, EmptyFlaky},
		{"pass_to_pass fails without", []Run{good, good}, []Run{said(record.Unresolved, "failed", "failed", ""), said(record.Unresolved, "failed", "failed", "")}, nil, ""},
		{"hangs without", []Run{good, good}, []Run{slow, slow}, nil, TestTimeout},
		{"hangs without, and that counts", []Run{good, good}, []Run{slow, slow}, func(r *Rule) { r.HangFails = true }, ""},
		{"hangs after it failed", []Run{good, good}, []Run{said(record.TestTimeout, "failed", "", ""), broken}, nil, ""},
		{"sometimes hangs", []Run{good, good}, []Run{broken, slow}, nil, EmptyFlaky},
		{"no runner without", []Run{good, good}, []Run{away, away}, nil, NoTestsRan},
		{"not done", []Run{good}, []Run{broken}, nil, "?"},
		{"not done without", []Run{good, good}, []Run{broken}, nil, "?"},
		{"not done with", []Run{good}, []Run{broken, broken}, nil, "?"},
		{"sometimes breaks off", []Run{good, good}, []Run{said(record.Unresolved, "error", "passed", ""), whole}, nil, EmptyFlaky},
		{"nothing done", nil, nil, nil, "?"},
	} {
		r := Rule{Repeats: 2}
		if c.change != nil {
			c.change(&r)
		}
		v := r.Judge(c.gold, c.empty)
		if got := v.Reason; v.Admitted != (c.want == "") || c.want != "?" && got != c.want || (got == "") != (v.Detail == "") {
			t.Errorf("%s: %+v, want %q", c.name, v, c.want)
		}
	}
}

// The runs of each arm lie ready; follow takes them as Next asks.
func follow(r Rule, gold, empty []Run) (g, e []Run) {
	for {
		switch arm, more := r.Next(g, e); {
		case !more:
			return g, e
		case arm == Gold:
			g = append(g, gold[len(g)])
		default:
			e = append(e, empty[len(e)])
		}
	}
}

// plain is the rule in the words of the documentation, written again and slowly.
func plain(r Rule, gold, empty []Run) bool {
	status := func(run Run, name string) string {
		for _, t := range run.Required {
			if t.Name == name {
				return t.Status
			}
		}
		if s, ok := run.All[name]; ok {
			return s
		}
		return "missing"
	}
	for _, a := range gold {
		if a.Outcome != record.Resolved {
			return false
		}
		for _, b := range gold {
			if status(a, "f") != status(b, "f") || status(a, "p") != status(b, "p") || r.Strict && status(a, "x") != status(b, "x") {
				return false
			}
		}
	}
	for _, a := range empty {
		tests := a.Outcome == record.Resolved || a.Outcome == record.Unresolved || a.Outcome == record.Partial
		f := status(a, "f")
		fails := f != "passed" && f != "xfail" && f != "xpass"
		switch {
		case tests && fails:
		case a.Outcome == record.TestTimeout && (f == "failed" || f == "error"):
		case a.Outcome == record.TestTimeout && r.HangFails:
		default:
			return false
		}
		for _, b := range empty {
			if f == "failed" && (status(b, "f") == "passed" || status(b, "f") == "xpass") ||
				status(a, "p") == "failed" && (status(b, "p") == "passed" || status(b, "p") == "skipped") {
				return false
			}
			ended := b.Outcome == record.Resolved || b.Outcome == record.Unresolved || b.Outcome == record.Partial
			if r.Strict && tests && ended && !reflect.DeepEqual([]string{f, status(a, "p"), status(a, "x")}, []string{status(b, "f"), status(b, "p"), status(b, "x")}) {
				return false
			}
		}
	}
	return true
}

// Stopping early never changes whether a task is admitted, never does more than all runs,
// and leaves at least two runs of the arm that spoils it unless luck has no part in it.
func TestStoppingEarlyDecidesAsAllRunsDo(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := Rule{Repeats: rapid.IntRange(1, 4).Draw(t, "repeats"), Strict: rapid.Bool().Draw(t, "strict"), HangFails: rapid.Bool().Draw(t, "hang")}
		arm := func(name string, usual Run) []Run {
			var list []Run
			for i := range r.Repeats {
				run := usual
				if rapid.IntRange(0, 5).Draw(t, fmt.Sprint(name, i)) == 0 {
					run = rapid.SampledFrom([]Run{good, broken, slow, away, {Outcome: record.TaskInvalid}, {Outcome: record.PatchFailed},
						said(record.Resolved, "passed", "skipped", ""), said(record.Unresolved, "", "passed", "passed"), said(record.Unresolved, "failed", "failed", "passed"),
						said(record.TestTimeout, "failed", "", ""), said(record.Resolved, "xpass", "passed", "passed"), said(record.Partial, "error", "error", "failed")}).Draw(t, "run")
				}
				list = append(list, run)
			}
			return list
		}
		gold, empty := arm("gold", good), arm("empty", broken)
		g, e := follow(r, gold, empty)
		all := r
		all.AllRuns = true
		ag, ae := follow(all, gold, empty)
		if len(ag) != r.Repeats || len(ae) != r.Repeats {
			t.Fatalf("all runs: %d and %d", len(ag), len(ae))
		}
		early, late, want := r.Judge(g, e), r.Judge(ag, ae), plain(r, gold, empty)
		if early.Admitted != want || late.Admitted != want {
			t.Fatalf("early %+v, with all runs %+v, by the plain rule %v", early, late, want)
		}
		if early.Admitted == (early.Reason != "") {
			t.Fatalf("%+v", early)
		}
		switch early.Reason {
		case "", GoldPatchFailed, TaskInvalid:
		default:
			if max(len(g), len(e)) < min(2, r.Repeats) {
				t.Fatalf("%+v after %d and %d runs", early, len(g), len(e))
			}
		}
	})
}

func TestFlakyAndDiffers(t *testing.T) {
	t.Parallel()
	gold := []Run{slow, good, said(record.Resolved, "passed", "skipped", ""), good}
	f := Flaky(gold, []Run{broken, broken})
	if len(f) != 2 || f[0].Name != "p" || f[1].Name != "x" || f[1].Kind != "" ||
		!reflect.DeepEqual(f[0].Gold, []string{"passed", "skipped", "passed"}) || !reflect.DeepEqual(f[1].Gold, []string{"passed", "missing", "passed"}) || len(f[0].Empty) != 2 {
		t.Errorf("%+v", f)
	}
	if d := Differs(gold); !reflect.DeepEqual(d, [][]string{{}, {}, {"p", "x"}, {}}) {
		t.Errorf("%v", d)
	}
	if Flaky(nil, nil) == nil || len(Differs(nil)) != 0 {
		t.Error("nothing is not an empty list")
	}
}
