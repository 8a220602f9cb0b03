package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orchard/datasets/record"
)

func TestPrepareHoldsTheBaseAndNothingElse(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		make func(t testing.TB) (record.Task, Source, string)
	}{
		{"bundle", bundled},
		{"image", imaged},
		{"image with a builder's commit on top", func(t testing.TB) (record.Task, Source, string) {
			task, src, future := imaged(t)
			git(t, task.Workdir, "commit", "-q", "--allow-empty", "-m", "builder")
			return task, src, future
		}},
		{"image with a detached HEAD", func(t testing.TB) (record.Task, Source, string) {
			task, src, future := imaged(t)
			git(t, task.Workdir, "checkout", "-q", "--detach", task.BaseCommit)
			return task, src, future
		}},
		{"image that borrows its objects", func(t testing.TB) (record.Task, Source, string) {
			task, _, future := imaged(t)
			from := task.Workdir
			task.Workdir = filepath.Join(t.TempDir(), "testbed")
			git(t, from, "clone", "-q", "--shared", from, task.Workdir)
			git(t, task.Workdir, "checkout", "-q", "trunk")
			return task, nil, future
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			task, src, future := tt.make(t)
			b := newBox(t)
			prepare(t, b, task, src)
			w := task.Workdir
			if out := git(t, w, "log", "--all", "--format=%s"); strings.Contains(out, "future") || !strings.Contains(out, "base") || !strings.Contains(out, "first") {
				t.Errorf("git log --all:\n%s", out)
			}
			for _, args := range [][]string{
				{"reflog", "--all"}, {"stash", "list"}, {"remote"}, {"fsck", "--unreachable", "--no-progress"}, {"status", "--porcelain"},
			} {
				if out := git(t, w, args...); out != "" {
					t.Errorf("git %v: %s", args, out)
				}
			}
			if out := git(t, w, "cat-file", "--batch-all-objects", "--batch-check"); strings.Contains(out, future) {
				t.Errorf("the future commit %s is among the objects", future)
			}
			heads := git(t, w, "for-each-ref", "--format=%(refname)")
			if strings.Contains(heads, "fix") || strings.Contains(heads, "refs/remotes") || strings.Contains(heads, "secret") {
				t.Errorf("refs:\n%s", heads)
			}
			if d := diff(t, b, task); d != "" {
				t.Errorf("diff of an untouched tree:\n%s", d)
			}
		})
	}
}

// imaged is a task whose image has the repository, with everything that could leak.
func imaged(t testing.TB) (record.Task, Source, string) {
	t.Helper()
	dir, base, future := upstream(t)
	git(t, dir, "tag", "-a", "-m", "secret", "secret", future)
	git(t, dir, "tag", "secretblob", git(t, dir, "rev-parse", future+":a.txt"))
	git(t, dir, "update-ref", "refs/pull/1/head", future)
	git(t, dir, "update-ref", "refs/remotes/origin/trunk", future)
	git(t, dir, "symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/trunk")
	git(t, dir, "remote", "add", "origin", "https://example.org/x")
	git(t, dir, "worktree", "add", "-q", "--detach", filepath.Join(t.TempDir(), "other"), future)
	git(t, dir, "checkout", "-q", "trunk")
	git(t, dir, "reset", "-q", "--hard")
	write(t, dir, map[string]string{"a.txt": "stashed\n"})
	git(t, dir, "stash", "-q")
	git(t, dir, "repack", "-adq")
	return record.Task{TaskID: "t2", BaseCommit: base, Workdir: dir}, nil, future
}

func TestPrepareRefusesABrokenTask(t *testing.T) {
	t.Parallel()
	withBundle := func(t *testing.T, args ...string) (record.Task, Source) {
		dir, base, _ := upstream(t)
		file := filepath.Join(t.TempDir(), "bundle")
		git(t, dir, append([]string{"bundle", "create", "-q", file}, args...)...)
		return record.Task{TaskID: "t", BaseCommit: base, RepoBlob: "x", Workdir: filepath.Join(t.TempDir(), "w")}, fileSource(file)
	}
	tests := []struct {
		name string
		make func(t *testing.T) (record.Task, Source)
		want string
	}{
		{"bundle without the base commit", func(t *testing.T) (record.Task, Source) { return withBundle(t, "v1") }, "has no commit"},
		{"bundle with the future", func(t *testing.T) (record.Task, Source) { return withBundle(t, "--all") }, "not at the base commit"},
		{"incomplete bundle", func(t *testing.T) (record.Task, Source) { return withBundle(t, "v1..trunk") }, "not complete"},
		{"no bundle at all", func(t *testing.T) (record.Task, Source) {
			task, _ := withBundle(t, "trunk")
			file := filepath.Join(t.TempDir(), "junk")
			write(t, filepath.Dir(file), map[string]string{"junk": "junk"})
			return task, fileSource(file)
		}, "not readable"},
		{"image without repository", func(t *testing.T) (record.Task, Source) {
			task, _ := withBundle(t, "trunk")
			task.RepoBlob = ""
			return task, nil
		}, "no repository"},
		{"image at another commit", func(t *testing.T) (record.Task, Source) {
			task, _, _ := imaged(t)
			git(t, task.Workdir, "checkout", "-q", "v1")
			return task, nil
		}, "not at the base commit"},
		{"pre-command", func(t *testing.T) (record.Task, Source) {
			task, src, _ := bundled(t)
			task.PreCommands = []string{"true", "echo why >&2; exit 3"}
			return task, src
		}, "pre-command 2 (echo why >&2; exit 3) ended with exit code 3: why"},
		{"pre-command moves HEAD", func(t *testing.T) (record.Task, Source) {
			task, src, _ := bundled(t)
			task.PreCommands = []string{"git reset -q --hard HEAD^"}
			return task, src
		}, "pre-commands moved"},
		{"relative workdir", func(*testing.T) (record.Task, Source) {
			return record.Task{TaskID: "t", Workdir: "testbed"}, nil
		}, "workdir"},
		{"short commit", func(*testing.T) (record.Task, Source) {
			return record.Task{TaskID: "t", Workdir: "/testbed", BaseCommit: "abc123"}, nil
		}, "base_commit"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			task, src := tt.make(t)
			b := newBox(t)
			t.Cleanup(func() { os.RemoveAll(at(b, task).private) })
			err := Prepare(t.Context(), b, task, src)
			var invalid *TaskError
			if !errors.As(err, &invalid) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want a TaskError with %q", err, tt.want)
			}
		})
	}
}

func TestPreCommandsArePartOfThePreparedTree(t *testing.T) {
	t.Parallel()
	task, src, _ := bundled(t)
	task.PreCommands = []string{`echo pre >>a.txt\nmkdir -p out\necho 'x\ny' >out/made`}
	b := newBox(t)
	prepare(t, b, task, src)
	if d := diff(t, b, task); d != "" {
		t.Errorf("diff after the pre-commands:\n%s", d)
	}
	got, err := os.ReadFile(filepath.Join(task.Workdir, "a.txt"))
	if err != nil || string(got) != baseFiles["a.txt"]+"pre\n" {
		t.Errorf("a.txt is %q, %v", got, err)
	}
}

func TestARepositoryOfAnotherOwner(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can give files away")
	}
	task, _, _ := imaged(t)
	for _, name := range []string{task.Workdir, filepath.Join(task.Workdir, ".git"), filepath.Join(task.Workdir, ".git", "HEAD")} {
		if err := os.Chown(name, 12345, 12345); err != nil {
			t.Fatal(err)
		}
	}
	b := newBox(t)
	prepare(t, b, task, nil)
	res, err := b.Exec(t.Context(), command(task.Workdir, "git status --porcelain"))
	if err != nil || res.ExitCode != 0 || len(res.Stdout) != 0 {
		t.Errorf("the policy's git status: exit code %d, %v: %s", res.ExitCode, err, res.Stdout)
	}
}

func TestNewlines(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, in, want string }{
		{"plain", "make build", "make build"},
		{"between commands", `cd x\npip install -e .`, "cd x\npip install -e ."},
		{"in single quotes", `printf 'a\nb'`, `printf 'a\nb'`},
		{"in double quotes", `printf "a\n\"\nb" \n true`, "printf \"a\\n\\\"\\nb\" \n true"},
		{"escaped backslash", `echo \\n`, `echo \\n`},
		{"at the end", `echo \`, `echo \`},
		{"real ones", "a\nb", "a\nb"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if d := cmp.Diff(tt.want, newlines(tt.in)); d != "" {
				t.Error(d)
			}
		})
	}
}
