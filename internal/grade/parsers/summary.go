package parsers

import (
	"bytes"
	"regexp"
	"strings"

	"orchard/datasets/record"
)

// summary reads the short test summary that pytest prints with -rA, which is asked for
// in PYTEST_ADDOPTS. Tests are known by their node ids. The summary has none for a
// skipped test, so that one is missing. Where pytest can write a report, pytest-junit
// is the better choice: code under test can print a summary of its own, and only
// because the real one comes as well, and the worse counts, does that not help it.
type summary struct{}

func (summary) Name() string { return "pytest-rA" }

func (summary) Env(string) map[string]string {
	return map[string]string{
		"PYTEST_ADDOPTS": "-rA --color=no -p no:cacheprovider",
		"COLUMNS":        "10000", // narrower, and names are cut
	}
}

func (p summary) Idle(command, report, nonce string) map[string]string {
	return idlePytest(p.Env(report), command, nonce)
}

var (
	xdistPrefix  = regexp.MustCompile(`^\[gw\d+\]\s+(?:\[\s*\d+%\]\s+)?`)
	summaryHead  = regexp.MustCompile(`^=+ short test summary info =+$`)
	summaryEnd   = regexp.MustCompile(`^=+ .* in [0-9.]+s(?: \([0-9:]+\))? =+$`)
	summaryWords = map[string]string{
		"PASSED": record.TestPassed, "FAILED": record.TestFailed, "ERROR": record.TestError,
		"XFAIL": record.TestXFail, "XPASS": record.TestXPass,
	}
)

func (summary) Parse(run Run) Result {
	r := newResult()
	r.Started = pytestRan(run.Output)
	required := map[string]bool{}
	for _, name := range run.Required {
		required[name] = true
	}
	in, ended := false, false
	for raw := range bytes.Lines(run.Output) {
		line := xdistPrefix.ReplaceAllString(clean(raw), "")
		switch {
		case summaryHead.MatchString(line):
			in, r.Started = true, true
			continue
		case summaryEnd.MatchString(line):
			// Not the end of reading: what follows may be the real one.
			ended = true
			continue
		case !in:
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		status, ok := summaryWords[word]
		if !ok || rest == "" {
			continue
		}
		name := rest
		switch status {
		case record.TestPassed:
		case record.TestXPass:
			name = nodeID(rest, " ", required)
		default:
			name = nodeID(rest, " - ", required)
		}
		if !strings.Contains(name, "::") {
			if status == record.TestError {
				r.broken("%s cannot be collected", name)
			}
			continue
		}
		r.add(name, status)
	}
	if r.Started && !ended {
		r.broken("pytest did not come to its end")
		r.doubt("pytest did not come to its end")
	}
	if r.Started {
		pytestExit(run, &r)
	}
	return r
}

const maxCuts = 64 // places where an id may end; a hostile line has millions

// nodeID cuts the message off "id - message", or "id message" as some versions have
// it for XPASS. An id may hold both itself: a required name settles it, then the
// closing bracket of its parameters.
func nodeID(rest, separator string, required map[string]bool) string {
	if required[rest] {
		return rest
	}
	first := len(rest)
	i := 0
	for range maxCuts {
		n := strings.Index(rest[i:], separator)
		if n < 0 {
			break
		}
		i += n
		if required[rest[:i]] {
			return rest[:i]
		}
		if first == len(rest) && balanced(rest[:i]) {
			first = i
		}
		i += len(separator)
	}
	return rest[:first]
}

// balanced reports whether the parameters of an id are closed.
func balanced(id string) bool {
	return !strings.Contains(id, "[") || strings.HasSuffix(id, "]")
}
