package workspace

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orchard/datasets/record"
	"orchard/internal/seal"
)

// changes is what a policy may do to a tree, each as a script run in it.
var changes = []struct {
	name   string
	script string
	same   bool // the diff is empty
	tar    bool // worth another look without git in the sandbox
	lines  []string
}{
	{name: "edit", tar: true, script: "echo four >>a.txt", lines: []string{"+four"}},
	{name: "new file", script: "mkdir -p x/y; echo n >x/y/new", lines: []string{"new file mode 100644", "+n"}},
	{name: "new executable", tar: true, script: "echo n >new; chmod +x new", lines: []string{"new file mode 100755"}},
	{name: "empty new file", script: ": >empty", lines: []string{"diff --git a/empty b/empty"}},
	{name: "delete", tar: true, script: "rm dir/b.txt", lines: []string{"deleted file mode"}},
	{name: "rename", script: "git mv a.txt z.txt", lines: []string{"deleted file mode", "new file mode"}},
	{name: "mode", tar: true, script: "chmod +x a.txt", lines: []string{"new mode 100755"}},
	{name: "binary", tar: true, script: `printf 'a\000b\377' >bin`, lines: []string{"GIT binary patch"}},
	{name: "symlink", tar: true, script: "ln -s a.txt link", lines: []string{"new file mode 120000"}},
	{name: "file to symlink", tar: true, script: "rm a.txt; ln -s dir/b.txt a.txt", lines: []string{"new file mode 120000"}},
	{name: "file to folder", tar: true, script: "rm a.txt; mkdir a.txt; echo x >a.txt/x", lines: []string{"a.txt/x"}},
	{name: "crlf line", script: `printf 'three\r\n' >>crlf.txt`, lines: []string{"+three\r"}},
	{name: "crlf lost", tar: true, script: `printf 'one\ntwo\n' >crlf.txt`, lines: []string{"-one\r", "+one"}},
	{name: "new crlf file", script: `printf 'a\r\nb' >new.txt`, lines: []string{"+a\r", `\ No newline at end of file`}},
	{name: "eol attribute", tar: true, script: `printf 'more\r\n' >>win.bat`, lines: []string{" echo\r", "+more\r"}},
	{name: "newline at the end", script: "echo >>noeol", lines: []string{`\ No newline at end of file`}},
	{name: "names", tar: true, script: `printf x >"$(printf 'b\351d')"; printf x >'sp ace "q" $(x)'; printf x >é`, lines: []string{`"b/b\351d"`}},
	{name: "tracked though ignored", tar: true, script: "echo x >>kept.log", lines: []string{"+x"}},
	{name: "ignored", tar: true, script: "echo x >new.log", same: true},
	{name: "touch", script: "touch a.txt; cp a.txt t; rm a.txt; mv t a.txt", same: true},
	{name: "fifo", script: "mkfifo pipe", same: true},
	{name: "staged", script: "echo four >>a.txt; git add -A", lines: []string{"+four"}},
	{name: "staged then undone", script: "echo four >>a.txt; git add -A; git checkout -q HEAD -- a.txt", same: true},
	{name: "committed", script: "echo four >>a.txt; git commit -qam x", lines: []string{"+four"}},
	{name: "reset", script: "git reset -q --hard v1 2>/dev/null || git reset -q --hard HEAD^", lines: []string{"deleted file mode"}},
	{name: "git folder deleted", script: "echo four >>a.txt; rm -rf .git", lines: []string{"+four"}},
	{name: "everything deleted", tar: true, script: `rm -rf "$PWD"`, lines: []string{"deleted file mode"}},
	{name: "nested repository", script: "git init -q dir; echo x >>dir/b.txt; git init -q void; git init -q full; cd full; echo x >x; git add x; git -c user.name=a -c user.email=a@b commit -qm x",
		lines: []string{"+++ b/dir/b.txt"}},
	{name: "hostile config", script: `echo four >>a.txt
git config diff.external false; git config core.attributesFile "$PWD/evil"; git config core.autocrlf true
git config core.fsmonitor "touch $PWD/pwned"; git config filter.x.clean "touch $PWD/pwned"; git config diff.x.textconv false
git config diff.noprefix true; git config core.excludesFile "$PWD/all"; git config core.worktree /; git config alias.add '!false'
printf '* filter=x diff=x -diff working-tree-encoding=UTF-16 ident\n' >.git/info/attributes; echo '*' >.git/info/exclude
rm .gitattributes; printf '* filter=x diff=x working-tree-encoding=UTF-16 ident\n' >.gitattributes`, lines: []string{"+four"}},
	{name: "hidden change", script: `git update-index --assume-unchanged a.txt; git update-index --skip-worktree noeol; echo four >>a.txt; echo >>noeol`, lines: []string{"+four"}},
}

func TestDiffRoundTrip(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"git inside", "git outside"} {
		for _, tt := range changes {
			if mode == "git outside" && !tt.tar {
				continue
			}
			t.Run(mode+"/"+tt.name, func(t *testing.T) {
				t.Parallel()
				task, src, _ := bundled(t)
				b, fresh := newBox(t), newBox(t)
				if mode == "git outside" {
					b.without(t, "git")
					fresh.without(t, "git")
				}
				prepare(t, b, task, src)
				sh(t, task.Workdir, tt.script)
				d := diff(t, b, task)
				if sum, err := TreeSHA256(t.Context(), b, task); err != nil || sum != seal.Bytes([]byte(d)) {
					t.Errorf("TreeSHA256 is %s, %v; the diff's is %s", sum, err, seal.Bytes([]byte(d)))
				}
				if _, err := os.Stat(filepath.Join(task.Workdir, "pwned")); err == nil {
					t.Error("the policy's configuration was executed")
				}
				if tt.same != (d == "") {
					t.Fatalf("diff:\n%s", d)
				}
				for _, want := range tt.lines {
					if !strings.Contains(d, want) {
						t.Errorf("no %q in the diff:\n%s", want, d)
					}
				}
				// The diff makes the same tree of a fresh one.
				want := tree(t, task.Workdir)
				other := task
				other.Workdir = filepath.Join(t.TempDir(), "testbed")
				prepare(t, fresh, other, src)
				if d == "" {
					return
				}
				if _, err := Apply(t.Context(), fresh, other, []byte(d)); err != nil {
					t.Fatalf("apply: %v\n%s", err, d)
				}
				if again := diff(t, fresh, other); again != d {
					t.Errorf("the diff of the applied diff differs (-want +got):\n%s", cmp.Diff(d, again))
				}
				got := tree(t, other.Workdir)
				for name := range want {
					if strings.HasPrefix(name, "full/") || strings.HasSuffix(name, "new.log") {
						delete(want, name) // what no diff holds
					}
				}
				if d := cmp.Diff(want, got); d != "" {
					t.Errorf("tree after the applied diff (-want +got):\n%s", d)
				}
			})
		}
	}
}

// sh runs what a policy does.
func sh(t *testing.T, dir, script string) {
	t.Helper()
	b := newBox(t)
	res, err := b.Exec(t.Context(), command(dir, script))
	if err != nil || res.ExitCode != 0 {
		t.Fatalf("%s: exit %d, %v: %s", script, res.ExitCode, err, res.Stdout)
	}
}

// tree is every file below dir with its kind and content, without .git folders.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if d.Name() == ".git" {
			return fs.SkipDir
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, p)
		switch {
		case info.Mode().IsRegular():
			body, err := os.ReadFile(p)
			kind := "file "
			if info.Mode()&0o111 != 0 {
				kind = "program "
			}
			files[name] = kind + string(body)
			return err
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(p)
			files[name] = "symlink " + target
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestDiffNamesWhatIsTooLarge(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	task := prepared(t, b)
	large := filepath.Join(task.Workdir, "a [big] one")
	if err := os.WriteFile(large, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, maxFile+1025); err != nil {
		t.Fatal(err)
	}
	sh(t, task.Workdir, "echo small >small")
	d := diff(t, b, task)
	if want := "left out of this diff, too large: a [big] one\n"; !strings.HasPrefix(d, want) || strings.Contains(d, "GIT binary") {
		t.Errorf("diff:\n%.2000s", d)
	}
	paths, err := Paths([]byte(d))
	if diff := cmp.Diff([]string{"small"}, paths); err != nil || diff != "" {
		t.Errorf("paths: %v\n%s", err, diff)
	}
}

func TestDiffRefusesWhatNoFixIs(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	task := prepared(t, b)
	row := bytes.Repeat([]byte("0123456789abcde\n"), (maxFile-1)/16)
	for _, name := range []string{"a", "b", "c"} {
		if err := os.WriteFile(filepath.Join(task.Workdir, name), row, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	_, err := Diff(t.Context(), b, task)
	var large *TooLargeError
	if !errors.As(err, &large) {
		t.Errorf("got %v, want a TooLargeError", err)
	}
}

func TestDiffOfNothingPrepared(t *testing.T) {
	t.Parallel()
	task := record.Task{TaskID: "t", BaseCommit: strings.Repeat("a", 40), Workdir: t.TempDir()}
	b := newBox(t)
	t.Cleanup(func() { os.RemoveAll(at(b, task).private) })
	if d, err := Diff(t.Context(), b, task); err == nil {
		t.Errorf("got a diff of %d bytes, want an error", len(d))
	}
}

func TestAKilledDiffDoesNotBlockTheNext(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	task := prepared(t, b)
	if err := os.WriteFile(at(b, task).private+"/git/index.lock", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	sh(t, task.Workdir, "echo four >>a.txt")
	if d := diff(t, b, task); !strings.Contains(d, "+four") {
		t.Errorf("diff:\n%s", d)
	}
}
