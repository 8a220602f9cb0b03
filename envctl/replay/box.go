package replay

import (
	"context"
	"io"
	"io/fs"

	"orchard/envctl/client"
	"orchard/internal/sandbox"
)

// Box is a sandbox of the SDK as the workspace knows one.
type Box struct{ *client.Sandbox }

var _ sandbox.Sandbox = Box{}

// Exec implements sandbox.Sandbox.
func (b Box) Exec(ctx context.Context, c sandbox.Command) (sandbox.Result, error) {
	r, err := b.Sandbox.Exec(ctx, client.Command{
		Shell: c.Shell, Argv: c.Argv, Cwd: c.Cwd, Env: c.Env, Stdin: c.Stdin, Timeout: c.Timeout,
		Merge: c.Merge, Concurrent: c.Concurrent, IdempotencyKey: c.IdempotencyKey,
	})
	return sandbox.Result{
		ExitCode: r.ExitCode, TimedOut: r.TimedOut, Stdout: r.Stdout, Stderr: r.Stderr,
		StdoutBytes: r.StdoutBytes, StderrBytes: r.StderrBytes, Truncated: r.Truncated, Duration: r.Duration,
	}, err
}

// Put implements sandbox.Sandbox.
func (b Box) Put(ctx context.Context, path string, r io.Reader, size int64, mode uint32) error {
	return b.Sandbox.Put(ctx, path, r, size, fs.FileMode(mode))
}

// List implements sandbox.Sandbox.
func (b Box) List(ctx context.Context, path string) ([]sandbox.File, error) {
	all, err := b.Sandbox.List(ctx, path)
	files := make([]sandbox.File, len(all))
	for i, f := range all {
		files[i] = sandbox.File{Name: f.Name, Dir: f.Kind == "directory", Size: f.Size, Modified: f.Modified}
	}
	return files, err
}

// Close implements sandbox.Sandbox.
func (b Box) Close(ctx context.Context) error { return b.Delete(ctx) }
