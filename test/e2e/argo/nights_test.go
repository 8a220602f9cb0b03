package argo_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"orchard/datasets/record"
)

// What a night evaluates: enough tasks that losing all of them is no chance (McNemar's p of
// 0 and 7 is 2/2^7), all in Go, which this machine and the toolchain image have.
const nightTasks = 7

// Two nights of the chart's CronWorkflow, started by its schedule. The policy that is served
// solves every task in the first and none in the second. In the first the Pod that evaluates is
// killed, in the second the Argo controller: both nights end, the second is told as a
// regression, and both made the rollouts and numbers that one machine makes undisturbed.
func TestNights(t *testing.T) {
	if !soak {
		t.Skip("make soak runs this")
	}
	place, hook := prefix(t), hear(t)
	policy := &served{t: t, host: hook.host, tasks: place + "/tasks"}
	p := map[string]string{
		"tasks": "examples", "filter": `language == "go"`, "limit": fmt.Sprint(nightTasks), "seed": seed, "out": place,
		"llm-url": policy.serve("1"), "llm-model": "scripted", "workers": "2", "sandbox-cpu-request": "50m", "sandbox-memory": "512Mi",
	}
	cron := schedule(t, p)
	local := "file://" + filepath.Join(t.TempDir(), "alone")

	first := cron.night(nil)
	first.until("rollouts of the first night", func() string {
		if ended, _ := finished(t, place, "eval"); len(ended) == 0 {
			return "none has ended"
		}
		for _, pod := range first.stageOf("evaluate") {
			if pod.runs("main") && shardOf(pod) != "" {
				kill(t, namespace, pod.Metadata.Name)
				return ""
			}
		}
		return "nothing evaluates"
	})
	if w := first.succeeded(); w.output("regression") != "" && w.output("regression") != "false" {
		t.Errorf("the first night has nothing to compare with, and regression=%q", w.output("regression"))
	}
	if m := hook.of(t, first.name); m.Status != "Succeeded" || m.Regression != nil || len(m.Systems) != 1 || m.Systems[0].Resolved != nightTasks {
		t.Errorf("the webhook heard of the first night: %+v", m)
	}
	policy.once(2) // what the two workers of the Pod that was killed had begun
	undisturbed(t, "nightly-eval", first.name, local, p)

	before, _ := finished(t, place, "eval")
	policy.serve("0")
	second := cron.night(first)
	second.until("rollouts of the second night", func() string {
		if ended, _ := finished(t, place, "eval"); len(ended) == len(before) {
			return "none has ended"
		}
		return ""
	})
	component(t, "stop", "workflow-controller")
	component(t, "start", "workflow-controller")
	if w := second.succeeded(); w.output("regression") != "true" {
		t.Errorf("the second night has regression=%q: %s", w.output("regression"), w.output("headline"))
	}
	if m := hook.of(t, second.name); m.Status != "Succeeded" || m.Regression == nil || !*m.Regression || len(m.Systems) != 1 || m.Systems[0].NewlyFailed == nil || *m.Systems[0].NewlyFailed != nightTasks {
		t.Errorf("the webhook heard of the second night: %+v", m)
	}
	policy.once(0)
	undisturbed(t, "nightly-eval", second.name, local, p)

	for _, name := range []string{"eval", "eval-evaluation"} {
		if here, there := len(datasetVersions(t, local, name)), len(datasetVersions(t, place, name)); here != 2 || there != 2 {
			t.Errorf("%s has %d versions on one machine and %d on the cluster, want one a night", name, here, there)
		}
	}
	for _, night := range []string{first.name, second.name} {
		same(t, place, ofNight[record.Rollout](t, local, "eval", night), ofNight[record.Rollout](t, place, "eval", night), essenceOf)
		same(t, place, ofNight[record.Evaluation](t, local, "eval-evaluation", night), ofNight[record.Evaluation](t, place, "eval-evaluation", night), sayingsOf)
	}
}

// cron is a CronWorkflow that a test has made.
type cron struct {
	t    *testing.T
	name string
}

// schedule makes the chart's nightly-eval under another name, as the docs tell users to: due
// every minute instead of every night, and with these parameters. It is suspended at first.
func schedule(t *testing.T, p map[string]string) cron {
	t.Helper()
	var o struct {
		APIVersion string         `json:"apiVersion"`
		Kind       string         `json:"kind"`
		Metadata   map[string]any `json:"metadata"`
		Spec       map[string]any `json:"spec"`
	}
	if err := object(namespace, "cronworkflow/nightly-eval", &o); err != nil {
		t.Fatal(err)
	}
	c := cron{t: t, name: unique(t)}
	o.Metadata = map[string]any{"name": c.name, "namespace": namespace}
	o.Spec["schedules"], o.Spec["suspend"] = []string{"* * * * *"}, true
	arguments := o.Spec["workflowSpec"].(map[string]any)["arguments"].(map[string]any)
	parameters := slices.DeleteFunc(arguments["parameters"].([]any), func(a any) bool {
		_, given := p[a.(map[string]any)["name"].(string)]
		return given && a.(map[string]any)["name"] != "tasks" // the chart's is kept, and read from its ConfigMap
	})
	for _, name := range slices.Sorted(maps.Keys(p)) {
		if name != "tasks" {
			parameters = append(parameters, map[string]any{"name": name, "value": p[name]})
		}
	}
	arguments["parameters"] = parameters
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "cron.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	kubectl(t, "apply", "-f", path)
	t.Cleanup(func() { kubectl(t, "-n", namespace, "delete", "cronworkflow", c.name, "--ignore-not-found") })
	return c
}

// night lets the schedule start one workflow, after the one before, and no more.
func (c cron) night(before *submission) *submission {
	c.t.Helper()
	kubectl(c.t, "-n", namespace, "patch", "cronworkflow", c.name, "--type=merge", "-p", `{"spec":{"suspend":false}}`)
	var name string
	eventually(c.t, "a night", func() string {
		var list struct{ Items []workflow }
		out := kubectl(c.t, "-n", namespace, "get", "workflows", "-l", "workflows.argoproj.io/cron-workflow="+c.name, "-o", "json")
		if err := json.Unmarshal([]byte(out), &list); err != nil {
			return err.Error()
		}
		for _, w := range list.Items {
			if before == nil || w.Metadata.Name != before.name {
				name = w.Metadata.Name
				return ""
			}
		}
		return "the schedule has started none"
	})
	kubectl(c.t, "-n", namespace, "patch", "cronworkflow", c.name, "--type=merge", "-p", `{"spec":{"suspend":true}}`)
	return follow(c.t, namespace, name, "wait", "-n", namespace, name)
}

// ofNight are the rows of one night's version of a dataset.
func ofNight[R record.Row](t testing.TB, place, name, night string) map[string]R {
	t.Helper()
	for _, uri := range datasetVersions(t, place, name) {
		if v := opened(t, uri); v.Manifest().Stage.RunID == night {
			return rows[R](t, v)
		}
	}
	return nil
}

// sayingsOf are an evaluation's numbers. The baseline's address is where it is.
func sayingsOf(e record.Evaluation) any {
	compared := e.Baseline != ""
	e.Baseline = ""
	return []any{compared, e}
}
