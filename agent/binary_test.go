package agent_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// builtDir is removed by TestMain.
var builtDir string

var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "agent-binary")
	if err != nil {
		return "", err
	}
	builtDir = dir
	if err := os.Chmod(dir, 0o755); err != nil { // tests run it as other users
		return "", err
	}
	out := filepath.Join(dir, "orchard-agent")
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", out, "orchard/cmd/orchard-agent")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		return "", errors.New(string(text))
	}
	return out, nil
})

// binary is the real program, built as it is released.
func binary(t testing.TB) string {
	t.Helper()
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestBinary(t *testing.T) {
	t.Parallel()
	program := binary(t)
	info, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() >= 8<<20 {
		t.Errorf("it has %d bytes, want under 8 MiB", info.Size())
	}
	t.Run("copy", func(t *testing.T) {
		dst := t.TempDir() + "/deep/agent"
		if text, err := exec.Command(program, "copy", dst).CombinedOutput(); err != nil {
			t.Fatalf("copy: %v %s", err, text)
		}
		text, err := exec.Command(dst, "--version").Output()
		if err != nil || !strings.HasPrefix(string(text), "orchard-agent ") {
			t.Errorf("the copy says %q, %v", text, err)
		}
	})
	for _, c := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"no settings", nil, 78, "--uid: missing"},
		{"no key", []string{"--uid", "x"}, 78, "--keys: there is no public key"},
		{"bad key", []string{"--uid", "x", "--keys", "AAAA"}, 78, `--keys: public key \"AAAA\" is not base64 of 32 bytes`},
		{"no keys file", []string{"--uid", "x", "--keys-file", "/no/such"}, 78, "--keys-file: open /no/such"},
		{"bad lease", []string{"--lease", "5"}, 78, "--lease: \\\"5\\\" is not a duration"},
		{"relative cwd", []string{"--cwd", "work"}, 78, "--cwd: "},
		{"bad env", []string{"--env", "X"}, 78, "is not NAME=VALUE"},
		{"unknown flag", []string{"--nope"}, 78, "nope"},
		{"stray argument", []string{"serve"}, 78, "unexpected argument"},
		{"address in use or bad", []string{"--uid", "x", "--keys", strings.Repeat("A", 43) + "=", "--cwd", t.TempDir(), "--spool", t.TempDir(), "--listen", "unix:/no/such/socket"}, 1, "--listen: "},
		{"copy without a target", []string{"copy"}, 1, "want one argument"},
		{"copy to a directory", []string{"copy", t.TempDir()}, 1, "EISDIR"},
		{"help", []string{"--help"}, 0, "ORCHARD_AGENT_UID"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(program, c.args...)
			text, _ := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(string(text), c.says) {
				t.Errorf("got exit %d and %s, want %d and %s", code, text, c.code, c.says)
			}
		})
	}
}
