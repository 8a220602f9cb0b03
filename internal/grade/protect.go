package grade

import (
	"context"
	"path"

	"orchard/internal/workspace"
)

// Protected are the names of files that decide how tests are found and run rather than
// what the program does. A file that the task's own gold patch changes is never
// protected.
var Protected = []string{
	"*_test.go", "test_*.py", "*_test.py", "*.bats",
	"conftest.py", "pytest.ini", ".pytest.ini", "sitecustomize.py", "usercustomize.py",
	"*.pyc", // Python may load one instead of the source beside it
}

func (g *Grader) protect() []string {
	if g.Protect == nil {
		return Protected
	}
	return g.Protect
}

// guard knows which paths of a diff are undone before the tests.
type guard struct {
	patterns []string
	tests    map[string]bool
	gold     map[string]bool
}

func (a *attempt) guard(ctx context.Context, tests []string) (guard, error) {
	g := guard{patterns: a.g.protect(), tests: map[string]bool{}, gold: map[string]bool{}}
	for _, p := range tests {
		g.tests[p] = true
	}
	patch, err := a.g.text(ctx, a.task.GoldPatch)
	if err != nil {
		return g, err
	}
	gold, err := workspace.Paths(patch)
	if err != nil {
		return g, nil // the canary says what is wrong with it
	}
	for _, p := range gold {
		g.gold[p] = true
	}
	return g, nil
}

// why says why a change of the path is undone, "" when it stays.
func (g guard) why(p string) string {
	if g.tests[p] {
		return "the task's own tests replace it"
	}
	if g.gold[p] {
		return ""
	}
	for _, pattern := range g.patterns {
		if ok, _ := path.Match(pattern, path.Base(p)); ok {
			return "tests and their runner's configuration are the task's"
		}
	}
	return ""
}
