package argo_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"orchard/datasets/record"
	"orchard/test/e2e/figures"
)

// The widest fan-out that there is: 256 Pods of one stage in one workflow. What Argo keeps of it
// stays far from what an object may have.
func TestWide(t *testing.T) {
	if !soak {
		t.Skip("make soak runs this")
	}
	const shards, most = 256, 256 << 10
	place, runID := prefix(t), unique(t)
	unsolvable(t, place+"/tasks")
	kubectl(t, "-n", namespace, "apply", "-f", "testdata/wide.yaml")
	t.Cleanup(func() { kubectl(t, "-n", namespace, "delete", "-f", "testdata/wide.yaml", "--ignore-not-found") })
	s := submit(t, namespace, "orchard-test-wide", map[string]string{"out": place, "run-id": runID})
	w := s.end(40 * time.Minute)
	if w.Status.Phase != "Succeeded" {
		t.Fatalf("the workflow is %s: %s", w.Status.Phase, w.Status.Message)
	}
	var each []time.Duration
	for _, n := range w.steps() {
		if strings.Contains(n.Name, ".run(") {
			each = append(each, took(n))
		}
	}
	if len(each) < shards {
		t.Errorf("%d Pods of shards, want %d", len(each), shards)
	}
	all := rows[record.Rollout](t, opened(t, place+"/rollouts"))
	if len(all) != shards {
		t.Errorf("%d rows, want %d", len(all), shards)
	}
	object, stored, packed := sizes(t, s)
	figures.Tell(t, "sharded, %d shards with nothing to do: %v in all, a Pod p50 %v, p99 %v; workflow object %d KiB, its node status %d KiB as stored, %d KiB compressed",
		shards, w.Status.FinishedAt.Sub(w.Status.StartedAt), percentile(each, 50), percentile(each, 99), object>>10, stored>>10, packed>>10)
	if stored > most {
		t.Errorf("node status of %d bytes, most is %d", stored, most)
	}
}

// unsolvable is a dataset of one task whose gold patch does not pass its tests.
func unsolvable(t *testing.T, uri string) {
	t.Helper()
	const task = "examples__intervals-9"
	dir, examples := t.TempDir(), "../../../examples/tasks"
	if err := os.CopyFS(filepath.Join(dir, "repos"), os.DirFS(examples+"/repos")); err != nil {
		t.Fatal(err)
	}
	wrong, err := os.ReadFile(filepath.Join(examples, "patches", task+".wrong.patch"))
	if err != nil {
		t.Fatal(err)
	}
	all, err := os.ReadFile(examples + "/tasks.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(all) {
		row := map[string]any{}
		if err := json.Unmarshal(line, &row); err != nil {
			t.Fatal(err)
		}
		if row["instance_id"] != task {
			continue
		}
		row["patch"] = string(wrong)
		one, err := json.Marshal(row)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "tasks.jsonl"), append(one, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	orchard(t, "import", "--in="+filepath.Join(dir, "tasks.jsonl"), "--out="+uri)
}

// sizes are the bytes of the workflow as the API server has it, of the part of it that tells of
// the nodes as it is stored there, and of that part compressed as Argo does above 1 MiB.
func sizes(t *testing.T, s *submission) (object, stored, packed int) {
	t.Helper()
	raw, err := exec.Command("kubectl", "get", "--raw", "/apis/argoproj.io/v1alpha1/namespaces/"+s.ns+"/workflows/"+s.name).Output()
	if err != nil {
		t.Fatalf("kubectl get: %v%s", err, stderr(err))
	}
	var w struct {
		Status struct {
			Nodes           json.RawMessage
			CompressedNodes string
		}
	}
	if err := json.Unmarshal(raw, &w); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.Copy(z, bytes.NewReader(w.Status.Nodes)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	packed = b.Len()
	if w.Status.CompressedNodes != "" {
		packed = len(w.Status.CompressedNodes)
	}
	return len(raw), len(w.Status.Nodes) + len(w.Status.CompressedNodes), packed
}
