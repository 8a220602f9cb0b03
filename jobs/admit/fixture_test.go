package admit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"orchard/datasets"
	"orchard/datasets/gentest/fixture"
	"orchard/datasets/record"
	"orchard/internal/llm"
	"orchard/internal/objstore"
	"orchard/internal/objstore/dir"
	"orchard/internal/runner"
	"orchard/internal/sandbox/sandboxtest"
)

// checks is the task's test file: TAP, by nothing but a shell. add.sh adds wrongly.
const checks = `r() { n=$((n+1)); if eval "$1"; then echo "ok $n - $2"; else echo "not ok $n - $2"; bad=1; fi; }
r '[ -f tests/old ]' keeps
r '[ "$(sh add.sh 2 3)" = 5 ]' adds
r '[ "$(sh add.sh 0 -1)" = -1 ]' negative
%s
echo 1..$n
exit ${bad:-0}
`

// project is a task in the making.
type project struct {
	add  string             // what the gold patch makes of add.sh; "" is right
	more string             // lines of the test file
	edit func(*record.Task) // at last
}

// random is a shell condition that is true half the time, whatever was done before.
const random = `[ $(( $(od -An -N1 -tu1 /dev/urandom) % 2 )) = 0 ]`

// maker makes tasks of one repository.
type maker struct {
	t      testing.TB
	repo   string
	base   string
	bundle []byte
}

func newMaker(t testing.TB) *maker {
	t.Helper()
	m := &maker{t: t, repo: t.TempDir()}
	m.git("init", "-q", "-b", "main")
	m.write("add.sh", "echo $(($1 - $2))\n")
	m.write("tests/old", "old\n")
	m.write("tests/t.sh", "echo 1..0\n")
	m.git("add", "-A")
	m.git("commit", "-qm", "base")
	m.base = strings.TrimSpace(m.git("rev-parse", "HEAD"))
	file := filepath.Join(t.TempDir(), "bundle")
	m.git("bundle", "create", "-q", file, "main")
	var err error
	if m.bundle, err = os.ReadFile(file); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *maker) write(name, body string) {
	full := filepath.Join(m.repo, name)
	err := os.MkdirAll(filepath.Dir(full), 0o755)
	if err == nil {
		err = os.WriteFile(full, []byte(body), 0o644)
	}
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *maker) git(args ...string) string {
	m.t.Helper()
	c := exec.Command("git", args...)
	c.Dir = m.repo
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + m.repo, "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org",
		"GIT_AUTHOR_DATE=2026-01-01T00:00:00Z", "GIT_COMMITTER_DATE=2026-01-01T00:00:00Z"}
	out, err := c.Output()
	if err != nil {
		m.t.Fatalf("git %v: %v", args, err)
	}
	return string(out)
}

// diff is the diff that makes body of a file.
func (m *maker) diff(name, body string) record.Text {
	m.write(name, body)
	out := m.git("diff", "--binary")
	m.git("reset", "-q", "--hard")
	return record.Text{Value: out, Bytes: int64(len(out))}
}

// store is a new root with the repository's bundle.
func (m *maker) store() (*dir.Store, string) {
	m.t.Helper()
	store, err := dir.Open(m.t.TempDir())
	if err != nil {
		m.t.Fatal(err)
	}
	sha, err := datasets.PutBlob(m.t.Context(), store, m.bundle)
	if err != nil {
		m.t.Fatal(err)
	}
	return store, sha
}

func (m *maker) task(id string, p project) record.Task {
	if p.add == "" {
		p.add = "echo $(($1 + $2))\n"
	}
	task := record.Task{
		TaskID: id, Source: "planted", Repo: "o/r", Language: "shell", BaseCommit: m.base, Workdir: "/testbed",
		GoldPatch: m.diff("add.sh", p.add), TestPatch: m.diff("tests/t.sh", fmt.Sprintf(checks, p.more)),
		PreCommands: []string{}, TestCmds: []string{"sh tests/t.sh"}, LogParser: "tap",
		FailToPass: []string{"adds", "negative"}, PassToPass: []string{"keeps"}, TimeoutMS: 60_000,
	}
	if p.edit != nil {
		p.edit(&task)
	}
	return task
}

// dataset writes tasks as dataset name of a root, and returns its path.
func (m *maker) dataset(store *dir.Store, sha, name string, tasks ...record.Task) string {
	m.t.Helper()
	tasks = slices.Clone(tasks)
	for i := range tasks {
		if tasks[i].RepoBlob == "" {
			tasks[i].RepoBlob = sha
		}
	}
	now := time.Unix(1, 0).UTC()
	made := datasets.Stage{Name: "import", Version: 1, Config: json.RawMessage("{}")}
	if _, err := fixture.Commit(m.t.Context(), store, name, slices.Values(tasks), datasets.Meta{Stage: made, Started: now, Committed: now}); err != nil {
		m.t.Fatal(err)
	}
	return filepath.Join(strings.TrimPrefix(store.String(), "file://"), name)
}

// service is the sandbox service with something before it that counts the sandboxes made.
type service struct {
	url, key string
	made     atomic.Int64
	refuse   atomic.Bool // answer 503 to whoever makes one
}

func newService(t testing.TB) *service {
	t.Helper()
	real := sandboxtest.New(t)
	to, err := url.Parse(real.URL)
	if err != nil {
		t.Fatal(err)
	}
	s := &service{key: real.Key}
	proxy := httputil.NewSingleHostReverseProxy(to)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.URL.Path == "/sandboxes" {
			if s.refuse.Load() {
				http.Error(w, "away", http.StatusServiceUnavailable)
				return
			}
			s.made.Add(1)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// config admits the tasks of in with real sandboxes.
func (s *service) config(in, out string) Config {
	c := Defaults()
	c.In, c.Out, c.SandboxURL, c.Workers = []string{in}, filepath.Join(filepath.Dir(in), out), s.url, 2
	c.SandboxKey, c.Memory, c.MaxRetries = llm.Secret(s.key), "512Mi", 0
	return c
}

func quiet() runner.Deps {
	return runner.Deps{Stdout: new(bytes.Buffer), Stderr: new(bytes.Buffer), Backoff: time.Millisecond, Patience: time.Second}
}

// rows is the rows of a version by task.
func rows(t testing.TB, uri string) map[string]record.Admission {
	t.Helper()
	v, err := datasets.Open(t.Context(), datasets.Stores, uri)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]record.Admission{}
	for a, err := range datasets.Rows[record.Admission](t.Context(), v) {
		if err != nil {
			t.Fatal(err)
		}
		all[a.TaskID] = a
	}
	return all
}

// body is the text of a row, from its blob when it has one.
func body(t testing.TB, store objstore.Store, text record.Text) string {
	t.Helper()
	if text.Blob == "" {
		return text.Value
	}
	r, err := datasets.OpenBlob(context.Background(), store, text.Blob)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
