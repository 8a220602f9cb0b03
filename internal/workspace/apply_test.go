package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestApply(t *testing.T) {
	t.Parallel()
	const head = "diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n"
	tests := []struct {
		name, patch  string
		method       string // "" is an ApplyError
		outside      string // the same without git in the sandbox
		file, result string
	}{
		{"exact", head + "@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n", "git-apply", "gitdiff", "a.txt", "one\nTWO\nthree\n"},
		{"last newline lost", head + "@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three", "git-apply", "gitdiff", "a.txt", "one\nTWO\nthree\n"},
		{"without git header", "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n", "git-apply", "gitdiff", "a.txt", "one\nTWO\nthree\n"},
		{"lf for a file checked out with crlf", "diff --git a/win.bat b/win.bat\n--- a/win.bat\n+++ b/win.bat\n@@ -1 +1,2 @@\n echo\n+more\n",
			"git-apply-attributes", "", "win.bat", "echo\r\nmore\r\n"},
		{"wrong counts", head + "@@ -1,9 +1,9 @@\n one\n-two\n+TWO\n three\n", "git-apply-lenient", "", "a.txt", "one\nTWO\nthree\n"},
		{"other spaces", "--- a/run.sh\n+++ b/run.sh\n@@ -1,2 +1,3 @@\n #!/bin/sh\n echo \t hi\n+true\n", "git-apply-lenient", "", "run.sh", "#!/bin/sh\necho hi\ntrue\n"},
		{"fuzz", head + "@@ -1,3 +1,3 @@\n uno\n-two\n+TWO\n three\n", "patch-fuzz", "", "a.txt", "one\nTWO\nthree\n"},
		{"other content", head + "@@ -1,3 +1,3 @@\n uno\n-dos\n+DOS\n tres\n", "", "", "a.txt", "one\ntwo\nthree\n"},
		{"half of it", head + "@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\ndiff --git a/noeol b/noeol\n--- a/noeol\n+++ b/noeol\n@@ -1 +1 @@\n-other\n+x\n", "", "", "a.txt", "one\ntwo\nthree\n"},
		{"no such file", "--- a/none\n+++ b/none\n@@ -1 +1 @@\n-a\n+b\n", "", "", "a.txt", "one\ntwo\nthree\n"},
		{"no patch", "I fixed it.\n", "", "", "a.txt", "one\ntwo\nthree\n"},
		{"outside of the tree", "--- a/../evil\n+++ b/../evil\n@@ -0,0 +1 @@\n+x\n", "", "", "../evil", ""},
		{"into .git", "--- /dev/null\n+++ b/.git/hooks/post-checkout\n@@ -0,0 +1 @@\n+x\n", "", "", ".git/hooks/post-checkout", ""},
	}
	for _, inside := range []bool{true, false} {
		for _, tt := range tests {
			name, want := "git inside/"+tt.name, tt.method
			if !inside {
				name, want = "git outside/"+tt.name, tt.outside
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				b := newBox(t)
				if !inside {
					b.without(t, "git")
				}
				task := prepared(t, b)
				before := tree(t, task.Workdir)
				got, err := Apply(t.Context(), b, task, []byte(tt.patch))
				if want == "" {
					var failed *ApplyError
					if !errors.As(err, &failed) || failed.Words == "" {
						t.Fatalf("got %q, %v; want an ApplyError with words", got, err)
					}
					if d := cmp.Diff(before, tree(t, task.Workdir)); d != "" {
						t.Errorf("a failed patch left (-before +after):\n%s", d)
					}
					return
				}
				if err != nil || got != want {
					t.Fatalf("got %q, %v; want %q", got, err, want)
				}
				body, err := os.ReadFile(filepath.Join(task.Workdir, tt.file))
				if err != nil || string(body) != tt.result {
					t.Errorf("%s is %q, %v; want %q", tt.file, body, err, tt.result)
				}
			})
		}
	}
}

func TestApplyThreeWay(t *testing.T) {
	t.Parallel()
	task, src, _ := bundled(t)
	b := newBox(t)
	prepare(t, b, task, src)
	sh(t, task.Workdir, "echo four >>a.txt")
	patch := diff(t, b, task)
	other := task
	other.Workdir = filepath.Join(t.TempDir(), "testbed")
	fresh := newBox(t)
	prepare(t, fresh, other, src)
	sh(t, other.Workdir, "echo four >>a.txt")
	method, err := Apply(t.Context(), fresh, other, []byte(patch))
	if err != nil || method != "git-apply-3way" {
		t.Errorf("a change that is there already: %q, %v; want git-apply-3way", method, err)
	}
}

func TestApplyAPatchLargerThanAnyArgument(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	task := prepared(t, b)
	const lines = 400_000
	patch := "diff --git a/big b/big\nnew file mode 100644\n--- /dev/null\n+++ b/big\n@@ -0,0 +1,400000 @@\n" + strings.Repeat("+PATCH_EOF\n", lines)
	if _, err := Apply(t.Context(), b, task, []byte(patch)); err != nil {
		t.Fatal(err)
	}
	body, err := os.ReadFile(filepath.Join(task.Workdir, "big"))
	if err != nil || string(body) != strings.Repeat("PATCH_EOF\n", lines) {
		t.Errorf("big has %d bytes, %v", len(body), err)
	}
}

func TestRestore(t *testing.T) {
	t.Parallel()
	for _, inside := range []bool{true, false} {
		for _, tt := range []struct{ name, script string }{
			{"nothing", "true"},
			{"edit", "echo x >>tests/test_a; chmod +x run.sh"},
			{"delete", "rm -r tests run.sh"},
			{"new", "echo x >tests/new; echo x >new.log"},
			{"symlink for a folder", "rm -r tests; mkdir ../elsewhere; echo keep >../elsewhere/test_a; echo keep >../elsewhere/new; ln -s ../elsewhere tests"},
			{"file for a folder", "rm -r tests; echo x >tests"},
			{"folder for a file", "rm run.sh; mkdir run.sh; echo x >run.sh/x"},
			{"symlink for a file", "rm run.sh; ln -s a.txt run.sh"},
		} {
			name := "git outside/"
			if inside {
				name = "git inside/"
			}
			t.Run(name+tt.name, func(t *testing.T) {
				t.Parallel()
				b := newBox(t)
				if !inside {
					b.without(t, "git")
				}
				task := prepared(t, b)
				sh(t, task.Workdir, tt.script)
				if err := Restore(t.Context(), b, task, []string{"tests/test_a", "tests/new", "run.sh", "new.log"}); err != nil {
					t.Fatal(err)
				}
				if d := diff(t, b, task); d != "" {
					t.Errorf("diff after restoring:\n%s", d)
				}
				for _, name := range []string{"test_a", "new"} {
					kept := filepath.Join(filepath.Dir(task.Workdir), "elsewhere", name)
					if _, err := os.Stat(filepath.Dir(kept)); err != nil {
						continue
					}
					if body, err := os.ReadFile(kept); err != nil || string(body) != "keep\n" {
						t.Errorf("%s is %q, %v: a file outside of the tree was touched", kept, body, err)
					}
				}
			})
		}
	}
	b := newBox(t)
	task := prepared(t, b)
	for _, p := range []string{"../x", "/etc/passwd", ".git/config", "a/../b", ""} {
		if err := Restore(t.Context(), b, task, []string{p}); err == nil {
			t.Errorf("restore %q: no error", p)
		}
	}
}
