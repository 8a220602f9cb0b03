package readers_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// modules is the folder that install.sh installed the readers into; tests install nothing.
// Without it they are skipped, unless ORCHARD_REQUIRE_ALL=1 says that it has to be there.
func modules(t *testing.T) string {
	t.Helper()
	version, err := exec.CommandContext(t.Context(), "node", "--version").Output()
	if err != nil {
		absent(t)
	}
	h := sha256.New()
	for _, name := range []string{"package.json", "package-lock.json"} {
		raw, err := os.ReadFile(name)
		check(t, err)
		h.Write(raw)
	}
	major, _, _ := strings.Cut(string(version), ".")
	cache, err := os.UserCacheDir()
	check(t, err)
	dir := filepath.Join(cache, "orchard", "readers-"+major+"-"+hex.EncodeToString(h.Sum(nil))[:16])
	if _, err := os.Stat(filepath.Join(dir, "done")); err != nil {
		absent(t)
	}
	return filepath.Join(dir, "node_modules")
}

func absent(t *testing.T) {
	t.Helper()
	const missing = "the readers are not installed: apt-get install nodejs npm, then test/readers/install.sh"
	if os.Getenv("ORCHARD_REQUIRE_ALL") == "1" {
		t.Fatal(missing + " (ORCHARD_REQUIRE_ALL is 1)")
	}
	t.Skip(missing)
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
