package parsers

import (
	"bytes"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"orchard/datasets/record"
)

// tap reads the Test Anything Protocol, versions 13 and 14. A test is known by its
// description, or by its number when it has none; one in a subtest as "description of
// the subtest/its own". A plan is asked for: without one nobody knows whether the
// tests ran to their end.
type tap struct{}

func (tap) Name() string                          { return "tap" }
func (tap) Env(string) map[string]string          { return nil }
func (tap) Idle(_, _, _ string) map[string]string { return nil }

var (
	tapPoint     = regexp.MustCompile(`^(not )?ok(?:\s+(\d+))?(?:\s+-)?(?:\s+(.*))?$`)
	tapPlan      = regexp.MustCompile(`^1\.\.(\d+)\b`)
	tapDirective = regexp.MustCompile(`(?i)(?:^|\s)#\s*(skip|todo)\b.*$`)
	tapTiming    = regexp.MustCompile(`\s+in \d+ ?m?s(?:ec)?$|\s+# time=\S+$`)
)

const tapDepth = 16 // of subtests; deeper ones are text

// tapLevel is one document: the whole output, or a subtest.
type tapLevel struct {
	plan    int // -1 before it
	last    int // number of the last test
	seen    map[int]bool
	tests   []tapTest
	pending []tapTest // of the subtest before the point that names it
}

type tapTest struct{ name, status string }

func (tap) Parse(run Run) Result {
	r := newResult()
	levels := []*tapLevel{{plan: -1, seen: map[int]bool{}}}
	yaml := -1 // indent of the YAML block that the line is in
	for raw := range bytes.Lines(run.Output) {
		line := clean(raw)
		text := strings.TrimLeft(line, " ")
		indent := len(line) - len(text)
		switch {
		case yaml >= 0:
			if text == "..." && indent == yaml {
				yaml = -1
			}
			continue
		case text == "---" && indent%4 == 2:
			yaml = indent
			continue
		case strings.HasPrefix(text, "Bail out!"):
			r.Started = true
			r.broken("the tests bailed out: %s", strings.TrimSpace(strings.TrimPrefix(text, "Bail out!")))
			r.doubt("the tests bailed out")
			continue
		case indent%4 != 0 || indent/4 > len(levels) || indent/4 > tapDepth,
			!tapPoint.MatchString(text) && !tapPlan.MatchString(text):
			continue
		}
		r.Started = true
		for len(levels) > indent/4+1 {
			levels = closeTap(levels, &r)
		}
		if len(levels) == indent/4 {
			levels = append(levels, &tapLevel{plan: -1, seen: map[int]bool{}})
		}
		levels[len(levels)-1].line(text, &r)
	}
	if !r.Started {
		return r
	}
	for len(levels) > 1 {
		r.doubt("a subtest has no end")
		levels = closeTap(levels, &r)
	}
	levels[0].check(&r)
	for _, t := range append(levels[0].tests, levels[0].pending...) {
		r.add(t.name, t.status)
	}
	return r
}

// closeTap ends the innermost level: its tests wait for the name of their subtest.
func closeTap(levels []*tapLevel, r *Result) []*tapLevel {
	inner, outer := levels[len(levels)-1], levels[len(levels)-2]
	inner.check(r)
	outer.pending = append(append(outer.pending, inner.tests...), inner.pending...)
	return levels[:len(levels)-1]
}

// line takes a plan or a test point in.
func (l *tapLevel) line(text string, r *Result) {
	if m := tapPlan.FindStringSubmatch(text); m != nil {
		n, err := strconv.Atoi(m[1])
		if err != nil || l.plan >= 0 && l.plan != n {
			r.doubt("the plan %q is not the only one", text)
			return
		}
		l.plan = n
		return
	}
	m := tapPoint.FindStringSubmatch(text)
	number := l.last + 1
	if n, err := strconv.Atoi(m[2]); err == nil {
		number = n
	}
	if l.seen[number] {
		r.doubt("test %d came twice", number)
	}
	l.last, l.seen[number] = number, true
	name, status := tapNameAndStatus(m[3], m[1] == "")
	if name == "" {
		name = strconv.Itoa(number)
	}
	for _, t := range l.pending {
		l.tests = append(l.tests, tapTest{name + "/" + t.name, t.status})
	}
	l.pending = nil
	l.tests = append(l.tests, tapTest{name, status})
}

func tapNameAndStatus(description string, ok bool) (name, status string) {
	status = record.TestFailed
	if ok {
		status = record.TestPassed
	}
	if m := tapDirective.FindStringSubmatchIndex(description); m != nil {
		switch kind := strings.ToLower(description[m[2]:m[3]]); {
		case kind == "skip" && ok:
			status = record.TestSkipped
		case kind == "todo" && ok:
			status = record.TestXPass
		case kind == "todo":
			status = record.TestXFail
		}
		description = description[:m[0]]
	}
	description = tapTiming.ReplaceAllString(strings.TrimSpace(description), "")
	return strings.ReplaceAll(strings.TrimSpace(description), `\#`, "#"), status
}

// check compares a level with its plan.
func (l *tapLevel) check(r *Result) {
	if l.plan < 0 {
		r.doubt("there is no plan: the tests may not have run to their end")
		return
	}
	for _, n := range slices.Sorted(maps.Keys(l.seen)) {
		if n < 1 || n > l.plan {
			r.doubt("test %d is not in the plan 1..%d", n, l.plan)
		}
	}
	if missing := l.plan - len(l.seen); missing > 0 {
		r.broken("%d of %d planned tests are missing", missing, l.plan)
		r.doubt("%d of %d planned tests are missing", missing, l.plan)
	}
}
