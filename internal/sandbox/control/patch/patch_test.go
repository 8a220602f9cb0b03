package patch

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// memory is a tree of files.
type memory map[string]string

func (m memory) Read(_ context.Context, name string) ([]byte, fs.FileMode, error) {
	if s, ok := m[name]; ok {
		return []byte(s), 0o644, nil
	}
	return nil, 0, fs.ErrNotExist
}

func (m memory) Write(_ context.Context, name string, data []byte, _ fs.FileMode) error {
	m[name] = string(data)
	return nil
}

func (m memory) Remove(_ context.Context, name string) error {
	delete(m, name)
	return nil
}

// What git diff writes, Apply applies, also to a file that has grown at its start.
func TestApplyGitDiffs(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Fatal("git is needed to build Orchard: ", err)
	}
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		file := rapid.Custom(func(t *rapid.T) string {
			lines := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "", "-- x", "++ y", "@@ -1 +1 @@"}), 1, 30).Draw(t, "lines")
			return strings.Join(lines, "\n") + rapid.SampledFrom([]string{"\n", ""}).Draw(t, "end")
		})
		before, after := file.Draw(t, "before"), file.Draw(t, "after")
		for name, content := range map[string]string{"before": before, "after": after} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command("git", "diff", "--no-index", "--no-color", "before", "after")
		cmd.Dir = dir
		out, err := cmd.Output() // exits with 1 for a difference
		if exit, ok := err.(*exec.ExitError); err != nil && (!ok || exit.ExitCode() != 1) {
			t.Fatal(err)
		}
		if before == after {
			return
		}
		diff := strings.NewReplacer("a/before", "a/f", "b/after", "b/f").Replace(string(out))
		plain := diff[strings.Index(diff, "--- a/f"):]
		for _, d := range []string{diff, plain} {
			tree := memory{"f": before}
			got, err := Apply(context.Background(), tree, d)
			if err != nil || got.ExitCode != 0 || tree["f"] != after {
				t.Fatalf("%q to %q by\n%s\ngives %q, %+v, %v", before, after, d, tree["f"], got, err)
			}
		}
	})
}

// Whatever a diff says, nothing outside the tree is touched, and a refusal changes nothing.
func FuzzApply(f *testing.F) {
	for _, seed := range []string{
		"--- a/f\n+++ b/f\n@@ -1 +1,2 @@\n l1\n+l2\n",
		"diff --git a/f b/g\nsimilarity index 90%\nrename from f\nrename to g\n",
		"diff --git a/../x b/../x\nnew file mode 100644\n--- /dev/null\n+++ b/../x\n@@ -0,0 +1 @@\n+x\n",
		"--- \"a/\\303\\251\"\n+++ \"b/\\303\\251\"\n@@ -1 +1 @@\n-a\n+b\n", "@@ -1 +1 @@", "--- a\n+++ b\n@@ -9999999999 +1 @@\n",
		"diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc/passwd\n\\ No newline at end of file\n",
		"diff --git a/f b/f\nGIT binary patch\nliteral 1\nIc${Nk00031005\n\nliteral 3\nKcmYdHFxUVD\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, diff string) {
		tree := memory{"f": "l1\n", "d/e": "x"}
		got, err := Apply(context.Background(), tree, diff)
		if err != nil {
			t.Fatalf("a tree that cannot fail: %v", err)
		}
		if got.ExitCode != 0 && (len(tree) != 2 || tree["f"] != "l1\n" || tree["d/e"] != "x" || got.Stderr == "") {
			t.Fatalf("refused with %+v, but the tree is %q", got, tree)
		}
		for name := range tree {
			if !fs.ValidPath(strings.ToValidUTF8(name, "x")) { // any bytes may name a file
				t.Fatalf("wrote %q", name)
			}
		}
	})
}
