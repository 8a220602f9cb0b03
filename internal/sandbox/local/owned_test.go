//go:build linux

package local

import (
	"os"
	"path/filepath"
	"testing"

	"orchard/internal/exit"
)

// A cache that somebody else may write would let them run code in every sandbox.
func TestForeignCacheIsRefused(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "cache")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := checkOwned(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	_, err := New(t.Context(), Options{StateDir: t.TempDir(), CacheDir: dir, AgentPath: agentBinary})
	if exit.Code(err) != exit.Config {
		t.Errorf("a cache that all may write: %v", err)
	}
}
