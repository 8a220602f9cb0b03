package parsers

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"

	"orchard/datasets/record"
)

// junit reads the report that pytest writes with --junitxml, at a path that is made for
// the run and handed over in PYTEST_ADDOPTS. Tests are known by their node ids.
type junit struct{}

func (junit) Name() string { return "pytest-junit" }

func (junit) Env(report string) map[string]string {
	return map[string]string{
		// xunit1 has the file of a test, without which its node id is a guess.
		"PYTEST_ADDOPTS": "--junitxml=" + report + " -o junit_family=xunit1 -p no:cacheprovider",
	}
}

func (p junit) Idle(command, report, nonce string) map[string]string {
	return idlePytest(p.Env(report), command, nonce)
}

// idlePytest adds to env that no test is selected; nil for a command with a -k of its own.
func idlePytest(env map[string]string, command, nonce string) map[string]string {
	if selects.MatchString(command) {
		return nil
	}
	env["PYTEST_ADDOPTS"] += " -k " + nonce
	return env
}

// selects matches a pytest command that has a -k of its own.
var selects = regexp.MustCompile(`\s-k`)

type junitCase struct {
	File      string     `xml:"file,attr"`
	Classname string     `xml:"classname,attr"`
	Name      string     `xml:"name,attr"`
	Failure   *junitNote `xml:"failure"`
	Error     *junitNote `xml:"error"`
	Skipped   *junitNote `xml:"skipped"`
}

type junitNote struct {
	Type    string `xml:"type,attr"`
	Message string `xml:"message,attr"`
}

func (junit) Parse(run Run) Result {
	r := newResult()
	d := xml.NewDecoder(bytes.NewReader(run.Report))
	d.Strict = false
	suites := 0
	for {
		t, err := d.Token()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				r.doubt("the report is not whole: %v", err)
			}
			break
		}
		start, ok := t.(xml.StartElement)
		if !ok {
			continue
		}
		switch start.Name.Local {
		case "testsuite":
			suites++
			r.Started = true
		case "testcase":
			var c junitCase
			if err := d.DecodeElement(&c, &start); err != nil {
				r.doubt("the report is not whole: %v", err)
				continue
			}
			c.see(&r)
		}
	}
	switch {
	case suites > 1:
		r.doubt("the report has %d test suites", suites)
	case suites == 0 && pytestRan(run.Output):
		r.Started = true
		r.broken("pytest began and left no report")
		r.doubt("pytest began and left no report")
	}
	if r.Started {
		pytestExit(run, &r)
	}
	return r
}

func (c junitCase) see(r *Result) {
	status := record.TestPassed
	switch {
	case c.Error != nil:
		status = record.TestError
	case c.Failure != nil:
		status = record.TestFailed
	case c.Skipped != nil && c.Skipped.Type == "pytest.xfail":
		status = record.TestXFail
	case c.Skipped != nil:
		status = record.TestSkipped
	}
	if c.Classname == "" {
		// Not a test but a module that could not be collected.
		if status == record.TestError || status == record.TestFailed {
			r.broken("%s cannot be collected", c.Name)
		}
		return
	}
	r.add(c.nodeID(), status)
}

// nodeID is what pytest calls the test: file, classes, name. Without a file, the
// classes are taken to begin at the first part that does not start in lower case.
func (c junitCase) nodeID() string {
	parts := strings.Split(c.Classname, ".")
	if c.File != "" {
		module := strings.ReplaceAll(strings.TrimSuffix(c.File, ".py"), "/", ".")
		if rest, ok := strings.CutPrefix(c.Classname+".", module+"."); ok {
			return strings.Join(append(append([]string{c.File}, classes(rest)...), c.Name), "::")
		}
	}
	n := 0
	for n < len(parts) && (parts[n] == "" || parts[n][0] < 'A' || parts[n][0] > 'Z') {
		n++
	}
	file := c.File
	if file == "" {
		file = strings.Join(parts[:n], "/") + ".py"
	}
	return strings.Join(append(append([]string{file}, parts[n:]...), c.Name), "::")
}

// classes are the parts of "A.B.", none of "".
func classes(rest string) []string {
	if rest = strings.TrimSuffix(rest, "."); rest == "" {
		return nil
	}
	return strings.Split(rest, ".")
}

// pytestRan looks for what pytest itself prints. It serves only to tell a failure from
// not knowing, so imitating it wins nothing.
func pytestRan(output []byte) bool {
	for _, s := range []string{" test session starts ", "ImportError while loading conftest", "INTERNALERROR>", "no tests ran in ", "error during collection"} {
		if bytes.Contains(output, []byte(s)) {
			return true
		}
	}
	return false
}

// pytestExit compares the exit code with the tests: 2 to 4 are pytest's own troubles,
// and 5 is no test at all.
func pytestExit(run Run, r *Result) {
	switch run.ExitCode {
	case 2, 3, 4:
		r.broken("pytest ended with exit code %d before all tests had run", run.ExitCode)
		r.doubt("pytest ended with exit code %d before all tests had run", run.ExitCode)
	case 5:
		r.broken("pytest found no test")
	case 0:
		if r.Failed() {
			r.doubt("pytest reported success with a test that failed")
		}
	}
}
