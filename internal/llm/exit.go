package llm

import (
	"errors"

	"orchard/internal/exit"
)

// Exit marks an error of a call with how a stage ends that cannot go on without it: to be
// tried again when the server is away, as a mistake in the settings when it is there and
// will not do. Any other error is returned as it is.
func Exit(err error) error {
	var e *Error
	switch {
	case !errors.As(err, &e):
		return err
	case e.Class == Unreachable || e.Class == Transient:
		return exit.With(exit.Retry, err)
	}
	return exit.With(exit.Config, err)
}
