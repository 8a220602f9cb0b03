package annotate

import (
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"text/template"

	"orchard/datasets/record"
	"orchard/internal/seal"
	"orchard/jobs/credit/curve"
)

//go:embed prompts/credit.tmpl
var text string

var templates = template.Must(template.New("credit").Parse(text))

// TemplateID names the words of the prompt.
func TemplateID(w curve.When) string {
	return "credit-" + string(w) + "@" + seal.Bytes([]byte(text))[:12]
}

// ErrTooLong: not even its shortest form is within Limits.Total.
var ErrTooLong = errors.New("the trajectory is too long for the annotator, however much of it is left out")

// mostHalvings is how often all limits are halved before a trajectory is given up.
const mostHalvings = 6

// Prompt is a question as it is sent.
type Prompt struct {
	System, User string
	Chars        int // of both
	CutParts     int // texts of which the middle was left out
	CutChars     int // that were
}

// Ask is the question about a failed rollout that has steps. All of it is in there when
// that is within l.Total; else each text is cut to its limit, and while that does not do,
// all limits are halved. A text that was cut says how much is missing.
func Ask(r record.Rollout, w curve.When, l Limits) (Prompt, error) {
	for halvings := -1; halvings <= mostHalvings; halvings++ {
		c := &cutter{off: halvings < 0, limits: l.halved(halvings)}
		p, err := render(r, w, c)
		if err != nil {
			return p, err
		}
		if p.Chars <= l.Total {
			return p, nil
		}
	}
	return Prompt{}, ErrTooLong
}

func render(r record.Rollout, w curve.When, c *cutter) (p Prompt, err error) {
	vars := map[string]any{
		"When": string(w), "Last": len(r.Trajectory.Steps) - 1,
		"Task": task(r.Trajectory, c), "Steps": steps(r.Trajectory, c), "Result": result(r),
	}
	if p.System, err = execute("system", nil); err != nil {
		return p, err
	}
	p.User, err = execute("user", vars)
	p.Chars, p.CutParts, p.CutChars = length(p.System)+length(p.User), c.parts, c.chars
	return p, err
}

// Again is what is said to an answer that cannot be used, about a trajectory of n steps.
func Again(wrong *Reject, n int) (string, error) {
	return execute("again", map[string]any{"Wrong": wrong.Detail, "Last": n - 1})
}

func execute(name string, vars any) (string, error) {
	var b strings.Builder
	if err := templates.ExecuteTemplate(&b, name, vars); err != nil {
		return "", fmt.Errorf("template %s: %w", name, err)
	}
	return strings.Trim(b.String(), "\n"), nil
}

// result is what grading said, with the names of tests: first those that failed.
func result(r record.Rollout) string {
	var b strings.Builder
	fmt.Fprintf(&b, "The attempt ended with: %s. Verdict: %s", r.Trajectory.ExitStatus, r.Verdict.Outcome)
	if r.Verdict.Reason != "" {
		b.WriteString(" (" + shorten(r.Verdict.Reason, 500) + ")")
	}
	b.WriteString(".\n")
	var failed, passed []string
	for _, t := range r.Verdict.Tests {
		line := shorten(t.Name, 200) + " (" + strings.ReplaceAll(t.Kind, "_", " ") + ")"
		if t.Status == record.TestPassed || t.Status == record.TestXFail {
			passed = append(passed, line)
		} else {
			failed = append(failed, line+": "+t.Status)
		}
	}
	list := func(what string, names []string, most int) {
		if len(names) == 0 {
			return
		}
		fmt.Fprintf(&b, "Tests that %s (%d):\n", what, len(names))
		for _, n := range names[:min(len(names), most)] {
			b.WriteString("- " + n + "\n")
		}
		if len(names) > most {
			fmt.Fprintf(&b, "- and %d more\n", len(names)-most)
		}
	}
	list("did not pass", failed, 40)
	list("passed", passed, 20)
	if len(r.Verdict.Tests) == 0 {
		b.WriteString("No test was run on it.\n")
	}
	return strings.TrimSpace(b.String())
}
