package pipeline

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/expr-lang/expr"
)

// Phase is how a node ended, in Argo's words.
type Phase string

// The phases. A task is Omitted when its depends can no longer become true.
const (
	Running   Phase = "Running"
	Succeeded Phase = "Succeeded"
	Failed    Phase = "Failed"
	Error     Phase = "Error" // we do not know what the step did: it could not be run to its end
	Skipped   Phase = "Skipped"
	Omitted   Phase = "Omitted"
)

// Bad reports whether a phase ends the branch it is on.
func (p Phase) Bad() bool { return p == Failed || p == Error }

var dependsName = regexp.MustCompile(`[A-Za-z0-9_][A-Za-z0-9_-]*(\.[A-Za-z]+)?`)

// dependsOn is the names in a task's depends, in order of appearance.
func dependsOn(t *Task) []string {
	var names []string
	for _, m := range dependsName.FindAllString(dependsText(t), -1) {
		name, _, _ := strings.Cut(m, ".")
		names = append(names, name)
	}
	return names
}

func dependsText(t *Task) string {
	if t.Depends != "" {
		return t.Depends
	}
	return strings.Join(t.Dependencies, " && ")
}

// ready evaluates depends once every named task has ended. A bare name means that the
// task succeeded or was skipped.
func ready(t *Task, ended map[string]Phase) (bool, error) {
	text := dependsText(t)
	if text == "" {
		return true, nil
	}
	var bad error
	code := dependsName.ReplaceAllStringFunc(text, func(m string) string {
		name, want, _ := strings.Cut(m, ".")
		p, ok := ended[name]
		if !ok {
			bad = fmt.Errorf("depends: no task %q", name)
		}
		switch want {
		case "":
			return strconv.FormatBool(p == Succeeded || p == Skipped)
		case "Succeeded", "Failed", "Skipped", "Omitted":
			return strconv.FormatBool(string(p) == want)
		case "Errored":
			return strconv.FormatBool(p == Error)
		default:
			bad = fmt.Errorf("depends: %s: %q is not one of Succeeded, Failed, Errored, Skipped, Omitted", m, want)
			return "false"
		}
	})
	if bad != nil {
		return false, bad
	}
	v, err := expr.Eval(code, nil)
	if err != nil {
		return false, fmt.Errorf("depends %q: %w", text, err)
	}
	b, ok := v.(bool)
	if !ok {
		return false, fmt.Errorf("depends %q: not a condition", text)
	}
	return b, nil
}

// whenToken splits a condition into quoted text, operators and bare words.
var whenToken = regexp.MustCompile(`'[^']*'|"[^"]*"|==|!=|<=|>=|=~|&&|\|\||[<>!()]|[^\s<>!=()&|'"]+`)

// when evaluates a task's condition after expansion. As in Argo, a bare word is text:
// `when: "{{tasks.a.status}} == Succeeded"`.
func (s scope) when(cond string) (bool, error) {
	if cond == "" {
		return true, nil
	}
	if code, ok := strings.CutPrefix(strings.TrimSpace(cond), "{{="); ok && strings.HasSuffix(code, "}}") {
		return s.evalBool(strings.TrimSuffix(code, "}}"))
	}
	text, err := s.expand(cond)
	if err != nil {
		return false, fmt.Errorf("when: %w", err)
	}
	var code []string
	for _, tok := range whenToken.FindAllString(text, -1) {
		switch {
		case tok == "=~":
			tok = "matches"
		case tok[0] == '\'':
			tok = strconv.Quote(strings.Trim(tok, "'"))
		case strings.ContainsAny(tok[:1], `"<>=!&|()`), tok == "true", tok == "false":
		default:
			if _, err := strconv.ParseFloat(tok, 64); err != nil {
				tok = strconv.Quote(tok)
			}
		}
		code = append(code, tok)
	}
	return scope{}.evalBool(strings.Join(code, " "))
}
