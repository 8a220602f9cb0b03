package examples_test

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// git runs git on the repository at dir, without any configuration of this machine.
func git(t *testing.T, dir, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...)
	cmd.Env = environ(t.TempDir())
	cmd.Stdin = strings.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, &stderr)
	}
	return strings.TrimSpace(string(out))
}

// importRepo makes a bare repository of a task's fast-import text.
func importRepo(t *testing.T, k task) string {
	t.Helper()
	dir := t.TempDir()
	git(t, dir, "", "init", "-q", "--bare", "-b", "main")
	git(t, dir, string(read(t, k.repository())), "fast-import", "--quiet")
	return dir
}

// checkout makes a working tree of the base commit, with patches applied.
func checkout(t *testing.T, repo string, k task, patches ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "testbed")
	git(t, repo, "", "clone", "-q", "--no-checkout", ".", dir)
	git(t, dir, "", "checkout", "-q", k.BaseCommit)
	for _, p := range patches {
		if p != "" {
			git(t, dir, p, "apply", "-")
		}
	}
	return dir
}

// The history goes on after the base commit, with the real fix first: only then does a
// sandbox without future commits mean something.
func TestHistory(t *testing.T) {
	t.Parallel()
	for _, k := range load(t) {
		t.Run(k.InstanceID, func(t *testing.T) {
			t.Parallel()
			repo := importRepo(t, k)
			git(t, repo, "", "fsck", "--strict")
			past := strings.Fields(git(t, repo, "", "rev-list", k.BaseCommit))
			future := strings.Fields(git(t, repo, "", "rev-list", "--reverse", k.BaseCommit+"..main"))
			if len(past) < 4 || len(future) == 0 {
				t.Fatalf("%d commits up to the base and %d after it, want at least 4 and 1", len(past), len(future))
			}
			fix := future[0]
			if parent := git(t, repo, "", "rev-parse", fix+"^"); parent != k.BaseCommit {
				t.Errorf("the parent of the fix is %s, want the base commit", parent)
			}
			dir := checkout(t, repo, k, k.Patch, k.TestPatch)
			git(t, dir, "", "add", "-A")
			if got, want := git(t, dir, "", "write-tree"), git(t, repo, "", "rev-parse", fix+"^{tree}"); got != want {
				t.Errorf("patch and test_patch make another tree than the fix: %s, want %s", got, want)
			}

			created, err := time.Parse(time.RFC3339, k.CreatedAt)
			if err != nil {
				t.Fatal(err)
			}
			if base, fixed := date(t, repo, k.BaseCommit), date(t, repo, fix); !base.Before(created) || !created.Before(fixed) {
				t.Errorf("created_at %s is not between the base commit, %s, and the fix, %s", created, base, fixed)
			}
		})
	}
}

func date(t *testing.T, repo, commit string) time.Time {
	t.Helper()
	d, err := time.Parse(time.RFC3339, git(t, repo, "", "show", "-s", "--format=%cI", commit))
	if err != nil {
		t.Fatal(err)
	}
	return d
}
