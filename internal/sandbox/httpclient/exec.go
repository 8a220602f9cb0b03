package httpclient

import (
	"context"
	"errors"
	"fmt"

	"orchard/internal/sandbox"
	"orchard/internal/sandbox/httpclient/rest"
)

// Exec implements sandbox.Sandbox. When ctx ends first, the command is killed.
func (b *box) Exec(ctx context.Context, c sandbox.Command) (sandbox.Result, error) {
	if c.Timeout <= 0 || (c.Shell == "") == (len(c.Argv) == 0) {
		return sandbox.Result{}, fmt.Errorf("exec in sandbox %s: a command needs a timeout and one of shell and argv", b.id)
	}
	if c.IdempotencyKey == "" {
		c.IdempotencyKey = rest.NewKey()
	}
	e := rest.Exec{
		Command: c.Shell, Argv: c.Argv, Timeout: c.Timeout.Seconds(), Cwd: c.Cwd, Env: c.Env, Stdin: c.Stdin,
		Merge: c.Merge, Concurrent: c.Concurrent,
	}
	j, err := b.client.Run(ctx, b.id, e, c.IdempotencyKey)
	if ctx.Err() != nil && !j.Over() {
		err = errors.Join(context.Cause(ctx), lost(b.id, b.client.Kill(ctx, b.id, e, c.IdempotencyKey, j.ID)))
	}
	switch err = lost(b.id, err); {
	case err != nil:
		return sandbox.Result{}, fmt.Errorf("exec in sandbox %s: %w", b.id, err)
	case j.Lost():
		return sandbox.Result{}, &sandbox.Lost{ID: b.id, Reason: j.Error}
	case j.ExitCode == nil:
		return sandbox.Result{}, fmt.Errorf("exec in sandbox %s: job %s ended without an exit code: %s", b.id, j.ID, j.Error)
	}
	return sandbox.Result{
		ExitCode: *j.ExitCode, TimedOut: j.TimedOut(),
		Stdout: j.Stdout, Stderr: j.Stderr, StdoutBytes: j.StdoutBytes, StderrBytes: j.StderrBytes,
		Truncated: j.StdoutCut || j.StderrCut, Duration: j.Duration(),
	}, nil
}
