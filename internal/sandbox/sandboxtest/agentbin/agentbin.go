// Package agentbin builds orchard-agent for tests, once per test process, through the
// build cache. It is for tests only.
package agentbin

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"orchard/internal/seal"
)

// Path is the built agent; the test fails when it does not build.
func Path(t testing.TB) string {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var build = sync.OnceValues(func() (string, error) {
	// Named by content, so that checkouts and test processes that run at the same time
	// do not take each other's.
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("orchard-test-agent-%d", os.Getuid()))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("folder for the test agent: %w", err)
	}
	fresh := filepath.Join(dir, fmt.Sprintf("build-%d", os.Getpid()))
	cmd := exec.Command("go", "build", "-o", fresh, "orchard/cmd/orchard-agent")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build orchard-agent for tests: %w\n%s", err, out)
	}
	content, err := os.ReadFile(fresh)
	if err != nil {
		return "", fmt.Errorf("read the test agent: %w", err)
	}
	path := filepath.Join(dir, "orchard-agent-"+seal.Bytes(content)[:16])
	if err := os.Rename(fresh, path); err != nil {
		return "", fmt.Errorf("place the test agent: %w", err)
	}
	return path, nil
})
