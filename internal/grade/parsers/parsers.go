// Package parsers reads what a test runner said: a map from test name to status, and
// whether what was said is whole.
//
// Everything here was written by code that nobody trusts, so a parser believes the
// worst: of two answers for one test the worse one counts, a test that began and has
// no end is an error, and what contradicts itself is named in Doubts, which no
// resolved verdict survives. A parser never decides about required tests, never
// fails and never panics; its memory is bounded by its input's size. Safe for
// concurrent use.
package parsers

import (
	"bytes"
	"fmt"
	"regexp"
	"sort"
	"strings"

	"orchard/datasets/record"
)

// Run is one test command that ended.
type Run struct {
	Number   int    // from 1
	Command  string // as in the task
	Output   []byte // stdout and stderr in the order written
	Report   []byte // the report file, nil when there is none
	ExitCode int
	Required []string // the names that the task asks for: they settle ambiguous text
}

// Result is what a run says.
type Result struct {
	// Tests is the status of each test by name, one of the record.Test constants.
	Tests map[string]string
	// Started is the evidence that the runner itself ran, whatever became of the tests.
	Started bool
	// Broken is why tests may be missing although the runner ran: a package that does
	// not compile, a module that cannot be imported. "" when nothing is.
	Broken string
	// Doubts are contradictions: with any of them nothing is resolved.
	Doubts []string
}

// Parser reads the output of one kind of runner.
type Parser interface {
	Name() string
	// Env makes the runner write its report to the given path; nil when it has none.
	Env(report string) map[string]string
	// Idle makes the runner select no test at all, with its report at the given path. It
	// is nil where the runner cannot be told to by its environment, or where the command
	// selects tests itself and would win.
	Idle(command, report, nonce string) map[string]string
	Parse(Run) Result
}

var all = []Parser{goTest{}, junit{}, summary{}, tap{}, exitCode{}}

// UnknownError says that no parser has this name.
type UnknownError struct{ Name string }

func (e *UnknownError) Error() string {
	return fmt.Sprintf("log_parser %q is unknown; known are %s", e.Name, strings.Join(Names(), ", "))
}

// ByName is the parser of this name, or an *UnknownError.
func ByName(name string) (Parser, error) {
	for _, p := range all {
		if p.Name() == name {
			return p, nil
		}
	}
	return nil, &UnknownError{Name: name}
}

// Names are the names that ByName knows, sorted.
func Names() []string {
	names := make([]string, 0, len(all))
	for _, p := range all {
		names = append(names, p.Name())
	}
	sort.Strings(names)
	return names
}

// severity orders the statuses of one test from best to worst.
var severity = map[string]int{
	record.TestPassed: 1, record.TestXPass: 2, record.TestXFail: 3, record.TestSkipped: 4, record.TestFailed: 5, record.TestError: 6,
}

// Worse is the worse of two statuses; "" is better than any.
func Worse(a, b string) string {
	if severity[b] > severity[a] {
		return b
	}
	return a
}

func newResult() Result { return Result{Tests: map[string]string{}} }

// add records a status; of two for one name the worse stays.
func (r *Result) add(name, status string) { r.Tests[name] = Worse(r.Tests[name], status) }

// broken keeps the first reason.
func (r *Result) broken(format string, a ...any) {
	if r.Broken == "" {
		r.Broken = fmt.Sprintf(format, a...)
	}
}

const maxDoubts = 20 // a hostile log may have as many as it has lines

func (r *Result) doubt(format string, a ...any) {
	if len(r.Doubts) < maxDoubts {
		r.Doubts = append(r.Doubts, fmt.Sprintf(format, a...))
	}
}

// Failed reports whether any test failed.
func (r Result) Failed() bool {
	for _, s := range r.Tests {
		if s == record.TestFailed || s == record.TestError {
			return true
		}
	}
	return false
}

var ansi = regexp.MustCompile("\x1b\\[[0-9;?]*[ -/]*[@-~]")

// clean is a line as text without colour codes and its line end.
func clean(line []byte) string {
	line = bytes.TrimRight(line, "\r\n")
	if bytes.IndexByte(line, 0x1b) >= 0 {
		line = ansi.ReplaceAll(line, nil)
	}
	return strings.ToValidUTF8(string(line), "\uFFFD")
}

// notFound reports whether a shell says by its exit code that there is no such program.
func notFound(code int) bool { return code == 127 || code == 126 }
