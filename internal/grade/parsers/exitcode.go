package parsers

import (
	"fmt"

	"orchard/datasets/record"
)

// exitCode takes each test command for one test, which passes with exit code 0. It is
// known by the command's text and as "command N", counted from 1.
type exitCode struct{}

func (exitCode) Name() string                          { return "exit-code" }
func (exitCode) Env(string) map[string]string          { return nil }
func (exitCode) Idle(_, _, _ string) map[string]string { return nil }

func (exitCode) Parse(run Run) Result {
	r := newResult()
	if notFound(run.ExitCode) {
		return r
	}
	r.Started = true
	status := record.TestPassed
	if run.ExitCode != 0 {
		status = record.TestFailed
	}
	r.add(run.Command, status)
	r.add(fmt.Sprintf("command %d", run.Number), status)
	return r
}
