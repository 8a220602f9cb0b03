package filter

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"orchard/internal/exit"
	"orchard/jobs/filter/contamination"
	"orchard/jobs/filter/rules"
)

// Reasons for leaving a task out, beside the names of rules.
const (
	ReasonNotAdmitted = "not_admitted"  // admission has no row of it, or gives no reason
	ReasonUnknown     = "_unknown"      // after a rule's name: it did not know, and says drop
	reasonEval        = "contaminated_" // before a check's name, when no rule says otherwise
	admissionStep     = "admission"     // in the funnel
	whyAdmission      = "its own gold patch was graded, and an empty one"
	whyEval           = "compared with the evaluation sets by "
	whyNoAdmissionRow = "admission has no row of the task"
)

// plan is the steps in their order.
type plan struct {
	program *rules.Program // without steps when there is no rule file
	checks  []contamination.Check
	limits  contamination.Limits
	steps   []*step
}

// step is one of three: admission, a rule's expression, or checks against evaluation sets.
type step struct {
	name, why string
	admission bool
	rule      *rules.Step
	checks    []contamination.Check
	evals     []string // names; empty for all
}

// newPlan puts admission first, then the rules, then the checks of --eval-checks unless
// the rules say themselves where the evaluation sets come in.
func newPlan(c Config, p *rules.Program, checks []contamination.Check) (*plan, error) {
	out := &plan{program: &rules.Program{}, limits: c.Limits}
	if c.Admission != "" {
		out.steps = append(out.steps, &step{name: admissionStep, why: whyAdmission, admission: true})
	}
	placed := false
	if p != nil {
		out.program = p
		for _, r := range p.Steps {
			s := &step{name: r.Name, why: r.Why, rule: r}
			if len(r.Contaminated) > 0 {
				var err error
				if s.checks, err = contamination.ParseChecks(r.Contaminated); err != nil {
					return nil, exit.Configf("--rules: %s: rule %s: contaminated: %w", p.Name, r.Name, err)
				}
				s.rule, s.evals, placed = nil, r.Evals, true
				out.checks = append(out.checks, s.checks...)
			}
			out.steps = append(out.steps, s)
		}
	}
	switch {
	case placed && len(c.Evals) == 0:
		return nil, exit.Configf("--eval: %s compares with evaluation sets (rule %s); give them with --eval NAME=URI, or take the rule out", p.Name, out.first().name)
	case placed && c.EvalChecks != Defaults().EvalChecks:
		return nil, exit.Configf("--eval-checks: %s says itself which checks are made (rule %s)", p.Name, out.first().name)
	case !placed && len(c.Evals) > 0:
		for _, k := range checks {
			out.steps = append(out.steps, &step{name: reasonEval + string(k), why: whyEval + string(k), checks: []contamination.Check{k}})
		}
		out.checks = checks
	}
	slices.Sort(out.checks)
	out.checks = slices.Compact(out.checks)
	out.checks, _ = contamination.ParseChecks(names(out.checks)) // in the order of All
	return out, nil
}

func names(checks []contamination.Check) []string {
	out := make([]string, len(checks))
	for i, c := range checks {
		out[i] = string(c)
	}
	return out
}

// first is the first step that compares with evaluation sets.
func (p *plan) first() *step {
	for _, s := range p.steps {
		if len(s.checks) > 0 {
			return s
		}
	}
	return nil
}

// makes says whether a step makes a check, of the evaluation set of this name or, when it
// is empty, of any.
func (p *plan) makes(check contamination.Check, set string) bool {
	return slices.ContainsFunc(p.steps, func(s *step) bool {
		return slices.Contains(s.checks, check) && (set == "" || len(s.evals) == 0 || slices.Contains(s.evals, set))
	})
}

// needs says which evaluation sets rules name and nobody gave, and which nobody asks for.
func (p *plan) needs(given []string) error {
	used := map[string]bool{}
	for _, s := range p.steps {
		for _, name := range s.evals {
			if used[name] = true; !slices.Contains(given, name) {
				return exit.Configf("--eval: rule %s compares with the evaluation set %s; give it with --eval %s=URI (given: %s)", s.name, name, name, strings.Join(given, ", "))
			}
		}
		if len(s.checks) > 0 && len(s.evals) == 0 {
			return nil
		}
	}
	for _, name := range given {
		if !used[name] {
			return exit.Configf("--eval: no rule compares with the evaluation set %s; rules name %s", name, strings.Join(p.named(), ", "))
		}
	}
	return nil
}

// named is the evaluation sets that rules name.
func (p *plan) named() []string {
	var out []string
	for _, s := range p.steps {
		for _, name := range s.evals {
			if !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	return out
}

// counting is the steps that have to see all rows that reach them before they can decide.
func (p *plan) counting() []int {
	var out []int
	for i, s := range p.steps {
		if s.rule != nil && s.rule.Counts() {
			out = append(out, i)
		}
	}
	return out
}

// drop is why a step leaves a task out.
type drop struct {
	reason, detail string
}

var snake = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// standingDrop is why admission leaves a task out, or nil.
func standingDrop(all map[string]standing, id string) *drop {
	s, ok := all[id]
	switch {
	case !ok:
		return &drop{ReasonNotAdmitted, whyNoAdmissionRow}
	case s.admitted:
		return nil
	case !snake.MatchString(s.reason):
		return &drop{ReasonNotAdmitted, s.reason}
	}
	return &drop{s.reason, "admission: " + s.reason}
}

// ruleDrop is why a rule leaves a task out, or nil.
func ruleDrop(name string, said rules.Decision) *drop {
	switch {
	case !said.Drop:
		return nil
	case said.Unknown:
		return &drop{name + ReasonUnknown, said.Detail}
	}
	return &drop{name, said.Detail}
}

// about reports whether a match is one that the step drops for.
func (s *step) about(m contamination.Match) bool {
	return len(contamination.Of([]contamination.Match{m}, s.checks, s.evals)) > 0
}

// matchDrop is why a check leaves a task out, or nil.
func (s *step) matchDrop(found []contamination.Match) *drop {
	of := contamination.Of(found, s.checks, s.evals)
	if len(of) == 0 {
		return nil
	}
	return &drop{s.name, fmt.Sprintf("%s with %s of %s (%.3g)", of[0].Rule, of[0].EvalID, of[0].EvalSet, of[0].Score)}
}
