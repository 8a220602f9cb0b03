package importer

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orchard/datasets/record"
	"orchard/internal/exit"
)

// TestFolderBlobs: task folders with bytes that are no text, whole in the dataset.
func TestFolderBlobs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg, deps := config(dir)
	cfg.In = []string{"../../datasets/imports/testdata/formats/harbor"}
	r, err := Run(t.Context(), cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	got, _ := tasks(t, r.URI)
	for _, f := range got[0].Goal.Files {
		if f.Path == "environment/data.bin" && (f.Content.Blob == "" || f.Content.Bytes != 3 || f.Content.Value != "\uFFFD\x00\uFFFD") {
			t.Errorf("%+v", f)
		}
	}
	if len(got) != 1 || len(got[0].Goal.Files) != 6 {
		t.Errorf("%+v", got)
	}
}

// TestAllKinds: tasks with a goal and tasks without one are one dataset, whole.
func TestAllKinds(t *testing.T) {
	t.Parallel()
	cfg, deps := config(t.TempDir())
	const dir = "../../datasets/imports/testdata/formats/"
	cfg.In = []string{dir + "claw-eval", dir + "webgym.jsonl", dir + "swe-bench.jsonl", dir + "swe-gym.jsonl", dir + "webvoyager", dir + "r2e-gym.jsonl"}
	cfg.SkipBad = true // one id is in two of the sets
	r, err := Run(t.Context(), cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	got, v := tasks(t, r.URI)
	kinds := map[string]int{}
	for _, k := range got {
		switch {
		case k.Goal == nil:
			kinds["tests"]++
		case k.Goal.Criteria == nil || k.Goal.Files == nil:
			t.Errorf("a list is null: %+v", k.Goal)
		default:
			kinds[k.Goal.Kind] += 1 + 10*len(k.Goal.Criteria) + 100*len(k.Goal.Files)
		}
	}
	if d := cmp.Diff(map[string]int{"tests": 3, "web": 4 + 10, "tools": 1 + 20 + 300}, kinds); d != "" || r.Dropped["bad_instance_id"] != 1 {
		t.Error(d, r.Dropped)
	}
	roles := map[string]int{}
	for _, in := range v.Manifest().Inputs {
		roles[in.Role]++
	}
	if d := cmp.Diff(map[string]int{"tasks": 6, "answers": 1}, roles); d != "" {
		t.Error(d)
	}
}

// TestRollouts: rollouts of one task, policy and harness are counted in the files' order.
func TestRollouts(t *testing.T) {
	t.Parallel()
	cfg, deps := config(t.TempDir())
	cfg.In = []string{"../../datasets/imports/testdata/formats/open-swe-traces.jsonl"}
	r, err := Run(t.Context(), cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int64]record.Outcome{}
	for _, row := range rows[record.Rollout](t, r.URI) {
		seen[row.Index] = row.Verdict.Outcome
	}
	if len(seen) != 3 || seen[0] != record.NotGraded || seen[1] != record.Unresolved || seen[2] != record.Resolved {
		t.Errorf("%v", seen)
	}
}

// TestChangedMeanwhile: a file that changes between the two readings stops the import.
func TestChangedMeanwhile(t *testing.T) {
	t.Parallel()
	dir, _ := set(t, task("a-1", `,"image_name":"x:1"`))
	cfg, _ := config(dir)
	l, err := load(t.Context(), cfg, &unpacked{ins: cfg.In}, &problems{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(cfg.In[0], time.Time{}, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := l.files[0].again(t.Context(), nil); exit.Code(err) != exit.Input || !strings.Contains(err.Error(), "was changed while it was imported") {
		t.Error(err)
	}
}

// TestFolderChangedMeanwhile: so does a folder of which a file changes.
func TestFolderChangedMeanwhile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../datasets/imports/testdata/formats/harbor")); err != nil {
		t.Fatal(err)
	}
	cfg, _ := config(dir)
	l, err := load(t.Context(), cfg, &unpacked{ins: []string{dir}}, &problems{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "hello", "instruction.md"), []byte("Say bye.\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := l.files[0].again(t.Context(), nil); exit.Code(err) != exit.Input || !strings.Contains(err.Error(), "was changed while it was imported") {
		t.Error(err)
	}
}

// TestLarge: memory does not grow with the number of rows. ORCHARD_ROWS=1000000 takes the
// full size.
func TestLarge(t *testing.T) {
	t.Parallel()
	n, _ := strconv.Atoi(os.Getenv("ORCHARD_ROWS"))
	if n == 0 {
		n = 20_000
	}
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "tasks.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriter(f)
	for i := range n {
		id := (i*7919 + 13) % n // in no order
		fmt.Fprintln(w, strings.ReplaceAll(task(fmt.Sprintf("acme__calc-%d", id), fmt.Sprintf(`,"image_name":"x:%d","hints_text":"%0200d"`, id, id)), "BASE", "1234567890"))
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	cfg, deps := config(dir)
	r, err := Run(t.Context(), cfg, deps)
	if err != nil || r.RowsOut != int64(n) || r.RowsIn != int64(n) {
		t.Fatalf("%+v %v", r, err)
	}
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d rows, peak %d MiB", n, use.Maxrss>>10)
	if n >= 1_000_000 && use.Maxrss>>10 > 512 {
		t.Errorf("peak %d MiB for %d rows, want at most 512", use.Maxrss>>10, n)
	}
}
