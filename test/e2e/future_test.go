package e2e_test

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"strconv"
	"strings"
	"testing"

	"orchard/examples"
)

// upstream is a task's whole repository, with the fix that came later.
type upstream struct{ dir string }

func openUpstream(t *testing.T, name string) upstream {
	t.Helper()
	text, err := fs.ReadFile(examples.FS, path.Join(path.Dir(examples.Tasks), "repos", name+".fi"))
	if err != nil {
		t.Fatal(err)
	}
	u := upstream{t.TempDir()}
	u.git(t, nil, "init", "-q", "--bare")
	u.git(t, text, "fast-import", "--quiet")
	return u
}

func (u upstream) git(t *testing.T, stdin []byte, args ...string) []string {
	t.Helper()
	c := exec.CommandContext(context.Background(), "git", append([]string{"-C", u.dir}, args...)...)
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + u.dir, "GIT_CONFIG_NOSYSTEM=1"}
	c.Stdin = bytes.NewReader(stdin)
	out, err := c.Output()
	if err != nil {
		t.Fatalf("git %v: %v", args, err)
	}
	return strings.Fields(string(out))
}

// What a policy could find of later commits, by any way that git has: names, logs,
// objects that nothing refers to, packs, and every other git folder in the sandbox.
func TestNoFutureCommitInASandbox(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"ttlcache", "cronexpr", "ratelimit"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := ""
			for _, k := range tasks(t) {
				if strings.HasPrefix(k.TaskID, "examples__"+name+"-") {
					id = k.TaskID
				}
			}
			k := example(t, id)
			u := openUpstream(t, name)
			past := u.git(t, nil, "rev-list", "--objects", "--no-object-names", k.BaseCommit)
			future := u.git(t, nil, "rev-list", "--objects", "--no-object-names", "--all", "--not", k.BaseCommit)
			tags := u.git(t, nil, "tag", "--no-merged", k.BaseCommit)
			if len(past) < 10 || len(future) < 4 || len(tags) == 0 {
				t.Fatalf("%d objects up to the base, %d after it, tags %v: the test would show nothing", len(past), len(future), tags)
			}
			box := prepare(t, k)
			for _, look := range []string{
				"git log --all --format=%H", "git reflog --all --format=%H", "git for-each-ref", "git stash list", "git remote -v",
				"git fsck --unreachable --no-reflogs --full 2>&1", "git cat-file --batch-all-objects --batch-check", "cat .git/packed-refs 2>/dev/null || :",
				// The graders' own git folder lies outside of the working tree.
				`find / -xdev -type d -name objects 2>/dev/null | while read -r d; do
					git --git-dir="${d%/objects}" cat-file --batch-all-objects --batch-check 2>/dev/null || :; done`,
			} {
				out := sh(t, box, k, look)
				for _, object := range future {
					if strings.Contains(out, object) {
						t.Errorf("%s shows %s, which is later than the base commit:\n%s", look, object, out)
					}
				}
				for _, tag := range tags {
					if strings.Contains(out, "refs/tags/"+tag) {
						t.Errorf("%s shows the tag %s, which is later than the base commit:\n%s", look, tag, out)
					}
				}
			}
			all := sh(t, box, k, "git cat-file --batch-all-objects --batch-check")
			for _, object := range past {
				if !strings.Contains(all, object) {
					t.Errorf("%s, of the history up to the base commit, is missing", object)
				}
			}
			if got, want := sh(t, box, k, "git rev-list --all --count"), len(u.git(t, nil, "rev-list", k.BaseCommit)); strings.TrimSpace(got) != strconv.Itoa(want) {
				t.Errorf("%s commits, want %d", strings.TrimSpace(got), want)
			}
			if out := sh(t, box, k, "git status --porcelain --ignored"); out != "" {
				t.Errorf("the working tree is not clean:\n%s", out)
			}
		})
	}
}
