package importer

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/objstore"
	"orchard/internal/objstore/objtest"
	"orchard/internal/runner"
	"orchard/internal/seal"
)

const stream = `blob
mark :1
data 5
wrong
commit refs/heads/main
mark :2
author A <a@example.org> 1700000000 +0000
committer A <a@example.org> 1700000000 +0000
data 4
base
M 100644 :1 answer.txt

`

// set is a folder with a task file, and one repository as fast-import text and as folder.
func set(t *testing.T, rows ...string) (dir, base string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "repo.fi"), []byte(stream), 0o644); err != nil {
		t.Fatal(err)
	}
	git := func(stdin string, args ...string) string {
		cmd := exec.Command("git", append([]string{"-C", dir}, args...)...)
		cmd.Stdin = strings.NewReader(stdin)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("git %v: %v", args, err)
		}
		return strings.TrimSpace(string(out))
	}
	git("", "init", "-q", "repo")
	git(stream, "-C", "repo", "fast-import", "--quiet")
	base = git("", "-C", "repo", "rev-parse", "main")
	text := strings.ReplaceAll(strings.Join(rows, "\n")+"\n", "BASE", base)
	if err := os.WriteFile(filepath.Join(dir, "tasks.jsonl"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir, base
}

const patch = `diff --git a/answer.txt b/answer.txt\n--- a/answer.txt\n+++ b/answer.txt\n@@ -1 +1 @@\n-wrong\n\\ No newline at end of file\n+right\n\\ No newline at end of file\n`

func task(id, extra string) string {
	return fmt.Sprintf(`{"instance_id":%q,"repo":"a/b","base_commit":"BASE","problem_statement":"s","patch":"%s","language":"go","FAIL_TO_PASS":["t"]%s}`, id, patch, extra)
}

func config(dir string) (Config, runner.Deps) {
	c := Default()
	c.In, c.Out = []string{filepath.Join(dir, "tasks.jsonl")}, filepath.Join(dir, "out", "tasks")
	return c, runner.Deps{Stdout: io.Discard, Stderr: io.Discard}
}

func tasks(t *testing.T, uri string) (out []record.Task, v *datasets.Version) {
	t.Helper()
	v, err := datasets.Open(t.Context(), datasets.Stores, uri)
	if err != nil {
		t.Fatal(err)
	}
	return rows[record.Task](t, uri), v
}

func rows[R record.Row](t *testing.T, uri string) (out []R) {
	t.Helper()
	v, err := datasets.Open(t.Context(), datasets.Stores, uri)
	if err != nil {
		t.Fatal(err)
	}
	for row, err := range datasets.Rows[R](t.Context(), v) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, row)
	}
	return out
}

// TestImport: two forms of one repository give one blob, and every task is whole.
func TestImport(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100_000)
	dir, base := set(t,
		task("b-1", `,"repo_dir":"repo"`), task("a-1", `,"repo_fast_import":"repo.fi"`),
		task("c-1", `,"image_name":"x:1","odd":{"kept":[1.50]}`),
		strings.Replace(task("d-1", `,"repo_dir":"repo"`), "+right", "+"+long, 1))
	cfg, deps := config(dir)
	r, err := Run(t.Context(), cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	got, v := tasks(t, r.URI)
	var ids, blobs []string
	for _, k := range got {
		ids, blobs = append(ids, k.TaskID), append(blobs, k.RepoBlob)
		bare := k
		bare.Raw, bare.Digest = "", ""
		if sum, err := seal.Sum(bare); err != nil || sum != k.Digest || k.BaseCommit != base || k.Source != "tasks" {
			t.Errorf("%s: digest %s, want %s; base %s; source %s; %v", k.TaskID, k.Digest, sum, k.BaseCommit, k.Source, err)
		}
	}
	if !slices.Equal(ids, []string{"a-1", "b-1", "c-1", "d-1"}) || blobs[0] == "" || blobs[0] != blobs[1] || blobs[2] != "" {
		t.Errorf("ids %v, blobs %v", ids, blobs)
	}
	if !strings.Contains(got[2].Raw, `"odd":{"kept":[1.50]}`) {
		t.Errorf("raw %s", got[2].Raw)
	}
	gold, err := datasets.TextBytes(t.Context(), v.Store(), got[3].GoldPatch)
	if err != nil || !strings.Contains(string(gold), long) || got[3].GoldPatch.Blob == "" {
		t.Errorf("long patch: %d bytes, blob %q, %v", len(gold), got[3].GoldPatch.Blob, err)
	}
	names := map[string]int{}
	for _, in := range v.Manifest().Inputs {
		names[in.Role+" "+in.Name]++
	}
	if d := cmp.Diff(map[string]int{"tasks tasks.jsonl": 1, "repository repo": 1, "repository repo.fi": 1}, names); d != "" {
		t.Error(d)
	}

	// The same files elsewhere are the same work with the same result.
	other := filepath.Join(t.TempDir(), "moved")
	if err := os.CopyFS(other, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(other, "out")); err != nil {
		t.Fatal(err)
	}
	cfg, _ = config(other)
	if again, err := Run(t.Context(), cfg, deps); err != nil || again.Digest != r.Digest || again.Key != r.Key || again.Status != runner.StatusDone {
		t.Errorf("elsewhere: %+v %v", again, err)
	}
	// Another content of the repository is other work.
	if err := os.WriteFile(filepath.Join(other, "repo.fi"), []byte(stream+"reset refs/tags/x\nfrom :2\n\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if again, err := Run(t.Context(), cfg, deps); err != nil || again.Key == r.Key || again.Status != runner.StatusDone {
		t.Errorf("changed repository: %+v %v", again, err)
	}
}

func TestManyBadRows(t *testing.T) {
	t.Parallel()
	var rows []string
	for i := range 30 {
		rows = append(rows, fmt.Sprintf(`{"instance_id":"x-%d","repo":"","base_commit":"","problem_statement":"","patch":""}`, i))
	}
	dir, _ := set(t, rows...)
	cfg, deps := config(dir)
	_, err := Run(t.Context(), cfg, deps)
	if exit.Code(err) != exit.Input {
		t.Fatal(err)
	}
	if s := err.Error(); !strings.Contains(s, "30 bad rows:") || strings.Count(s, "repo: is empty") != 20 || !strings.Contains(s, "and 10 more") {
		t.Error(s)
	}
}

// TestBrokenAtEveryWrite: the store fails for good before or after any write; the
// import then gives what an undisturbed one gives.
func TestBrokenAtEveryWrite(t *testing.T) {
	t.Parallel()
	rows := []string{task("a-1", `,"repo_fast_import":"repo.fi"`), task("b-1", `,"repo_dir":"repo"`)}
	dir, _ := set(t, rows...)
	cfg, deps := config(dir)
	cfg.Workers = 1
	calm := &objtest.Faults{}
	deps.Open = wrapped(calm)
	want, err := Run(t.Context(), cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	for at := 1; at <= len(calm.Writes()); at++ {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d/after=%v", at, after), func(t *testing.T) {
				t.Parallel()
				dir, _ := set(t, rows...)
				cfg, deps := config(dir)
				cfg.Workers = 1
				deps.Open = wrapped(&objtest.Faults{At: at, After: after})
				if _, err := Run(t.Context(), cfg, deps); err == nil {
					t.Fatal("the fault made no difference")
				}
				deps.Open = nil
				if got, err := Run(t.Context(), cfg, deps); err != nil || got.Digest != want.Digest {
					t.Errorf("got %+v, %v; want digest %s", got, err, want.Digest)
				}
			})
		}
	}
}

func wrapped(f *objtest.Faults) datasets.Opener {
	return func(ctx context.Context, root string) (objstore.Store, error) {
		s, err := datasets.Stores(ctx, root)
		f.Store = s
		return f, err
	}
}

// full is a store without room.
type full struct{ objstore.Store }

func (full) Create(context.Context, string, objstore.Body) (objstore.Info, error) {
	return objstore.Info{}, objstore.ErrNoSpace
}

func TestFullStore(t *testing.T) {
	t.Parallel()
	dir, _ := set(t, task("a-1", `,"repo_fast_import":"repo.fi"`))
	cfg, deps := config(dir)
	deps.Open = func(ctx context.Context, root string) (objstore.Store, error) {
		s, err := datasets.Stores(ctx, root)
		return full{s}, err
	}
	if _, err := Run(t.Context(), cfg, deps); exit.Code(err) != exit.Gone || !strings.Contains(err.Error(), "store is full") {
		t.Errorf("exit %d: %v", exit.Code(err), err)
	}
}
