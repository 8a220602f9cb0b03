package argo

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// nightly is a CronWorkflow without fault, so that the checks of one have something to find.
func nightly() document {
	return document{
		"apiVersion": "argoproj.io/v1alpha1", "kind": "CronWorkflow",
		"metadata": map[string]any{"name": "nightly"},
		"spec": map[string]any{
			"schedules": []any{"17 2 * * *"}, "timezone": "Etc/UTC", "concurrencyPolicy": "Forbid", "startingDeadlineSeconds": 3600,
			"successfulJobsHistoryLimit": 7, "failedJobsHistoryLimit": 7,
			"when":         "{{= cronworkflow.lastScheduledTime == nil }}",
			"stopStrategy": map[string]any{"expression": "asInt(cronworkflow.failed) >= 3"},
			"workflowSpec": map[string]any{
				"arguments":           map[string]any{"parameters": []any{param("tasks", "examples"), param("keep", "graded")}},
				"workflowTemplateRef": map[string]any{"name": "swe-sft"},
			},
		},
	}
}

func param(name, value string) map[string]any { return map[string]any{"name": name, "value": value} }

// fields is a mapping of the fields given, such as those of a task.
func fields(pairs ...any) map[string]any {
	m := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i].(string)] = pairs[i+1]
	}
	return m
}

// Places in the shipped files.
const (
	lib     = "orchard-stages-v1/spec/templates/"
	stage   = lib + "stage/"
	sharded = lib + "sharded/"
	sft     = "swe-sft/spec/"
	distill = sft + "templates/main/dag/tasks/distill/"
	export  = sft + "templates/main/dag/tasks/sft-export/"
	cron    = "nightly/spec/"
)

// drop takes a field away.
type drop struct{}

// mutations are faults, each with the check that must find it. The path says where:
// "+" at its end appends to a list.
var mutations = []struct {
	check, name, path string
	value             any
}{
	{"parse", "unknown field", stage + "retrees", "3"},
	{"parse", "field of another type", stage + "container/args", "--in=x"},
	{"parse", "another kind", "orchard-stages-v1/kind", "ClusterWorkflowTemplate"},
	{"parse", "a kind that is not Argo's", "orchard-stages-v1/kind", "WorkflowTemplates"},
	{"argo", "templateRef to a missing template", distill + "templateRef/template", "shraded"},
	{"argo", "depends on a missing task", distill + "depends", "imprt"},
	{"argo", "missing entrypoint", sft + "entrypoint", "mian"},
	{"argo", "required argument missing", distill + "arguments/parameters/0", drop{}},
	{"argo", "input that is not declared", stage + "container/args/+", "{{inputs.parameters.inn}}"},
	{"argo", "bad retryPolicy", stage + "retryStrategy/retryPolicy", "Sometimes"},
	{"argo", "bad podGC", sft + "podGC/strategy", "OnPodHappy"},
	{"argo", "no image", stage + "container/image", drop{}},
	{"argo", "empty output path", stage + "outputs/parameters/rows/valueFrom/path", ""},
	{"argo", "bad schedule", cron + "schedules/0", "0 99 * * *"},
	{"argo", "bad timezone", cron + "timezone", "Mars/Olympus"},
	{"argo", "cron of a missing pipeline", cron + "workflowSpec/workflowTemplateRef/name", "swe-stf"},
	{"argo", "a circle", sft + "templates/main/dag/tasks/import/depends", "report"},
	{"one machine", "a field that one machine does not have", sharded + "dag/tasks/run/hooks", fields("exit", fields("template", "stage"))},
	{"one machine", "parameter that the pipeline does not have", stage + "container/args/+", "--x={{workflow.parameters.nope}}"},
	{"same steps", "misspelt result in depends", distill + "depends", "check && import.Succeded"},
	{"same steps", "a step that never runs here", distill + "depends", "import.Failed"},
	{"same steps", "a recursion that never ends", "swe-rl/spec/templates/round/dag/tasks/next/when", "1 == 1"},
	{"same steps", "a recursion that counts otherwise", "swe-rl/spec/templates/round/dag/tasks/next/arguments/parameters/round/value", "{{=inputs.parameters.round + 1}}"},
	{"ancestors", "an output of the last round that is not there", "swe-rl/spec/templates/round/outputs/parameters/rl/valueFrom/expression", "tasks.nxt.outputs.parameters.rl"},
	{"tags", "an output expression's output that is not there", "swe-rl/spec/templates/round/outputs/parameters/rl/valueFrom/expression", "tasks.next.outputs.parameters.lr"},
	{"same steps", "a function that one machine does not have", stage + "container/args/+", "{{=sprig.upper(inputs.parameters.stage)}}"},
	{"resolve", "name that is known only at the end", sft + "templates/main/dag/tasks/import/arguments/parameters/0/value", "{{workflow.status}}"},
	{"resolve", "item without items", export + "arguments/parameters/0/value", "{{item}}"},
	{"resolve", "parameter of another pipeline", stage + "container/args/+", "{{workflow.parameters.nope}}"},
	{"arguments", "undeclared argument", distill + "arguments/parameters/+", param("bogus", "x")},
	{"arguments", "misspelt optional argument", distill + "arguments/parameters/shards/name", "shrads"},
	{"arguments", "argument without value", distill + "arguments/parameters/shards/value", drop{}},
	{"arguments", "cron's argument that its pipeline does not have", cron + "workflowSpec/arguments/parameters/+", param("zzz", "y")},
	{"arguments", "cron's argument outside its enum", cron + "workflowSpec/arguments/parameters/keep/value", "all"},
	{"arguments", "cron without a required argument", cron + "workflowSpec/arguments/parameters/0", drop{}},
	{"ancestors", "withParam without waiting", sharded + "dag/tasks/run/depends", drop{}},
	{"ancestors", "output of a task that is not waited for", export + "depends", "import"},
	{"ancestors", "the same inside an expression", export + "arguments/parameters/+", param("cpu", "{{= tasks['report'].outputs.parameters.rows }}")},
	{"ancestors", "task that is not there", sharded + "outputs/parameters/+", fields("name", "x", "valueFrom", fields("parameter", "{{tasks.comit.outputs.parameters.rows}}"))},
	{"ancestors", "all outputs of a fan-out", sharded + "dag/tasks/commit/arguments/parameters/+", param("cpu", "{{tasks.run.outputs.parameters.rows}}")},
	{"tags", "broken expression", stage + "container/args/+", "{{=inputs.parameters.stage +}}"},
	{"tags", "unknown name in an expression", stage + "container/args/+", "{{=inputs.parameters.stge}}"},
	{"tags", "name with a dash in an expression", sft + "templates/main/dag/tasks/import/arguments/parameters/+", param("cpu", "{{=workflow.parameters.run-id}}")},
	{"tags", "tag that does not end", stage + "container/args/+", "{{inputs.parameters.stage"},
	{"tags", "output in a metric that is not there", stage + "metrics/prometheus/orchard_stage_rows/gauge/value", "{{outputs.parameters.row}}"},
	{"conditions", "syntax of the retry expression", stage + "retryStrategy/expression", "asInt(lastRetry.exitCode == 75"},
	{"conditions", "misspelt name in it", stage + "retryStrategy/expression", `lastRetry.statoos == "Error"`},
	{"conditions", "no condition", stage + "retryStrategy/expression", "asInt(lastRetry.exitCode)"},
	{"conditions", "cron's when", cron + "when", "{{= cronworkflow.lastScheduled == nil }}"},
	{"conditions", "cron's stopStrategy", cron + "stopStrategy/expression", "cronworkflow.failed >="},
	{"parameters", "not used", sft + "arguments/parameters/+", fields("name", "x", "value", "", "description", "X")},
	{"parameters", "not described", sft + "arguments/parameters/keep/description", drop{}},
	{"parameters", "default outside its enum", sft + "arguments/parameters/keep/value", "all"},
	{"parameters", "input not used", stage + "inputs/parameters/+", fields("name", "x", "value", "", "description", "X")},
	{"parameters", "input not described", sharded + "inputs/parameters/shards/description", ""},
	{"outputs", "no default", stage + "outputs/parameters/rows/valueFrom/default", drop{}},
	{"outputs", "outside the folder", stage + "outputs/parameters/rows/valueFrom/path", "/tmp/rows"},
	{"outputs", "the folder is elsewhere", stage + "container/env/ORCHARD_OUTPUT_DIR/value", "/tmp"},
	{"fan-out", "no work is a failure", sharded + "dag/tasks/commit/depends", "run.Succeeded"},
	{"fan-out", "no bound", sharded + "parallelism", drop{}},
	{"fan-out", "the same for all", sharded + "dag/tasks/run/arguments/parameters/options/value", "--shard=1/2"},
	{"fan-out", "default that is no list", stage + "outputs/parameters/shards/valueFrom/default", "none"},
	{"fan-out", "output that is not there", sharded + "dag/tasks/run/withParam", "{{tasks.plan.outputs.parameters.shardz}}"},
	{"fan-out", "no output", sharded + "dag/tasks/run/withParam", "{{inputs.parameters.shards}}"},
	{"retry", "of a DAG", sharded + "retryStrategy", fields("limit", 2)},
	{"retry", "none", stage + "retryStrategy", drop{}},
	{"retry", "another expression", stage + "retryStrategy/expression", `lastRetry.status == "Error"`},
	{"retry", "limit that is no number", stage + "retryStrategy/limit", "three"},
	{"retry", "no limit", stage + "retryStrategy/limit", drop{}},
	{"retry", "backoff that is no time", stage + "retryStrategy/backoff/cap", "soon"},
	{"retry", "no cap", stage + "retryStrategy/backoff/cap", drop{}},
	{"retry", "factor that is no number", stage + "retryStrategy/backoff/factor", "twice"},
	{"retry", "a policy beside it", stage + "retryStrategy/retryPolicy", "OnError"},
	{"metrics", "of another help", lib + "reported/metrics/prometheus/orchard_stage_rows/help", "Rows"},
	{"metrics", "of other labels", lib + "reported/metrics/prometheus/orchard_stage_rows/labels/0/key", "kind"},
	{"metrics", "name", stage + "metrics/prometheus/orchard_stage_rows/name", "rows"},
	{"metrics", "counter's name", stage + "metrics/prometheus/orchard_stage_result_total/name", "orchard_stage_result"},
	{"metrics", "a label value a run", sft + "metrics/prometheus/orchard_pipeline_result_total/labels/0/value", "{{workflow.name}}"},
	{"forbidden", "a template's priority", stage + "priority", 1},
	{"forbidden", "resource", stage + "resource", fields("action", "get")},
	{"forbidden", "suspend", stage + "suspend", fields()},
	{"forbidden", "retry of the workflow", sft + "retryStrategy", fields("limit", 1)},
	{"forbidden", "hook of a task", distill + "onExit", "summary"},
	{"forbidden", "something supplied", sft + "arguments/parameters/tasks/valueFrom", fields("supplied", fields())},
	{"forbidden", "all failures", sft + "templates/summary/dag/tasks/summary/arguments/parameters/+", param("cpu", "{{workflow.failures}}")},
	{"forbidden", "standard output", export + "arguments/parameters/+", param("cpu", "{{tasks.distill.outputs.result}}")},
	{"names", "pipeline's", "swe-sft/metadata/name", "p" + strings.Repeat("i", 57)},
	{"names", "task's", distill + "name", strings.Repeat("d", 64)},
	{"names", "cron's", "nightly/metadata/name", strings.Repeat("n", 53)},
	{"names", "with a dot", stage + "name", "a.b"},
	{"objects", "service account", stage + "serviceAccountName", "orchard-stages"},
	{"objects", "executor's account", stage + "executor/serviceAccountName", "argo"},
	{"objects", "ConfigMap", stage + "container/envFrom/0/configMapRef/name", "settings"},
	{"objects", "ConfigMap of a parameter", sft + "arguments/parameters/out/valueFrom/configMapKeyRef/name", "orchard"},
	{"objects", "Secret", stage + "container/envFrom/1/secretRef/name", "orchard-credential"},
	{"objects", "Secret in a volume", stage + "volumes/+", fields("name", "s", "secret", fields("secretName", "other"))},
	{"pipeline", "no description", "swe-sft/metadata/annotations", drop{}},
	{"pipeline", "no label", "swe-sft/metadata/labels", drop{}},
	{"pipeline", "no onExit", sft + "onExit", drop{}},
	{"pipeline", "no deadline", sft + "activeDeadlineSeconds", drop{}},
	{"pipeline", "no parallelism", sft + "parallelism", drop{}},
	{"pipeline", "negative parallelism", sft + "parallelism", -1},
	{"pipeline", "negative parallelism of a template", sharded + "parallelism", -1},
	{"pipeline", "podGC deletes failed Pods", sft + "podGC/strategy", "OnPodCompletion"},
	{"pipeline", "podGC's delay", sft + "podGC/deleteDelayDuration", "later"},
	{"pipeline", "no ttl", sft + "ttlStrategy", drop{}},
	{"pipeline", "failed runs deleted first", sft + "ttlStrategy/secondsAfterFailure", 60},
	{"pipeline", "archived logs", sft + "archiveLogs", true},
	{"pipeline", "no run-id", sft + "arguments/parameters/run-id", drop{}},
	{"pipeline", "security left to the caller", stage + "securityContext", drop{}},
	{"cron", "no schedules", cron + "schedules", drop{}},
	{"cron", "no time zone", cron + "timezone", drop{}},
	{"cron", "Replace", cron + "concurrencyPolicy", "Replace"},
	{"cron", "no starting deadline", cron + "startingDeadlineSeconds", drop{}},
	{"cron", "no history", cron + "failedJobsHistoryLimit", drop{}},
	{"cron", "templates of its own", cron + "workflowSpec/templates", []any{fields("name", "x")}},
	{"artifacts", "packed", lib + "reported/outputs/artifacts/report/archive", drop{}},
	{"artifacts", "not optional", lib + "reported/outputs/artifacts/report/optional", drop{}},
	{"artifacts", "from elsewhere", lib + "reported/outputs/artifacts/report/path", "/data"},
	{"artifacts", "data", stage + "inputs/artifacts", []any{fields("name", "rows", "path", "/tmp/rows")}},
	{"pod security", "root", stage + "securityContext/runAsNonRoot", false},
	{"pod security", "no seccomp", stage + "securityContext/seccompProfile", drop{}},
	{"pod security", "capabilities", stage + "container/securityContext/capabilities", drop{}},
	{"pod security", "escalation", stage + "container/securityContext/allowPrivilegeEscalation", true},
	{"pod security", "the node's files", stage + "volumes/+", fields("name", "h", "hostPath", fields("path", "/"))},
	{"pod security", "privileged by a patch", stage + "podSpecPatch", "containers: [{name: main, securityContext: {privileged: true}}]"},
	{"pod security", "Argo's own containers as they are", stage + "podSpecPatch", "containers: [{name: main, resources: {requests: {cpu: 1, memory: 1Gi}, limits: {memory: 1Gi}}}]"},
	{"pod security", "the node's network by a patch", stage + "podSpecPatch", "hostNetwork: true"},
	{"pod security", "misspelt patch", stage + "podSpecPatch", "hostNetwrk: true"},
	{"pod security", "writable root", stage + "container/securityContext/readOnlyRootFilesystem", drop{}},
	{"pod security", "nowhere to write", stage + "container/volumeMounts", drop{}},
	{"pod security", "no limit of what is written", stage + "volumes/tmp/emptyDir", fields()},
	{"pod security", "token", stage + "automountServiceAccountToken", true},
	{"pod security", "no executor", stage + "executor", drop{}},
	{"pod security", "executor as the stage", stage + "executor/serviceAccountName", "orchard-stage"},
	{"pod security", "no account", stage + "serviceAccountName", drop{}},
	{"image", "by tag", stage + "container/image", "registry.example/orchard:latest"},
	{"image", "default by tag", sft + "arguments/parameters/image/value", "registry.example/orchard:latest"},
	{"command", "none", stage + "container/command", drop{}},
	{"command", "not a path", stage + "container/command/0", "orchard"},
	{"resources", "none", stage + "podSpecPatch", drop{}},
	{"resources", "quantity that is none", distill + "arguments/parameters/+", param("memory", "lots")},
	{"resources", "no memory limit", stage + "podSpecPatch", `containers: [{name: main, resources: {requests: {cpu: "1", memory: 1Gi}}}]`},
	{"resources", "more than the limit", stage + "podSpecPatch", `containers: [{name: main, resources: {requests: {cpu: "1", memory: 2Gi}, limits: {memory: 1Gi}}}]`},
	{"deadline", "none", stage + "activeDeadlineSeconds", drop{}},
	{"deadline", "no number", stage + "activeDeadlineSeconds", "6h"},
	{"deadline", "beyond the run's", stage + "activeDeadlineSeconds", 6048000},
	{"deadline", "before the stage's", stage + "activeDeadlineSeconds", 3600},
	{"secrets", "in the YAML", stage + "container/env/+", fields("name", "OPENAI_API_KEY", "value", "sk-1")},
}

// Every fault is found by its check, and every check finds one.
func TestPlantedFaults(t *testing.T) {
	good := shipped(t)
	good["nightly"] = nightly()
	before := map[string]int{}
	for _, c := range checks {
		for _, text := range c.run(read(good)) {
			before[c.name]++
			t.Errorf("%s, before any fault: %s", c.name, text)
		}
	}
	used := map[string]bool{}
	for _, m := range mutations {
		t.Run(m.check+": "+m.name, func(t *testing.T) {
			used[m.check] = true
			docs := clone(t, good)
			name, path, _ := strings.Cut(m.path, "/")
			if docs[name] == nil {
				t.Fatalf("no document %q", name)
			}
			if _, err := plant(docs[name], strings.Split(path, "/"), m.value); err != nil {
				t.Fatalf("%s: %v", m.path, err)
			}
			s := read(docs)
			for _, c := range checks {
				if c.name == m.check && len(c.run(s)) <= before[c.name] {
					t.Errorf("not found")
				}
			}
		})
	}
	for n := range banned {
		used["forbidden"] = true
		t.Run("forbidden: "+n, func(t *testing.T) {
			docs := clone(t, good)
			spec := docs["orchard-stages-v1"]["spec"].(map[string]any)
			spec["templates"].([]any)[0].(map[string]any)[n] = fields("x", "y")
			var found []string
			forbidden(read(docs), func(format string, a ...any) { found = append(found, fmt.Sprintf(format, a...)) })
			if len(found) <= before["forbidden"] {
				t.Error("not found")
			}
		})
	}
	for _, c := range checks {
		if !used[c.name] {
			t.Errorf("no fault is planted for the check %q", c.name)
		}
	}
}

// The trainer to begin one's own with stands where the one that comes with Orchard does.
func TestTrainerExample(t *testing.T) {
	raw, err := os.ReadFile("../../examples/trainer.yaml")
	if err != nil {
		t.Fatal(err)
	}
	docs := shipped(t)
	var example document
	if err := yaml.UnmarshalStrict(raw, &example); err != nil || docs["orchard-trainer"] == nil || at(example, "metadata/name") != "orchard-trainer" {
		t.Fatal(err, at(example, "metadata/name"))
	}
	outputs := at(example, "spec/templates/train/outputs/parameters")
	for _, c := range checks {
		if c.name == "image" || c.name == "deadline" || c.name == "resources" || c.name == "retry" { // which are the trainer's own
			continue
		}
		docs["orchard-trainer"] = example
		for _, text := range c.run(read(docs)) {
			t.Errorf("%s: %s", c.name, text)
		}
	}
	if list, _ := outputs.([]any); index(list, "llm-url") < 0 || index(list, "weight-version") < 0 {
		t.Errorf("it returns %v", outputs)
	}
}

// plant sets, drops or appends the value at path; every part but the last must be there.
func plant(v any, path []string, value any) (any, error) {
	last := len(path) == 1
	switch in := v.(type) {
	case map[string]any:
		_, there := in[path[0]]
		_, gone := value.(drop)
		switch {
		case last && gone && there:
			delete(in, path[0])
			return in, nil
		case last && !gone:
			in[path[0]] = value
			return in, nil
		case !there:
			return nil, fmt.Errorf("no %q", path[0])
		}
		changed, err := plant(in[path[0]], path[1:], value)
		in[path[0]] = changed
		return in, err
	case []any:
		if path[0] == "+" {
			return append(in, value), nil
		}
		i := index(in, path[0])
		if n, err := strconv.Atoi(path[0]); err == nil && n < len(in) {
			i = n
		}
		if i < 0 {
			return nil, fmt.Errorf("no element %q", path[0])
		}
		if _, gone := value.(drop); last && gone {
			return append(in[:i:i], in[i+1:]...), nil
		}
		if last {
			in[i] = value
			return in, nil
		}
		changed, err := plant(in[i], path[1:], value)
		in[i] = changed
		return in, err
	}
	return nil, fmt.Errorf("%q: nothing can be below %v", path[0], v)
}
