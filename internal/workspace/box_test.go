package workspace

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"orchard/internal/sandbox"
)

// box is a sandbox without isolation: commands of this machine, with a PATH of the
// test's choosing. It is for what the package does with files and git; that it works
// behind namespaces is shown by the tests of the packages above.
type box struct {
	id   string
	path string
	home string
}

var _ sandbox.Sandbox = (*box)(nil)

// newBox is a box whose PATH is this machine's.
func newBox(t testing.TB) *box {
	t.Helper()
	return &box{id: t.Name() + time.Now().String(), path: os.Getenv("PATH"), home: t.TempDir()}
}

// without hides programs: PATH becomes one folder of links to all others.
func (b *box) without(t testing.TB, hidden ...string) *box {
	t.Helper()
	dir := t.TempDir()
	for _, from := range []string{"/bin", "/usr/bin"} {
		entries, err := os.ReadDir(from)
		if err != nil {
			t.Fatal(err)
		}
	next:
		for _, e := range entries {
			for _, h := range hidden {
				if e.Name() == h {
					continue next
				}
			}
			if err := os.Symlink(filepath.Join(from, e.Name()), filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, os.ErrExist) {
				t.Fatal(err)
			}
		}
	}
	b.path = dir
	return b
}

func (b *box) ID() string { return b.id }

func (b *box) Exec(ctx context.Context, c sandbox.Command) (sandbox.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	argv := c.Argv
	if c.Shell != "" {
		argv = []string{"/bin/sh", "-c", c.Shell}
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = c.Cwd
	cmd.Env = []string{"PATH=" + b.path, "HOME=" + b.home}
	for k, v := range c.Env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if c.Merge {
		cmd.Stderr = &stdout
	}
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return sandbox.Result{}, err
	}
	return sandbox.Result{ExitCode: cmd.ProcessState.ExitCode(), TimedOut: ctx.Err() != nil, Stdout: stdout.Bytes(), Stderr: stderr.Bytes()}, nil
}

func (b *box) Put(_ context.Context, path string, r io.Reader, _ int64, mode uint32) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	body, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(path, body, os.FileMode(mode)), os.Chmod(path, os.FileMode(mode)))
}

func (b *box) Get(_ context.Context, path string) (io.ReadCloser, error) { return os.Open(path) }

func (b *box) List(context.Context, string) ([]sandbox.File, error) {
	return nil, errors.New("list: not part of this box")
}

func (b *box) Close(context.Context) error { return nil }
