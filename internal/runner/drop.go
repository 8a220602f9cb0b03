package runner

import (
	"errors"
	"fmt"

	"orchard/internal/exit"
)

// Reasons that the runner itself drops rows for.
const (
	ReasonInfra       = "infra_error"  // still in trouble when the version was committed
	ReasonTaskInvalid = "task_invalid" // Do said that its input is wrong
	ReasonNotNeeded   = "not_needed"   // Source.Limit was reached by units before it
)

// dropped finishes a unit without a row.
type dropped struct {
	reason string
	err    error
}

func (d *dropped) Error() string { return fmt.Sprintf("dropped as %s: %v", d.reason, d.err) }
func (d *dropped) Unwrap() error { return d.err }

// Drop is an error of Do that finishes the unit without a row, for good: it counts
// under reason, and a rerun does not try it again.
func Drop(reason string, err error) error { return &dropped{reason, err} }

// dropReason is the reason under which err finishes a unit; ok is false when it does not.
func dropReason(err error) (reason string, ok bool) {
	var d *dropped
	if errors.As(err, &d) {
		return d.reason, true
	}
	if err != nil && exit.Code(err) == exit.Input {
		return ReasonTaskInvalid, true
	}
	return "", false
}
