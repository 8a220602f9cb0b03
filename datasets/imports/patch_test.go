package imports

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
	"pgregory.net/rapid"
)

// applied is what a patch of one file makes of its text.
func applied(t rapid.TB, patch, text string) string {
	files, _, err := gitdiff.Parse(strings.NewReader(patch))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v: %d files of\n%s", err, len(files), patch)
	}
	var out bytes.Buffer
	if err := gitdiff.Apply(&out, strings.NewReader(text), files[0]); err != nil {
		t.Fatalf("%v\n%s\n%q", err, patch, text)
	}
	return out.String()
}

// TestReversed: a patch and its reverse undo each other, for any two texts.
func TestReversed(t *testing.T) {
	t.Parallel()
	text := rapid.Custom(func(t *rapid.T) string {
		lines := rapid.SliceOfN(rapid.SampledFrom([]string{"a\n", "b\n", "c\n", " \n", "-x\n", "+y\n"}), 0, 12).Draw(t, "lines")
		return strings.Join(lines, "") + rapid.SampledFrom([]string{"", "", "end"}).Draw(t, "end")
	})
	rapid.Check(t, func(t *rapid.T) {
		old, now := text.Draw(t, "old"), text.Draw(t, "new")
		if old == now {
			return
		}
		patch := changeFile("d/f.txt", old, now, old == "", now == "")
		if got := applied(t, patch, old); got != now {
			t.Fatalf("the patch gives %q, want %q\n%s", got, now, patch)
		}
		back, err := reversed(patch)
		if err != nil {
			t.Fatal(err)
		}
		if got := applied(t, back, now); got != old {
			t.Fatalf("the reverse gives %q, want %q\n%s", got, old, back)
		}
		again, err := reversed(back)
		if err != nil || applied(t, again, old) != now {
			t.Fatalf("twice reversed: %v\n%s", err, again)
		}
	})
}

// TestReversedByGit: git agrees on patches with all that a patch can have.
func TestReversedByGit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sh := func(script string) string {
		t.Helper()
		cmd := exec.Command("sh", "-ec", script)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "HOME="+dir)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", script, err, out)
		}
		return string(out)
	}
	sh(`git init -q; git config user.name a; git config user.email a@example.org
		seq 40 >lines; echo run >tool; printf 'no end' >open; echo gone >gone; echo old >"sp ace"; printf 'b\000in' >bin; seq 30 >moved
		git add -A; git commit -qm base`)
	patch := sh(`sed -i '3d;20s/20/twenty/;39a more' lines; chmod +x tool; printf 'no end either' >open; rm gone; echo fresh >fresh; echo new >"sp ace"
		printf 'b\000ump' >bin; git mv moved elsewhere; sed -i 's/^7$/seven/' elsewhere; git add -A; git diff --binary --cached -M; git commit -qm changed`)
	back, err := reversed(patch)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".git", "back"), []byte(back), 0o644); err != nil {
		t.Fatal(err)
	}
	sh(`git apply --index .git/back; git diff --cached --exit-code HEAD^`)
	for _, c := range []struct{ patch, want string }{
		{"fix it", "changes no file"},
		{"diff --git a/a b/b\nsimilarity index 100%\ncopy from a\ncopy to b\n", "copies a to b"},
		{"diff --git a/a b/a\nindex 1234567..89abcde 100644\nBinary files a/a and b/a differ\n", "binary file a without saying"},
	} {
		if _, err := reversed(c.patch); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.patch, err, c.want)
		}
	}
}

// TestSmith: with the pre-commands the repository has the bug, the gold patch removes
// it, and the working tree is clean for the policy.
func TestSmith(t *testing.T) {
	t.Parallel()
	f, _ := FormatByName("swe-smith")
	k := parseFile(t, fixture(f), "swe-smith")[0].Task
	dir := t.TempDir()
	git := func(stdin string, args ...string) string {
		t.Helper()
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir, cmd.Stdin, cmd.Env = dir, strings.NewReader(stdin), append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "HOME="+dir)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	file := filepath.Join(dir, "acme", "add.py")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	const right, wrong = "def add(a, b):\n    return a + b\n", "def add(a, b):\n    return a - b\n"
	if err := os.WriteFile(file, []byte(right), 0o644); err != nil {
		t.Fatal(err)
	}
	git("", "sh", "-c", "git init -q && git add -A && git -c user.name=a -c user.email=a@b commit -qm base")
	for _, c := range k.PreCommands {
		git("", "sh", "-c", c)
	}
	if b, _ := os.ReadFile(file); string(b) != wrong {
		t.Errorf("with the bug: %q", b)
	}
	if s := git("", "git", "status", "--porcelain"); s != "" {
		t.Errorf("not clean: %s", s)
	}
	git(k.GoldPatch.Value, "git", "apply", "-")
	if b, _ := os.ReadFile(file); string(b) != right {
		t.Errorf("with the gold patch: %q", b)
	}
}
