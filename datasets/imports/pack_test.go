package imports

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// history is a repository as fast-import text: a base commit and a fix after it, on
// main, and a tag that no bundle may carry.
const history = `blob
mark :1
data 5
wrong
blob
mark :2
data 5
right
commit refs/heads/main
mark :3
author A <a@example.org> 1700000000 +0000
committer A <a@example.org> 1700000000 +0000
data 4
base
M 100644 :1 answer.txt
M 100644 :1 other.txt

commit refs/heads/main
mark :4
author A <a@example.org> 1700000100 +0000
committer A <a@example.org> 1700000100 +0000
data 3
fix
from :3
M 100644 :2 answer.txt

reset refs/tags/v1
from :4

`

// run runs git the way a user would, in dir.
func run(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// sources is one history in every form, and its two commits.
func sources(t *testing.T) (forms map[RepoKind]string, base, fix string) {
	t.Helper()
	dir := t.TempDir()
	text := filepath.Join(dir, "repo.fi")
	if err := os.WriteFile(text, []byte(history), 0o644); err != nil {
		t.Fatal(err)
	}
	repo := filepath.Join(dir, "repo")
	run(t, dir, "init", "-q", "-b", "main", repo)
	in, err := os.Open(text)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	load := exec.Command("git", "fast-import", "--quiet")
	load.Dir, load.Stdin = repo, in
	if out, err := load.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	run(t, repo, "reset", "-q", "--hard")
	run(t, repo, "repack", "-q", "-a", "-d", "--depth=1", "--window=1")
	bundle := filepath.Join(dir, "repo.bundle")
	run(t, repo, "bundle", "create", "-q", bundle, "--all")
	return map[RepoKind]string{Bundle: bundle, Dir: repo, FastImport: text}, run(t, repo, "rev-parse", "main^"), run(t, repo, "rev-parse", "main")
}

func pack(t *testing.T, kind RepoKind, path, commit string) (bundle, full string, err error) {
	t.Helper()
	s, err := OpenSource(t.Context(), kind, path, t.TempDir())
	if err != nil {
		return "", "", err
	}
	if full, err = s.Resolve(t.Context(), commit); err != nil {
		return "", "", err
	}
	bundle, err = s.Bundle(t.Context(), full)
	return bundle, full, err
}

// TestPack: every form gives the same bundle, and it holds the base commit's history
// and nothing of the future.
func TestPack(t *testing.T) {
	t.Parallel()
	forms, base, fix := sources(t)
	sums := map[string]bool{}
	for kind, path := range forms {
		for _, commit := range []string{base, base[:8]} {
			bundle, full, err := pack(t, kind, path, commit)
			if err != nil {
				t.Fatalf("%s: %v", kind, err)
			}
			if full != base {
				t.Errorf("%s: resolved %s to %s, want %s", kind, commit, full, base)
			}
			sum, err := SHA256(bundle)
			if err != nil {
				t.Fatal(err)
			}
			sums[sum] = true

			clone := filepath.Join(t.TempDir(), "clone")
			run(t, "/", "clone", "-q", "-b", "base", bundle, clone)
			if got := run(t, clone, "bundle", "list-heads", bundle); got != base+" "+BaseRef {
				t.Errorf("%s: refs are %q", kind, got)
			}
			if b, err := os.ReadFile(filepath.Join(clone, "answer.txt")); string(b) != "wrong" {
				t.Errorf("%s: answer.txt is %q, %v", kind, b, err)
			}
			look := exec.Command("git", "cat-file", "-e", fix)
			look.Dir = clone
			if look.Run() == nil {
				t.Errorf("%s: the bundle holds the future commit", kind)
			}
		}
	}
	if len(sums) != 1 {
		t.Errorf("the forms give %d different bundles", len(sums))
	}
}

func TestPackProblems(t *testing.T) {
	t.Parallel()
	forms, base, _ := sources(t)
	dir := t.TempDir()
	shallow := filepath.Join(dir, "shallow")
	run(t, "/", "clone", "-q", "--depth=1", "file://"+forms[Dir], shallow)
	inside := filepath.Join(forms[Dir], "sub")
	if err := os.Mkdir(inside, 0o755); err != nil {
		t.Fatal(err)
	}
	garbage := filepath.Join(dir, "garbage")
	if err := os.WriteFile(garbage, []byte("commit nonsense\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(forms[Bundle])
	if err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(dir, "cut.bundle")
	if err := os.WriteFile(cut, whole[:len(whole)-10], 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		kind   RepoKind
		path   string
		commit string
		field  string
		what   string
	}{
		{"commit not in folder", Dir, forms[Dir], strings.Repeat("0", 39) + "1", "base_commit", "has no commit"},
		{"commit not in bundle", Bundle, forms[Bundle], strings.Repeat("1", 40), "base_commit", "has no commit"},
		{"commit not in text", FastImport, forms[FastImport], "1234567", "base_commit", "has no commit"},
		{"shallow clone", Dir, shallow, base, "repo_dir", "git fetch --unshallow"},
		{"folder inside a repository", Dir, inside, base, "repo_dir", "not a git repository"},
		{"text that is none", FastImport, garbage, base, "repo_fast_import", "cannot be read"},
		{"bundle that is none", Bundle, garbage, base, "repo_bundle", "cannot be read"},
		{"bundle cut off", Bundle, cut, base, "repo_bundle", "cannot be read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, _, err := pack(t, c.kind, c.path, c.commit)
			var p *Problem
			if !errors.As(err, &p) || p.Field != c.field || !strings.Contains(p.What, c.what) {
				t.Errorf("got %v, want a problem of %s with %q", err, c.field, c.what)
			}
		})
	}
}

func TestLocate(t *testing.T) {
	t.Parallel()
	dir, other := t.TempDir(), t.TempDir()
	file := filepath.Join(dir, "tasks.jsonl")
	for _, p := range []string{filepath.Join(dir, "a.fi"), filepath.Join(other, "b.fi")} {
		if err := os.WriteFile(p, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(other, "b.fi"), filepath.Join(dir, "link.fi")); err != nil {
		t.Fatal(err)
	}
	up, err := filepath.Rel(dir, filepath.Join(other, "b.fi"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, path string
		outside    bool
		want       string // of the problem
	}{
		{"beside", "a.fi", false, ""},
		{"absolute, inside", filepath.Join(dir, "a.fi"), false, ""},
		{"up", up, false, "--allow-outside"},
		{"up, allowed", up, true, ""},
		{"absolute, outside", filepath.Join(other, "b.fi"), false, "--allow-outside"},
		{"link out", "link.fi", false, "--allow-outside"},
		{"link out, allowed", "link.fi", true, ""},
		{"absent", "none.fi", false, "no such file"},
		{"folder", ".", false, "is no file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, problem := RepoRef{FastImport, c.path}.Locate(file, c.outside)
			if (problem == nil) != (c.want == "") || problem != nil && !strings.Contains(problem.What, c.want) {
				t.Errorf("got %v, want %q", problem, c.want)
			}
		})
	}
}

func TestReadable(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"not a repository: 'ä'":         "not a repository: 'ä'",
		"Unsupported: \x00\x1b[31m\xff": `"Unsupported: \x00\x1b[31m\xff"`,
		strings.Repeat("\a", 100):       `"` + strings.Repeat(`\a`, 57) + `..."`,
	} {
		if got := readable(in); got != want {
			t.Errorf("%q becomes %s, want %s", in, got, want)
		}
	}
}
