package agent

import (
	"errors"
	"flag"
)

// How Run ends other than with nil or a failure. Everything that ran in the sandbox is
// dead by then.
var (
	ErrLease    = errors.New("the lease ran out without a heartbeat")
	ErrShutdown = errors.New("a controller asked for the end")
	ErrMemory   = errors.New("the sandbox ran out of memory")
)

// ConfigError is what is wrong with the settings.
type ConfigError struct{ err error }

func (e *ConfigError) Error() string { return e.err.Error() }

func (e *ConfigError) Unwrap() error { return e.err }

// ExitCode is the process's, for what ParseConfig, Copy or Run returned.
func ExitCode(err error) int {
	var config *ConfigError
	switch {
	case err == nil, errors.Is(err, ErrShutdown), errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, ErrLease):
		return 44
	case errors.Is(err, ErrMemory):
		return 45
	case errors.As(err, &config):
		return 78
	}
	return 1
}
