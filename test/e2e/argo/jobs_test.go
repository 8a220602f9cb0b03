package argo_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orchard/test/e2e/api"
)

// jobs runs the same stages as plain Kubernetes Jobs: the file as it is but for what its comments
// say to edit, with the loop of its head. A Pod of the Indexed Job is killed on the way.
func jobs(t *testing.T) {
	const tasks = 1
	place, runID := prefix(t), unique(t)
	var parameters struct{ Data map[string]string }
	if err := object(namespace, "configmap/orchard-parameters", &parameters); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../../workflows/jobs/swe-sft.yaml")
	if err != nil {
		t.Fatal(err)
	}
	edited := string(text)
	for old, new := range map[string]string{
		"OUT: s3://orchard/data ":                   "OUT: " + place + " ",
		"ORCHARD_RUN_ID: swe-sft-jobs-1 ":           "ORCHARD_RUN_ID: " + runID + " ",
		`ORCHARD_ROLLOUTS: "4"`:                     fmt.Sprintf(`ORCHARD_ROLLOUTS: "%d"`, rolloutsEach),
		`ORCHARD_SEED: "1"`:                         fmt.Sprintf("ORCHARD_SEED: %q\n      ORCHARD_LIMIT: %q\n      ORCHARD_WORKERS: \"2\"\n      ORCHARD_SANDBOX_CPU_REQUEST: 50m\n      ORCHARD_SANDBOX_MEMORY: 512Mi", seed, fmt.Sprint(tasks)),
		`SHARDS: "4"`:                               `SHARDS: "2"`,
		"completions: 4":                            "completions: 2",
		"parallelism: 4":                            "parallelism: 2",
		"image: &image localhost/orchard/stage:dev": "image: &image " + parameters.Data["image"],
	} {
		if strings.Count(edited, old) != 1 {
			t.Fatalf("workflows/jobs/swe-sft.yaml has %q %d times, want once", old, strings.Count(edited, old))
		}
		edited = strings.Replace(edited, old, new, 1)
	}
	file := filepath.Join(t.TempDir(), "jobs.yaml")
	if err := os.WriteFile(file, []byte(edited), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		kubectl(t, "-n", namespace, "delete", "-f", file, "--ignore-not-found", "--cascade=foreground")
	})
	kubectl(t, "-n", namespace, "apply", "-f", file)
	for _, job := range []string{"import", "distill", "commit", "sft-export", "report"} {
		name := "swe-sft-" + job
		explain(t, namespace, "job-name="+name)
		kubectl(t, "-n", namespace, "patch", "job", name, "-p", `{"spec":{"suspend":false}}`)
		if job == "distill" {
			killIndex(t, runID, name)
		}
		complete(t, name)
	}
	if now, _ := finished(t, place, "rollouts"); len(now) != tasks*rolloutsEach {
		t.Errorf("%d rollouts in the store, want %d: %v", len(now), tasks*rolloutsEach, now)
	}
	once(t, place, "tasks", "rollouts", "sft", "report")
	asAlone(t, place, tasks)
}

// killIndex kills the Pod of index 0 when it works on a rollout.
func killIndex(t *testing.T, runID, job string) {
	t.Helper()
	eventually(t, "a rollout of the Indexed Job under way", func() string {
		for _, p := range pods(t, namespace, "job-name="+job+",batch.kubernetes.io/job-completion-index=0") {
			for _, box := range sandboxPods(t, runID) {
				if p.runs("main") && box.Status.Phase == "Running" {
					kill(t, namespace, p.Metadata.Name)
					return ""
				}
			}
		}
		return "no Pod of index 0 runs, or no sandbox"
	})
}

// complete waits for a Job to succeed; one that fails is told at once.
func complete(t *testing.T, name string) {
	t.Helper()
	eventually(t, "complete: Job "+name, func() string {
		job, err := api.Of(t).BatchV1().Jobs(namespace).Get(t.Context(), name, meta.GetOptions{})
		if err != nil {
			return err.Error()
		}
		for _, c := range job.Status.Conditions {
			switch {
			case c.Status != core.ConditionTrue:
			case c.Type == batch.JobComplete:
				return ""
			case c.Type == batch.JobFailed:
				t.Fatalf("Job %s failed: %s: %s\n%s", name, c.Reason, c.Message, job.Status.String())
			}
		}
		return job.Status.String()
	})
}
