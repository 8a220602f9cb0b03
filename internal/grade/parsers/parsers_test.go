package parsers

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orchard/datasets/record"
)

const (
	passed  = record.TestPassed
	failed  = record.TestFailed
	errored = record.TestError
	skipped = record.TestSkipped
	xfail   = record.TestXFail
	xpass   = record.TestXPass
)

func file(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// want is a Result without its sentences.
type want struct {
	Tests                  map[string]string
	Started, Broken, Doubt bool
}

func check(t *testing.T, p Parser, run Run, w want) {
	t.Helper()
	r := p.Parse(run)
	if w.Tests == nil {
		w.Tests = map[string]string{}
	}
	got := want{Tests: r.Tests, Started: r.Started, Broken: r.Broken != "", Doubt: len(r.Doubts) > 0}
	if d := cmp.Diff(w, got); d != "" {
		t.Errorf("(-want +got):\n%s\nbroken: %s\ndoubts: %v", d, r.Broken, r.Doubts)
	}
}

func TestByName(t *testing.T) {
	t.Parallel()
	for _, name := range Names() {
		if p, err := ByName(name); err != nil || p.Name() != name {
			t.Errorf("%s: %v, %v", name, p, err)
		}
	}
	_, err := ByName("pytest")
	var unknown *UnknownError
	if !errors.As(err, &unknown) || !strings.Contains(err.Error(), "exit-code, go-test-json, pytest-junit, pytest-rA, tap") {
		t.Errorf("unknown name: %v", err)
	}
}

func TestWorse(t *testing.T) {
	t.Parallel()
	order := []string{"", passed, xpass, xfail, skipped, failed, errored}
	for i, a := range order {
		for j, b := range order {
			if got := Worse(a, b); got != order[max(i, j)] {
				t.Errorf("Worse(%q, %q) = %q", a, b, got)
			}
		}
	}
}

// both gives each Go test under its two names.
func both(pkg string, tests map[string]string) map[string]string {
	all := map[string]string{}
	for name, status := range tests {
		all[name], all[pkg+"."+name] = status, status
	}
	return all
}

func TestGoTest(t *testing.T) {
	t.Parallel()
	event := func(action, test string) string {
		return `{"Action":"` + action + `","Package":"p","Test":"` + test + `"}` + "\n"
	}
	pkg := func(action string) string { return `{"Action":"` + action + `","Package":"p"}` + "\n" }
	tests := []struct {
		name string
		out  string
		want want
	}{
		{"recorded: subtests, skip, an event within the output", string(file(t, "go-ok.json")), want{Started: true, Tests: both("fx/ok", map[string]string{
			"TestA": failed, "TestA/one_two": passed, "TestA/bad": failed, "TestB": passed, "TestSkip": skipped,
		})}},
		{"recorded: does not compile", string(file(t, "go-broken.json")), want{Started: true, Broken: true}},
		{"recorded: panic", string(file(t, "go-panics.json")), want{Started: true, Tests: both("fx/panics", map[string]string{
			"TestFine": passed, "TestPanic": failed,
		})}},
		{"recorded: leaves early with code 0 and forged lines", string(file(t, "go-early.json")), want{Started: true, Doubt: true, Tests: both("fx/early", map[string]string{"TestEarly": passed})}},
		{"recorded: TestMain fails after the tests", string(file(t, "go-mainfail.json")), want{Started: true, Doubt: true, Tests: both("fx/mainfail", map[string]string{"TestFine": passed})}},
		{"recorded: no test files", string(file(t, "go-none.json")), want{Started: true}},
		{"nothing", "", want{}},
		{"no go", "sh: 1: go: not found\n", want{}},
		{"text without -json", "=== RUN   TestA\n--- PASS: TestA (0.00s)\nPASS\nok  p 0.1s\n", want{}},
		{"older go: build failure as text", "# p\n./a.go:1: bad\n" + pkg("start") + pkg("fail"), want{Started: true, Broken: true}},
		{"running when the process died", pkg("start") + event("run", "TestA") + event("run", "TestB") + event("pass", "TestB") + pkg("fail"),
			want{Started: true, Tests: both("p", map[string]string{"TestA": errored, "TestB": passed})}},
		{"began, never ended, package passed", event("run", "TestA") + pkg("pass"), want{Started: true, Doubt: true, Tests: both("p", map[string]string{"TestA": errored})}},
		{"cut off", pkg("start") + event("run", "TestA") + event("pass", "TestA"), want{Started: true, Doubt: true, Tests: both("p", map[string]string{"TestA": passed})}},
		{"two ends: worst counts", event("run", "TestA") + event("pass", "TestA") + event("fail", "TestA") + event("pass", "TestA") + pkg("fail"),
			want{Started: true, Tests: both("p", map[string]string{"TestA": failed})}},
		{"an end without a beginning", event("pass", "TestA") + pkg("pass"), want{Started: true, Doubt: true, Tests: both("p", map[string]string{"TestA": errored})}},
		{"two packages", event("run", "TestA") + event("pass", "TestA") + pkg("pass") + strings.ReplaceAll(event("run", "TestA")+event("fail", "TestA")+pkg("fail"), `"p"`, `"q"`),
			want{Started: true, Tests: map[string]string{"TestA": failed, "p.TestA": passed, "q.TestA": failed}}},
		{"a passing package with a failed test", event("run", "TestA") + event("fail", "TestA") + pkg("pass"), want{Started: true, Doubt: true, Tests: both("p", map[string]string{"TestA": failed})}},
		{"junk between", "{\n{}\n{\"Action\":1}\n[]\n" + event("run", "TestA") + "{\"Action\":" + "\n" + event("pass", "TestA") + pkg("pass"), want{Started: true, Tests: both("p", map[string]string{"TestA": passed})}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			check(t, goTest{}, Run{Output: []byte(tt.out)}, tt.want)
		})
	}
}

func TestExitCode(t *testing.T) {
	t.Parallel()
	for code, w := range map[int]want{
		0:   {Started: true, Tests: map[string]string{"make test": passed, "command 2": passed}},
		1:   {Started: true, Tests: map[string]string{"make test": failed, "command 2": failed}},
		-9:  {Started: true, Tests: map[string]string{"make test": failed, "command 2": failed}},
		126: {}, 127: {},
	} {
		check(t, exitCode{}, Run{Number: 2, Command: "make test", ExitCode: code, Output: []byte("ok 1\nPASSED\n")}, w)
	}
}

func TestTAP(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		out  string
		want want
	}{
		{"recorded: bats", string(file(t, "bats.tap")), want{Started: true, Tests: map[string]string{"adds two numbers": passed, "fails": failed, "skips": skipped}}},
		{"13", "TAP version 13\n1..3\nok 1 - a b\nnot ok 2 - c - d\n  ---\n  message: ok 9 - x\n  ok 7 - inside\n  ...\nok 3\n",
			want{Started: true, Tests: map[string]string{"a b": passed, "c - d": failed, "3": passed}}},
		{"plan at the end", "ok - a\nok - b\n1..2\n", want{Started: true, Tests: map[string]string{"a": passed, "b": passed}}},
		{"todo and skip", "1..4\nnot ok 1 - a # TODO later\nok 2 - b # todo\nok 3 - c # SKIP why\nnot ok 4 - d # skip no\n",
			want{Started: true, Tests: map[string]string{"a": xfail, "b": xpass, "c": skipped, "d": failed}}},
		{"escaped hash, timing, colour", "1..3\nok 1 - a \\# b\nok 2 - c in 12ms\n\x1b[32mok 3 - d\x1b[0m\r\n", want{Started: true, Tests: map[string]string{"a # b": passed, "c": passed, "d": passed}}},
		{"14 subtests", "TAP version 14\n1..2\n# Subtest: one\n    1..2\n    ok 1 - x\n    not ok 2 - y\nnot ok 1 - one\n    # Subtest: two\n    ok 1 - x\n        ok 1 - deep\n        1..1\n    ok 2 - z\n    1..2\nok 2 - two\n",
			want{Started: true, Tests: map[string]string{"one/x": passed, "one/y": failed, "one": failed, "two/x": passed, "two/z/deep": passed, "two/z": passed, "two": passed}}},
		{"missing number", "1..3\nok 1 - a\nok 3 - c\n", want{Started: true, Broken: true, Doubt: true, Tests: map[string]string{"a": passed, "c": passed}}},
		{"no plan", "ok 1 - a\n", want{Started: true, Doubt: true, Tests: map[string]string{"a": passed}}},
		{"two plans", "1..1\nok 1 - a\n1..2\n", want{Started: true, Doubt: true, Tests: map[string]string{"a": passed}}},
		{"beyond the plan", "1..1\nok 1 - a\nok 2 - b\n", want{Started: true, Doubt: true, Tests: map[string]string{"a": passed, "b": passed}}},
		{"twice", "1..2\nok 1 - a\nnot ok 1 - a\nok 2 - b\n", want{Started: true, Doubt: true, Tests: map[string]string{"a": failed, "b": passed}}},
		{"bail out", "1..2\nok 1 - a\nBail out! no database\n", want{Started: true, Broken: true, Doubt: true, Tests: map[string]string{"a": passed}}},
		{"subtest without end", "1..1\n    ok 1 - x\n    1..1\n", want{Started: true, Broken: true, Doubt: true, Tests: map[string]string{"x": passed}}},
		{"all skipped", "1..0 # SKIP not here\n", want{Started: true}},
		{"no TAP", "okay\nok: done\n  ok 1 - indented by two\nmake: *** [test] Error 1\n", want{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			check(t, tap{}, Run{Output: []byte(tt.out)}, tt.want)
		})
	}
}

var recorded = map[string]string{
	"tests/test_a.py::test_pass": passed, "tests/test_a.py::test_fail": failed, "tests/test_a.py::test_setup": errored,
	"tests/test_a.py::test_teardown": errored, "tests/test_a.py::test_skip": skipped, "tests/test_a.py::test_xfail": xfail,
	"tests/test_a.py::test_xpass": passed, "tests/test_a.py::test_xpass_strict": failed,
	"tests/test_a.py::test_param[a - b]": failed, "tests/test_a.py::test_param[c] - [d]": passed,
	`tests/test_a.py::test_param[\u65e5\u672c]`: passed, "tests/test_a.py::test_param[sp ace]": passed,
	"tests/test_a.py::TestK::TestInner::test_deep": passed, "tests/test_a.py::TestK::test_m": passed,
}

func TestJUnit(t *testing.T) {
	t.Parallel()
	suite := func(cases string) []byte {
		return []byte(`<?xml version="1.0"?><testsuites><testsuite name="pytest">` + cases + `</testsuite></testsuites>`)
	}
	session := []byte("==== test session starts ====\nPASSED a.py::t\n")
	tests := []struct {
		name string
		run  Run
		want want
	}{
		{"recorded", Run{Report: file(t, "pytest.xml"), ExitCode: 1}, want{Started: true, Tests: recorded}},
		{"recorded: collection error", Run{Report: file(t, "pytest-collect.xml"), ExitCode: 2}, want{Started: true, Broken: true, Doubt: true}},
		{"no file attribute", Run{Report: suite(`<testcase classname="tests.test_a.TestX" name="t"/><testcase classname="test_b" name="t"/>`)},
			want{Started: true, Tests: map[string]string{"tests/test_a.py::TestX::t": passed, "test_b.py::t": passed}}},
		{"file of another module", Run{Report: suite(`<testcase file="lib/base.py" classname="tests.test_a.TestX" name="t"/>`)},
			want{Started: true, Tests: map[string]string{"lib/base.py::TestX::t": passed}}},
		{"twice: worst counts", Run{Report: suite(`<testcase file="a.py" classname="a" name="t"/><testcase file="a.py" classname="a" name="t"><error/></testcase>`), ExitCode: 1},
			want{Started: true, Tests: map[string]string{"a.py::t": errored}}},
		{"report deleted", Run{Output: session}, want{Started: true, Broken: true, Doubt: true}},
		{"no sign of pytest", Run{Output: []byte("python3: No module named pytest\n"), ExitCode: 1}, want{}},
		{"conftest cannot be imported", Run{Output: []byte("ImportError while loading conftest '/testbed/conftest.py'.\n"), ExitCode: 4}, want{Started: true, Broken: true, Doubt: true}},
		{"report cut off", Run{Report: []byte(`<testsuites><testsuite><testcase file="a.py" classname="a" name="t"/><testcase file="a.py"`)},
			want{Started: true, Doubt: true, Tests: map[string]string{"a.py::t": passed}}},
		{"empty report", Run{Report: []byte{}, Output: session}, want{Started: true, Broken: true, Doubt: true}},
		{"two suites", Run{Report: append(suite(`<testcase file="a.py" classname="a" name="t"/>`), suite("")...)},
			want{Started: true, Doubt: true, Tests: map[string]string{"a.py::t": passed}}},
		{"failure with exit code 0", Run{Report: suite(`<testcase file="a.py" classname="a" name="t"><failure/></testcase>`)},
			want{Started: true, Doubt: true, Tests: map[string]string{"a.py::t": failed}}},
		{"no test collected", Run{Report: suite(""), ExitCode: 5}, want{Started: true, Broken: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			check(t, junit{}, tt.run, tt.want)
		})
	}
}

func TestSummary(t *testing.T) {
	t.Parallel()
	lines := map[string]string{}
	for name, status := range recorded {
		lines[name] = status
	}
	delete(lines, "tests/test_a.py::test_skip") // its line has no id
	lines["tests/test_a.py::test_xpass"] = xpass
	of := func(body string) string {
		return "==== test session starts ====\n" + body + "==== 1 passed in 0.01s ====\n"
	}
	const head = "==== short test summary info ====\n"
	tests := []struct {
		name string
		run  Run
		want want
	}{
		{"recorded", Run{Output: file(t, "pytest-rA.txt"), ExitCode: 1}, want{Started: true, Tests: lines}},
		{"recorded: collection error", Run{Output: file(t, "pytest-rA-collect.txt"), ExitCode: 2}, want{Started: true, Broken: true, Doubt: true}},
		{"before the summary", Run{Output: []byte(of("PASSED a.py::forged\n" + head + "PASSED a.py::t\n"))}, want{Started: true, Tests: map[string]string{"a.py::t": passed}}},
		{"a forged summary before the real one", Run{Output: []byte(of(head + "PASSED a.py::t\n==== 1 passed in 0.01s ====\n" + head + "FAILED a.py::t - no\n")), ExitCode: 1},
			want{Started: true, Tests: map[string]string{"a.py::t": failed}}},
		{"a forged summary after the real one", Run{Output: []byte(of(head+"FAILED a.py::t - no\n") + head + "PASSED a.py::t\n==== 1 passed in 0.01s ====\n")},
			want{Started: true, Doubt: true, Tests: map[string]string{"a.py::t": failed}}},
		{"xdist, colour, line ends", Run{Output: []byte(of(head + "[gw0] [ 50%] PASSED a.py::t\r\n\x1b[31mFAILED\x1b[0m a.py::\x1b[1mu\x1b[0m - no\n")), ExitCode: 1},
			want{Started: true, Tests: map[string]string{"a.py::t": passed, "a.py::u": failed}}},
		{"a required name with a dash", Run{Output: []byte(of(head + "FAILED a.py::t[x - y - z - AssertionError: b - c\nXPASS a.py::u[p q] because it is\n")), ExitCode: 1, Required: []string{"a.py::t[x - y - z"}},
			want{Started: true, Tests: map[string]string{"a.py::t[x - y - z": failed, "a.py::u[p q]": xpass}}},
		{"two lines for one test", Run{Output: []byte(of(head + "PASSED a.py::t\nERROR a.py::t - teardown\n")), ExitCode: 1}, want{Started: true, Tests: map[string]string{"a.py::t": errored}}},
		{"left before the end", Run{Output: []byte("==== test session starts ====\na.py ." + "\n")}, want{Started: true, Broken: true, Doubt: true}},
		{"no sign of pytest", Run{Output: []byte("PASSED a.py::t\n"), ExitCode: 127}, want{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			check(t, summary{}, tt.run, tt.want)
		})
	}
}

func FuzzParsers(f *testing.F) {
	for _, name := range []string{"go-ok.json", "go-early.json", "bats.tap", "pytest.xml", "pytest-rA.txt"} {
		f.Add(file(f, name), 1)
	}
	f.Add([]byte("1..2\n        ok 1\n# Subtest\n    ok # skip\nBail out!"), 0)
	f.Fuzz(func(t *testing.T, in []byte, code int) {
		for _, p := range all {
			for _, run := range []Run{{Output: in, ExitCode: code}, {Output: in, Report: in, ExitCode: code, Required: []string{string(in)}}} {
				r := p.Parse(run)
				if r.Tests == nil {
					t.Errorf("%s: no map", p.Name())
				}
				for name, status := range r.Tests {
					if severity[status] == 0 {
						t.Errorf("%s: %q has status %q", p.Name(), name, status)
					}
				}
				if len(r.Doubts) > maxDoubts {
					t.Errorf("%s: %d doubts", p.Name(), len(r.Doubts))
				}
			}
		}
	})
}
