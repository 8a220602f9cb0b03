package parsers

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"orchard/datasets/record"
)

// goTest reads the events of "go test -json", which the test command has to ask for. A
// test is known as "TestX/sub" and as "import/path.TestX/sub": the first is the worst
// of that name in all packages.
//
// The events are made by the go command from what the test binary prints, so a line
// that looks like an event but is printed by a test lies inside an output event and is
// not seen here. A binary can imitate the framework's own lines; it cannot take back a
// failure, the worse of two ends counts, and one that leaves early is caught by the
// tests that began and never ended.
type goTest struct{}

func (goTest) Name() string                 { return "go-test-json" }
func (goTest) Env(string) map[string]string { return nil }

func (goTest) Idle(command, _, nonce string) map[string]string {
	if strings.Contains(command, "-run") || strings.Contains(command, "GOFLAGS") {
		return nil
	}
	return map[string]string{"GOFLAGS": "-run=^" + nonce + "$"}
}

type goEvent struct {
	Action, Package, Test, ImportPath, FailedBuild string
}

// goPackage is what is known of one package.
type goPackage struct {
	tests map[string]string // "" while it runs
	end   string            // worst end of the package, "" before it
	built bool
}

func (goTest) Parse(run Run) Result {
	r := newResult()
	packages := map[string]*goPackage{}
	for line := range bytes.Lines(run.Output) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] != '{' {
			continue
		}
		var e goEvent
		if json.Unmarshal(line, &e) != nil || e.Action == "" {
			continue
		}
		r.Started = true
		if e.Action == "build-fail" {
			r.broken("%s does not compile", e.ImportPath)
			continue
		}
		if e.Package == "" {
			continue
		}
		p := packages[e.Package]
		if p == nil {
			p = &goPackage{tests: map[string]string{}, built: true}
			packages[e.Package] = p
		}
		p.see(e, &r)
	}
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		packages[name].close(name, &r)
	}
	return r
}

// see takes one event in.
func (p *goPackage) see(e goEvent, r *Result) {
	status, end := map[string]string{
		"pass": record.TestPassed, "fail": record.TestFailed, "skip": record.TestSkipped,
	}[e.Action]
	switch {
	case e.Test == "" && end:
		if e.FailedBuild != "" {
			p.built = false
			r.broken("%s does not compile", e.FailedBuild)
		}
		p.end = Worse(p.end, status)
	case e.Test != "" && e.Action == "run":
		if _, ok := p.tests[e.Test]; !ok {
			p.tests[e.Test] = ""
		}
	case e.Test != "" && end:
		if _, ok := p.tests[e.Test]; !ok {
			r.doubt("%s of %s ended without having begun", e.Test, e.Package)
			status = Worse(status, record.TestError)
		}
		p.tests[e.Test] = Worse(p.tests[e.Test], status)
	}
}

// close settles what the events left open.
func (p *goPackage) close(name string, r *Result) {
	failed := false
	for _, test := range slices.Sorted(maps.Keys(p.tests)) {
		status := p.tests[test]
		if status == "" {
			// A panic, an exit or a timeout took the process while this test ran.
			status = record.TestError
			if p.end != record.TestFailed {
				r.doubt("%s of %s began and never ended", test, name)
			}
		}
		failed = failed || status == record.TestFailed || status == record.TestError
		r.add(test, status)
		r.add(name+"."+test, status)
	}
	switch {
	case p.end == "":
		r.doubt("package %s has no end", name)
	case p.end != record.TestFailed:
		if failed {
			r.doubt("package %s passed with a test that did not", name)
		}
	case len(p.tests) == 0:
		if p.built {
			r.broken("package %s failed before its first test", name)
		}
	case !failed:
		r.doubt("package %s failed though no test of it did", name)
	}
}
