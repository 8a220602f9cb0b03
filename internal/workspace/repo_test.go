package workspace

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"orchard/datasets/record"
	"orchard/internal/sandbox"
)

// git runs git in dir without this machine's configuration and returns what it printed.
func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	c := exec.Command("git", args...)
	c.Dir = dir
	c.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + os.TempDir(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org",
	}
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// write makes files below dir; a nil body removes.
func write(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, body := range files {
		full := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// baseFiles is the tree of the base commit of every test's repository.
var baseFiles = map[string]string{
	"a.txt":          "one\ntwo\nthree\n",
	"crlf.txt":       "one\r\ntwo\r\n",
	"noeol":          "no newline at the end",
	"run.sh":         "#!/bin/sh\necho hi\n",
	"dir/b.txt":      "b\n",
	"dir/sub/c":      "c\n",
	"kept.log":       "tracked though ignored\n",
	".gitignore":     "*.log\n",
	"win.bat":        "echo\n",
	".gitattributes": "* text=auto\n*.bat text eol=crlf\ncrlf.txt -text\n",
	"tests/test_a":   "test\n",
}

// fixture is made once: the repository with a base commit and a future that no
// sandbox may see, and the bundle of its base.
type fixture struct {
	dir, bundle, base, future string
}

var shared fixture

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "workspace-test-")
	if err != nil {
		panic(err)
	}
	shared = fixture{dir: filepath.Join(dir, "upstream"), bundle: filepath.Join(dir, "bundle")}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

var build = sync.OnceFunc(func() {
	dir := shared.dir
	t := &fatal{}
	if err := os.Mkdir(dir, 0o755); err != nil {
		panic(err)
	}
	git(t, dir, "init", "-q", "-b", "trunk")
	write(t, dir, map[string]string{"a.txt": "zero\n"})
	git(t, dir, "add", "-A")
	git(t, dir, "commit", "-qm", "first")
	git(t, dir, "tag", "v1")
	write(t, dir, baseFiles)
	git(t, dir, "add", "-A", "-f")
	git(t, dir, "commit", "-qm", "base")
	shared.base = git(t, dir, "rev-parse", "HEAD")
	git(t, dir, "bundle", "create", "-q", shared.bundle, "refs/heads/trunk")
	git(t, dir, "checkout", "-qb", "fix")
	write(t, dir, map[string]string{"a.txt": "the secret fix\n"})
	git(t, dir, "commit", "-qam", "future")
	shared.future = git(t, dir, "rev-parse", "HEAD")
})

// fatal lets helpers of tests run where no test is.
type fatal struct{ testing.TB }

func (*fatal) Helper()                   {}
func (*fatal) Fatal(a ...any)            { panic(fmt.Sprint(a...)) }
func (*fatal) Fatalf(f string, a ...any) { panic(fmt.Sprintf(f, a...)) }

// upstream is a copy of the fixture's repository for a test to change.
func upstream(t testing.TB) (dir, base, future string) {
	t.Helper()
	build()
	dir = filepath.Join(t.TempDir(), "repo")
	if err := os.CopyFS(dir, os.DirFS(shared.dir)); err != nil {
		t.Fatal(err)
	}
	return dir, shared.base, shared.future
}

// bundled is a task whose repository travels in a bundle.
func bundled(t testing.TB) (record.Task, Source, string) {
	t.Helper()
	build()
	task := record.Task{TaskID: "t1", BaseCommit: shared.base, RepoBlob: "x", Workdir: filepath.Join(t.TempDir(), "testbed")}
	return task, fileSource(shared.bundle), shared.future
}

func fileSource(file string) Source {
	return func(context.Context) (io.ReadCloser, int64, error) {
		f, err := os.Open(file)
		if err != nil {
			return nil, 0, err
		}
		info, err := f.Stat()
		return f, info.Size(), err
	}
}

// prepared is a box with the bundled task in it.
func prepared(t testing.TB, b *box) record.Task {
	t.Helper()
	task, src, _ := bundled(t)
	prepare(t, b, task, src)
	return task
}

func prepare(t testing.TB, b *box, task record.Task, src Source) {
	t.Helper()
	t.Cleanup(func() { os.RemoveAll(at(b, task).private) })
	if err := Prepare(t.Context(), b, task, src); err != nil {
		t.Fatalf("prepare: %v", err)
	}
}

// diff is Diff, checked against TreeSHA256.
func diff(t testing.TB, b *box, task record.Task) string {
	t.Helper()
	d, err := Diff(t.Context(), b, task)
	if err != nil {
		t.Fatalf("diff: %v", err)
	}
	return string(d)
}

// command is what a policy runs in the working tree, with an identity for commits.
func command(dir, script string) sandbox.Command {
	return sandbox.Command{Shell: script, Cwd: dir, Timeout: time.Minute, Merge: true}
}

func BenchmarkTreeSHA256(b *testing.B) {
	x := newBox(b)
	task := prepared(b, x)
	for b.Loop() {
		if _, err := TreeSHA256(b.Context(), x, task); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPrepare(b *testing.B) {
	x := newBox(b)
	task, src, _ := bundled(b)
	prepare(b, x, task, src)
	for b.Loop() {
		if err := Prepare(b.Context(), x, task, src); err != nil {
			b.Fatal(err)
		}
	}
}
