//go:build !linux

package local

import (
	"context"
	"runtime"

	"orchard/internal/exit"
	"orchard/internal/sandbox/control"
)

// Runtime needs Linux; there is none here.
type Runtime struct{ control.Runtime }

// New says that this system has no namespaces.
func New(context.Context, Options) (*Runtime, error) {
	return nil, exit.Configf("local sandboxes need Linux namespaces, this is %s: use a Linux machine or virtual machine, or a sandbox service elsewhere (SANDBOX_BASE_URL)", runtime.GOOS)
}

// Warm does nothing.
func (*Runtime) Warm(context.Context) error { return nil }

// Close does nothing.
func (*Runtime) Close() error { return nil }
