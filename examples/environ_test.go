package examples_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// goEnv is where this machine keeps Go and its build cache; with an empty cache every
// run would compile the standard library.
var goEnv = sync.OnceValue(func() (dirs struct{ root, cache string }) {
	out, err := exec.Command("go", "env", "GOROOT", "GOCACHE").Output()
	if err == nil {
		dirs.root, dirs.cache, _ = strings.Cut(strings.TrimSpace(string(out)), "\n")
	}
	return dirs
})

// programs is where a sandbox looks for programs: what the distribution installed, and
// Go. Others, such as a second Python in a home folder, do not count.
func programs() []string {
	return []string{"/usr/sbin", "/usr/bin", "/sbin", "/bin", filepath.Join(goEnv().root, "bin")}
}

// environ is the environment of a sandbox, as far as it can be had without one.
func environ(home string, extra ...string) []string {
	return append([]string{
		"PATH=" + strings.Join(programs(), ":"),
		"HOME=" + home,
		"LC_ALL=C.UTF-8",
		"GIT_CONFIG_NOSYSTEM=1",
		"GOCACHE=" + goEnv().cache,
		// Trimmed, what was compiled in one folder serves the next one as well.
		"GOFLAGS=-mod=mod -trimpath",
		"GOPROXY=off",
		"GOTOOLCHAIN=local",
		"PYTHONDONTWRITEBYTECODE=1",
	}, extra...)
}

// needToolchain skips a test in a language that this machine has no tools for, unless
// ORCHARD_REQUIRE_ALL=1 says that it has to have them.
func needToolchain(t *testing.T, language string) {
	t.Helper()
	var missing string
	switch language {
	case "go":
		missing = lacking("go")
	case "python":
		if missing = lacking("python3"); missing == "" && !runs("python3", "-m", "pytest", "--version") {
			missing = "pytest (python3-pytest)"
		}
	case "shell":
		missing = lacking("bash", "bats")
	case "c":
		missing = lacking("make", "gcc", "cc")
	default:
		t.Fatalf("language %q is unknown", language)
	}
	if missing == "" {
		return
	}
	if os.Getenv("ORCHARD_REQUIRE_ALL") == "1" {
		t.Fatalf("%s is not installed, and ORCHARD_REQUIRE_ALL is 1", missing)
	}
	t.Skipf("%s is not installed", missing)
}

// lacking is the first of the programs that there is not.
func lacking(names ...string) string {
	for _, name := range names {
		if locate(name) == "" {
			return name
		}
	}
	return ""
}

func locate(name string) string {
	for _, dir := range programs() {
		if p, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return p
		}
	}
	return ""
}

func runs(name string, args ...string) bool {
	cmd := exec.Command(locate(name), args...)
	cmd.Env = environ(os.TempDir())
	return cmd.Run() == nil
}
