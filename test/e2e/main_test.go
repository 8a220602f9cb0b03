// Package e2e_test holds what the example tasks promise, through the real parts: the
// import stage packs them, the sandbox service runs them in real namespaces, the
// grader judges. Nothing is replaced by a stand-in.
package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/examples"
	"orchard/internal/grade"
	"orchard/internal/runner"
	"orchard/internal/sandbox"
	"orchard/internal/sandbox/sandboxtest"
	"orchard/internal/workspace"
	importer "orchard/jobs/import"
)

func TestMain(m *testing.M) {
	code := sandboxtest.Main(m)
	if dir := imported.dir; dir != "" {
		if err := os.RemoveAll(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// imported is the example tasks as a dataset, made once for all tests.
var imported struct {
	once  sync.Once
	dir   string
	tasks []record.Task
	v     *datasets.Version
	err   error
}

func importExamples() (tasks []record.Task, v *datasets.Version, dir string, err error) {
	if dir, err = os.MkdirTemp("", "orchard-e2e-"); err != nil {
		return nil, nil, "", err
	}
	set, err := fs.Sub(examples.FS, path.Dir(examples.Tasks))
	if err != nil {
		return nil, nil, dir, err
	}
	c := importer.Default()
	c.In, c.Out, c.Builtin = []string{"examples"}, filepath.Join(dir, "tasks"), map[string]fs.FS{"examples": set}
	result, err := importer.Run(context.Background(), c, runner.Deps{Stdout: io.Discard, Stderr: io.Discard})
	if err != nil {
		return nil, nil, dir, err
	}
	if v, err = datasets.Open(context.Background(), datasets.Stores, result.URI); err != nil {
		return nil, nil, dir, err
	}
	for t, err := range datasets.Rows[record.Task](context.Background(), v) {
		if err != nil {
			return nil, nil, dir, err
		}
		tasks = append(tasks, t)
	}
	return tasks, v, dir, nil
}

// tasks is all example tasks.
func tasks(t *testing.T) []record.Task {
	t.Helper()
	i := &imported
	i.once.Do(func() { i.tasks, i.v, i.dir, i.err = importExamples() })
	if i.err != nil {
		t.Fatal(i.err)
	}
	return i.tasks
}

// example is the task of this id, on a machine that can run its tests.
func example(t *testing.T, id string) record.Task {
	t.Helper()
	for _, k := range tasks(t) {
		if k.TaskID == id {
			needToolchain(t, k.Language)
			return k
		}
	}
	t.Fatalf("there is no task %s", id)
	return record.Task{}
}

// blob is the whole content of a blob of the task dataset.
func blob(ctx context.Context, sha256 string) ([]byte, error) {
	r, err := imported.v.Blob(ctx, sha256)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(r)
	return b, errors.Join(err, r.Close())
}

func grader(boxes sandbox.Client) *grade.Grader {
	return &grade.Grader{
		Sandboxes: boxes, Spec: sandbox.Spec{Image: sandboxtest.Image}, Blob: blob,
		Keep: func(_ context.Context, b []byte) (record.Text, error) {
			return record.Text{Value: strings.ToValidUTF8(string(b), "\uFFFD"), Bytes: int64(len(b))}, nil
		},
	}
}

// verdict grades a diff and checks what holds for every verdict.
func verdict(t *testing.T, k record.Task, diff string) record.Verdict {
	t.Helper()
	v, err := grader(sandboxtest.Client(t)).Grade(t.Context(), k, []byte(diff))
	if err != nil {
		t.Fatalf("grade %s: %v", k.TaskID, err)
	}
	if v.Reason == "" || v.Grader != grade.Version || v.Parser != k.LogParser {
		t.Errorf("a verdict with gaps: %+v", v)
	}
	return v
}

// prepare is a sandbox with a task's repository, as a policy finds it.
func prepare(t *testing.T, k record.Task) sandbox.Sandbox {
	t.Helper()
	box := sandboxtest.Open(t, sandbox.Spec{})
	err := workspace.Prepare(t.Context(), box, k, func(ctx context.Context) (io.ReadCloser, int64, error) {
		b, err := blob(ctx, k.RepoBlob)
		return io.NopCloser(strings.NewReader(string(b))), int64(len(b)), err
	})
	if err != nil {
		t.Fatal(err)
	}
	return box
}

// sh runs a command that has to work in a sandbox.
func sh(t *testing.T, box sandbox.Sandbox, k record.Task, command string) string {
	t.Helper()
	r, err := box.Exec(t.Context(), sandbox.Command{Shell: command, Cwd: k.Workdir, Timeout: time.Minute})
	if err != nil || r.ExitCode != 0 {
		t.Fatalf("%s: exit code %d, %v\n%s%s", command, r.ExitCode, err, r.Stdout, r.Stderr)
	}
	return string(r.Stdout)
}

// toolchains asks, in a sandbox, for what the tests of each language need.
var toolchains = map[string]string{
	"go": "go version", "python": "python3 -m pytest --version", "shell": "bats --version", "c": "make --version && cc --version",
}

var found sync.Map // by language: "" or what is missing

// needToolchain skips a test in a language that sandboxes of this machine have no tools
// for, unless ORCHARD_REQUIRE_ALL=1 says that they have to.
func needToolchain(t *testing.T, language string) {
	t.Helper()
	probe, ok := toolchains[language]
	if !ok {
		t.Fatalf("language %q is unknown", language)
	}
	missing, ok := found.Load(language)
	if !ok {
		box := sandboxtest.Open(t, sandbox.Spec{})
		r, err := box.Exec(t.Context(), sandbox.Command{Shell: probe, Timeout: time.Minute, Merge: true})
		if err != nil {
			t.Fatal(err)
		}
		missing = ""
		if r.ExitCode != 0 {
			missing = fmt.Sprintf("%s: %s", probe, r.Stdout)
		}
		found.Store(language, missing)
	}
	switch {
	case missing == "":
	case os.Getenv("ORCHARD_REQUIRE_ALL") == "1":
		t.Fatalf("ORCHARD_REQUIRE_ALL is 1, and a sandbox lacks the tools for %s: %s", language, missing)
	default:
		t.Skipf("a sandbox lacks the tools for %s: %s", language, missing)
	}
}
