package grade

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"orchard/datasets/record"
	"orchard/internal/sandbox"
	"orchard/internal/sandbox/sandboxtest"
	"orchard/internal/seal"
)

func TestMain(m *testing.M) { os.Exit(sandboxtest.Main(m)) }

// project is a task in the making: its repository, and patches as new file contents.
type project struct {
	files, gold, tests map[string]string
	cmds               []string
	parser             string
	f2p, p2p           []string
}

// built is a project as task, with the store of its bundle.
type built struct {
	task  record.Task
	blobs map[string][]byte
	dir   string // the repository here, to make diffs in
}

func build(t testing.TB, p project) built {
	t.Helper()
	b := built{dir: t.TempDir(), blobs: map[string][]byte{}}
	git(t, b.dir, "init", "-q", "-b", "main")
	write(t, b.dir, p.files)
	git(t, b.dir, "add", "-A")
	git(t, b.dir, "commit", "-qm", "base")
	base := strings.TrimSpace(git(t, b.dir, "rev-parse", "HEAD"))
	file := filepath.Join(t.TempDir(), "bundle")
	git(t, b.dir, "bundle", "create", "-q", file, "main")
	bundle, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sum := seal.Bytes(bundle)
	b.blobs[sum] = bundle
	b.task = record.Task{
		TaskID: t.Name(), BaseCommit: base, RepoBlob: sum, Workdir: "/testbed", TestCmds: p.cmds, LogParser: p.parser,
		FailToPass: p.f2p, PassToPass: p.p2p, TimeoutMS: (10 * time.Minute).Milliseconds(),
		GoldPatch: text(b.diff(t, p.gold)), TestPatch: text(b.diff(t, p.tests)),
	}
	b.task.Digest = seal.ID(t.Name())
	return b
}

func text(b []byte) record.Text { return record.Text{Value: string(b), Bytes: int64(len(b))} }

// diff is the diff that makes these files of the base; "" removes one.
func (b built) diff(t testing.TB, files map[string]string) []byte {
	t.Helper()
	write(t, b.dir, files)
	git(t, b.dir, "add", "-A", "-f")
	out := git(t, b.dir, "diff", "--cached", "--binary")
	git(t, b.dir, "reset", "-q", "--hard")
	return []byte(out)
}

// grader grades on real sandboxes.
func (b built) grader(t testing.TB) *Grader {
	t.Helper()
	return &Grader{
		Sandboxes: sandboxtest.Client(t), Spec: sandbox.Spec{Image: sandboxtest.Image},
		Keep: func(_ context.Context, b []byte) (record.Text, error) { return text(b), nil },
		Blob: func(_ context.Context, sum string) ([]byte, error) {
			body, ok := b.blobs[sum]
			if !ok {
				return nil, os.ErrNotExist
			}
			return body, nil
		},
	}
}

// grade grades and checks what holds for every verdict.
func (b built) grade(t testing.TB, diff []byte) record.Verdict {
	t.Helper()
	v, err := b.grader(t).Grade(t.Context(), b.task, diff)
	if err != nil {
		t.Fatalf("grade: %v", err)
	}
	if v.Grader != Version || v.Parser != b.task.LogParser || v.Reason == "" || v.Dropped == nil || v.Tests == nil {
		t.Errorf("a verdict with gaps: %+v", v)
	}
	return v
}

func write(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, body := range files {
		if body == "" {
			git(t, dir, "rm", "-q", name) // and the folder, when it is empty then
		}
	}
	for name, body := range files {
		full := filepath.Join(dir, name)
		if body == "" {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	c := exec.Command("git", args...)
	c.Dir = dir
	c.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org",
	}
	out, err := c.Output()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// need skips a test whose runner this machine lacks.
func need(t testing.TB, program string, args ...string) {
	t.Helper()
	out, err := exec.Command(program, args...).CombinedOutput()
	switch {
	case err == nil:
	case os.Getenv("ORCHARD_REQUIRE_ALL") == "1":
		t.Fatalf("%s %v: %v\n%s", program, args, err, out)
	default:
		t.Skipf("%s is not on this machine: %v", program, err)
	}
}
