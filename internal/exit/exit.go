// Package exit turns errors into the exit codes that every Orchard program shares.
//
// A stage ends in one of six ways, and a scheduler (a shell loop, Argo's retry
// expression, a Kubernetes Pod failure policy) reads which one from the exit code
// alone. Whoever knows the way marks the error with With or one of its short forms; Code
// reads the mark, in main for the process and elsewhere to tell the ways apart.
// The table never uses 2, 64 or 126 to 165: the Go runtime, Argo's executor and
// signals take those.
package exit

import (
	"context"
	"errors"
	"fmt"
)

// The exit codes, named after sysexits where one fits.
const (
	OK     = 0  // done, or found done
	Bug    = 1  // none of the below: a fault in Orchard
	Input  = 65 // the data is wrong; a retry reads the same data
	Gone   = 69 // something needed is gone for good (a deleted model, a full disk)
	Retry  = 75 // try again: a dependency was away, or SIGTERM came and work is saved
	Config = 78 // flags, environment or machine are wrong
)

// coded is an error with its exit code.
type coded struct {
	code int
	err  error
}

func (e *coded) Error() string { return e.err.Error() }
func (e *coded) Unwrap() error { return e.err }

// With marks err with an exit code; nil stays nil. The outermost mark wins.
func With(code int, err error) error {
	if err == nil {
		return nil
	}
	return &coded{code, err}
}

// Inputf, Gonef, Retryf and Configf make a marked error as fmt.Errorf would.
func Inputf(format string, a ...any) error  { return With(Input, fmt.Errorf(format, a...)) }
func Gonef(format string, a ...any) error   { return With(Gone, fmt.Errorf(format, a...)) }
func Retryf(format string, a ...any) error  { return With(Retry, fmt.Errorf(format, a...)) }
func Configf(format string, a ...any) error { return With(Config, fmt.Errorf(format, a...)) }

// Code is the exit code of err: its outermost mark, Retry for an unmarked
// cancellation or deadline (SIGTERM after the work is saved), else Bug.
func Code(err error) int {
	if err == nil {
		return OK
	}
	var c *coded
	if errors.As(err, &c) {
		return c.code
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return Retry
	}
	return Bug
}

// Help is the EXIT STATUS block that every stage's --help carries.
const Help = `EXIT STATUS
   0   done, or the result was already there
   65  bad input: the message names file, row and field
   69  something needed is gone for good
   75  try again: a dependency was away, or the stage was told to stop; finished work is kept
   78  bad flags, environment or machine
   1   a fault in Orchard: please report it`
