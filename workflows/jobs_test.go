package workflows_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"orchard/internal/exit"
	"orchard/workflows"
)

// jobFile is a file for kubectl: Jobs, and the ConfigMap of their settings.
type jobFile struct {
	jobs   []batch.Job
	values map[string]string
}

func parseJobs(raw []byte) (f jobFile, err error) {
	var list struct {
		APIVersion, Kind string
		Items            []map[string]any
	}
	if err := yaml.UnmarshalStrict(raw, &list); err != nil {
		return f, err
	}
	if list.APIVersion != "v1" || list.Kind != "List" {
		return f, fmt.Errorf("is %s %s, not a List", list.APIVersion, list.Kind)
	}
	for _, item := range list.Items {
		one, err := yaml.Marshal(item)
		if err != nil {
			return f, err
		}
		switch kind := fmt.Sprint(item["apiVersion"], " ", item["kind"]); kind {
		case "batch/v1 Job":
			var job batch.Job
			if err := yaml.UnmarshalStrict(one, &job); err != nil {
				return f, fmt.Errorf("Job %v: %w", item["metadata"], err)
			}
			f.jobs = append(f.jobs, job)
		case "v1 ConfigMap":
			var values core.ConfigMap
			if err := yaml.UnmarshalStrict(one, &values); err != nil {
				return f, err
			}
			f.values = values.Data
		default:
			return f, fmt.Errorf("holds a %s", kind)
		}
	}
	return f, nil
}

// stageTemplate is the Argo template that runs the same stages.
type stageTemplate struct {
	Name               string                   `json:"name"`
	ServiceAccountName string                   `json:"serviceAccountName"`
	SecurityContext    *core.PodSecurityContext `json:"securityContext"`
	Container          core.Container           `json:"container"`
}

func stage(t *testing.T) stageTemplate {
	t.Helper()
	raw, err := workflows.FS.ReadFile("templates/stages.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var w struct {
		Spec struct{ Templates []stageTemplate }
	}
	if err := yaml.Unmarshal(raw, &w); err != nil {
		t.Fatal(err)
	}
	for _, s := range w.Spec.Templates {
		if s.Name == "stage" {
			return s
		}
	}
	t.Fatal("there is no template stage")
	return stageTemplate{}
}

// again reports whether a Job tries a Pod again that ended so, as Kubernetes reads its
// failure policy: the first rule that fits decides, without one the try is counted.
func again(job batch.Job, code int32, disrupted bool) (again, counted bool) {
	for _, r := range job.Spec.PodFailurePolicy.Rules {
		fits := false
		if on := r.OnExitCodes; on != nil && code != 0 {
			in := slices.Contains(on.Values, code)
			fits = in == (on.Operator == batch.PodFailurePolicyOnExitCodesOpIn)
		}
		for _, c := range r.OnPodConditions {
			fits = fits || disrupted && c.Type == core.DisruptionTarget && (c.Status == "" || c.Status == core.ConditionTrue)
		}
		if fits {
			failed := r.Action == batch.PodFailurePolicyActionFailJob || r.Action == batch.PodFailurePolicyActionFailIndex
			return !failed, r.Action == batch.PodFailurePolicyActionCount
		}
	}
	return true, true
}

// problems is what is wrong with one file of Jobs.
func problems(raw []byte, like stageTemplate) (bad []string) {
	say := func(format string, a ...any) { bad = append(bad, fmt.Sprintf(format, a...)) }
	f, err := parseJobs(raw)
	if err != nil {
		say("%v", err)
		return bad
	}
	if len(f.jobs) == 0 {
		say("no Jobs")
	}
	for _, job := range f.jobs {
		at, spec, pod := job.Name, job.Spec, job.Spec.Template.Spec
		if len(job.Name) > 63 || job.Namespace != "" {
			say("%s: a name of at most 63, in the namespace of whoever applies it", at)
		}
		indexed := spec.CompletionMode != nil && *spec.CompletionMode == batch.IndexedCompletion
		if spec.PodFailurePolicy == nil {
			say("%s: no podFailurePolicy", at)
			continue
		}
		for _, r := range spec.PodFailurePolicy.Rules {
			if r.OnExitCodes != nil && (r.OnExitCodes.ContainerName == nil || *r.OnExitCodes.ContainerName != "main") {
				say("%s: its failure policy is not about the container main", at)
			}
			if indexed && r.Action == batch.PodFailurePolicyActionFailJob {
				say("%s: one bad shard ends the others", at)
			}
		}
		// The retry expression of the Argo templates tries these codes again, and no other
		// (test/argo holds it to that). Being disrupted is nobody's fault, and costs no try.
		var wrong, costly []int32
		for code := int32(1); code < 256; code++ {
			want := code == exit.Retry || code == 137 || code == 143
			if got, counted := again(job, code, false); got != want || got && !counted {
				wrong = append(wrong, code)
			}
			if got, counted := again(job, code, true); !got || counted {
				costly = append(costly, code)
			}
		}
		if wrong != nil {
			say("%s: is tried again, or not, against the table of exit codes: %v", at, wrong)
		}
		if costly != nil {
			say("%s: a Pod that was disrupted fails the Job or costs a try when it ends with %v", at, costly)
		}
		switch {
		case !indexed && (spec.BackoffLimit == nil || *spec.BackoffLimit < 1):
			say("%s: no backoffLimit", at)
		case indexed && (spec.BackoffLimitPerIndex == nil || *spec.BackoffLimitPerIndex < 1):
			say("%s: no backoffLimitPerIndex", at)
		case indexed && (spec.Completions == nil || *spec.Completions < 1 || *spec.Completions > 256 || strconv.Itoa(int(*spec.Completions)) != f.values["SHARDS"]):
			say("%s: completions are not the SHARDS of its ConfigMap, 1 to 256", at)
		case indexed && (spec.MaxFailedIndexes != nil || spec.Parallelism == nil):
			say("%s: no parallelism, or a maxFailedIndexes, by which a lost shard stops the others", at)
		}
		if pod.RestartPolicy != core.RestartPolicyNever {
			say("%s: restartPolicy is not Never, which a failure policy needs", at)
		}
		if spec.ActiveDeadlineSeconds == nil || spec.TTLSecondsAfterFinished == nil {
			say("%s: no activeDeadlineSeconds or ttlSecondsAfterFinished", at)
		}
		if pod.ServiceAccountName != like.ServiceAccountName || pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
			say("%s: account %q or its token: is not as in the Argo template", at, pod.ServiceAccountName)
		}
		if !reflect.DeepEqual(pod.SecurityContext, like.SecurityContext) {
			say("%s: securityContext is not that of the Argo template", at)
		}
		if len(pod.Containers) != 1 || len(pod.InitContainers) > 0 {
			say("%s: has other containers than main", at)
		}
		for _, c := range pod.Containers {
			if c.Name != "main" || !reflect.DeepEqual(c.SecurityContext, like.Container.SecurityContext) {
				say("%s/%s: name or securityContext is not that of the Argo template", at, c.Name)
			}
			if c.Resources.Requests.Cpu().Sign() <= 0 || c.Resources.Requests.Memory().Sign() <= 0 || c.Resources.Limits.Memory().Sign() <= 0 {
				say("%s: resources are not given", at)
			}
			soft := time.Duration(0)
			for _, a := range c.Args {
				if v, ok := strings.CutPrefix(a, "--deadline="); ok {
					soft, _ = time.ParseDuration(v)
				}
			}
			if spec.ActiveDeadlineSeconds != nil && (soft <= 0 || soft+10*time.Minute > time.Duration(*spec.ActiveDeadlineSeconds)*time.Second) {
				say("%s: --deadline is not well before the Job's", at)
			}
			for _, e := range c.EnvFrom {
				if e.ConfigMapRef != nil && !slices.Contains([]string{"swe-sft-jobs", "orchard-settings"}, e.ConfigMapRef.Name) || e.SecretRef != nil && e.SecretRef.Name != "orchard-credentials" {
					say("%s: takes its environment from what nobody makes", at)
				}
			}
			if !slices.ContainsFunc(c.VolumeMounts, func(m core.VolumeMount) bool { return m.MountPath == "/tmp" }) {
				say("%s: nowhere to write", at)
			}
		}
	}
	return bad
}

func TestJobs(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("jobs/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	like := stage(t)
	if like.SecurityContext == nil || like.Container.SecurityContext == nil {
		t.Fatal("the Argo template has no security context")
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range problems(raw, like) {
			t.Errorf("%s: %s", file, text)
		}
	}
}

// Faults in the Jobs are found.
func TestPlantedJobFaults(t *testing.T) {
	t.Parallel()
	like := stage(t)
	raw, err := os.ReadFile("jobs/swe-sft.yaml")
	if err != nil {
		t.Fatal(err)
	}
	before := problems(raw, like)
	for _, fault := range []struct{ name, old, new string }{
		{"unknown field", "backoffLimit: 5", "backofLimit: 5"},
		{"another kind", "kind: Job", "kind: CronJob"},
		{"a fault that is tried again", "[75, 137, 143]", "[65, 75, 137, 143]"},
		{"a stop that is not tried again", "[75, 137, 143]", "[75, 137]"},
		{"no failure policy", "podFailurePolicy: *policy", "suspend: true"},
		{"disruption costs a try", "action: Ignore", "action: Count"},
		{"one bad shard ends the others", "action: FailIndex", "action: FailJob"},
		{"another container", "containerName: main", "containerName: orchard"},
		{"no tries of a shard", "backoffLimitPerIndex: 10", "backoffLimit: 10"},
		{"shards that nobody does", "completions: 4", "completions: 3"},
		{"restarts in place", "restartPolicy: Never", "restartPolicy: OnFailure"},
		{"no deadline", "activeDeadlineSeconds: 86400", "activeDeadlineSeconds: 20000"},
		{"kept for ever", "ttlSecondsAfterFinished: 604800", "suspend: true"},
		{"token", "automountServiceAccountToken: false", "automountServiceAccountToken: true"},
		{"account", "orchard-stage", "default"},
		{"root", "runAsNonRoot: true", "runAsNonRoot: false"},
		{"capabilities", "drop: [ALL]", "drop: [NET_RAW]"},
		{"memory", "limits: {memory: 1Gi}", "limits: {}"},
		{"Secret", "orchard-credentials", "orchard-keys"},
		{"nowhere to write", "mountPath: /tmp", "mountPath: /data"},
		{"deadline of the stage", "--deadline=5h40m", "--deadline=soon"},
	} {
		wrong := strings.ReplaceAll(string(raw), fault.old, fault.new)
		if wrong == string(raw) {
			t.Errorf("%s: %q is nowhere", fault.name, fault.old)
		} else if !slices.ContainsFunc(problems([]byte(wrong), like), func(p string) bool { return !slices.Contains(before, p) }) {
			t.Errorf("%s: not found", fault.name)
		}
	}
}
