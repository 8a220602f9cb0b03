package charts_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"orchard/workflows"
)

const (
	pipelinesFile = "orchard/ci/pipelines-values.yaml"
	nightly       = "nightlyEval.enabled=true,nightlyEval.tasks=examples"
)

// The chart can only take files of its own folder, so it has copies: of every template and
// pipeline, and of nothing else.
func TestCopiesAreFresh(t *testing.T) {
	t.Parallel()
	want, got := files(t, workflows.FS), files(t, os.DirFS("orchard/files/workflows"))
	if len(want) < 2 {
		t.Fatalf("there are %v", slices.Collect(maps.Keys(want)))
	}
	if !maps.Equal(want, got) {
		t.Errorf("the chart has other workflows than workflows/; run `make generate`:\n%s", cmp.Diff(want, got))
	}
}

// files are the pipelines and what they stand on, by path.
func files(t *testing.T, tree fs.FS) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := fs.WalkDir(tree, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(path, "jobs/") {
			return err
		}
		raw, err := fs.ReadFile(tree, path)
		all[path] = string(raw)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// What the chart installs is what is in the files, braces and all.
func TestWorkflowsAreUntouched(t *testing.T) {
	t.Parallel()
	all := render(t, append([]string{"--set", nightly}, store...)...)
	for path, text := range files(t, workflows.FS) {
		raw, err := yaml.YAMLToJSONStrict([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		var want WorkflowTemplate
		if strict, err := strictjson.UnmarshalStrict(raw, &want); err != nil || len(strict) > 0 {
			t.Fatalf("%s: %v, %v", path, err, strict)
		}
		if diff := cmp.Diff(&want, getKey[*WorkflowTemplate](t, all, want.Kind+"/"+want.Name)); diff != "" {
			t.Errorf("%s (-file +chart):\n%s", path, diff)
		}
	}
}

// The night's clock is the user's; a trainer of the user's is left alone; a webhook is a secret.
func TestNightAndTrainer(t *testing.T) {
	t.Parallel()
	all := render(t, "-f", pipelinesFile)
	cron := getKey[*WorkflowTemplate](t, all, "CronWorkflow/nightly-eval").Spec
	if fmt.Sprint(cron["schedules"]) != "[*/30 3 * * 1-5]" || cron["timezone"] != "Europe/Zurich" {
		t.Errorf("its clock is %v in %v", cron["schedules"], cron["timezone"])
	}
	if all["WorkflowTemplate/orchard-trainer"] != nil {
		t.Error("the trainer is the user's, and the chart makes one")
	}
	if got := string(getKey[*core.Secret](t, all, "Secret/orchard-credentials").Data["ORCHARD_WEBHOOK_URL"]); got != "https://chat.example/hooks/not-a-real-one" {
		t.Errorf("the webhook is %q", got)
	}
	plain := render(t, store...)
	if plain["CronWorkflow/nightly-eval"] != nil || plain["WorkflowTemplate/orchard-trainer"] == nil {
		t.Error("a night that nobody asked for, or no trainer")
	}
}

// named is what YAML says of another object.
type named struct{ field, kind string }

// names are the fields by which workflows and Jobs name what is in their namespace.
var names = []named{
	{"serviceAccountName", "ServiceAccount"}, {"configMapRef", "ConfigMap"}, {"configMapKeyRef", "ConfigMap"},
	{"secretRef", "Secret"}, {"secretKeyRef", "Secret"}, {"templateRef", "WorkflowTemplate"}, {"workflowTemplateRef", "WorkflowTemplate"},
}

// references collects what a document names, as kind/name or kind/name/key.
func references(value any, found map[string]bool) {
	switch v := value.(type) {
	case []any:
		for _, e := range v {
			references(e, found)
		}
	case map[string]any:
		for _, n := range names {
			switch of := v[n.field].(type) {
			case string:
				found[n.kind+"/"+of] = true
			case map[string]any:
				key := fmt.Sprintf("%s/%v", n.kind, of["name"])
				if k, ok := of["key"].(string); ok {
					key += "/" + k
				}
				found[key] = true
			}
		}
		for _, e := range v {
			references(e, found)
		}
	}
}

// Everything that pipelines and Jobs name is there, as the chart installs it.
func TestNamesAreThere(t *testing.T) {
	t.Parallel()
	all := render(t, append([]string{"--set", "scriptedModel.enabled=true," + nightly}, store...)...)
	texts := files(t, workflows.FS)
	jobs, err := filepath.Glob("../workflows/jobs/*.yaml")
	if err != nil || len(jobs) == 0 {
		t.Fatalf("Jobs %v, %v", jobs, err)
	}
	for _, path := range jobs {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts[path] = string(raw)
	}
	found := map[string]bool{}
	for path, text := range texts {
		var doc struct {
			Items []any
			Spec  any
		}
		if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		own := map[string]bool{}
		references([]any{doc.Items, doc.Spec}, own)
		for _, item := range doc.Items {
			head := item.(map[string]any)
			delete(own, fmt.Sprintf("%v/%v", head["kind"], head["metadata"].(map[string]any)["name"]))
		}
		maps.Copy(found, own)
	}
	for _, want := range []string{"ServiceAccount/orchard-stage", "ServiceAccount/orchard-executor", "ConfigMap/orchard-settings", "Secret/orchard-credentials",
		"ConfigMap/orchard-parameters/image", "ConfigMap/orchard-parameters/out", "ConfigMap/orchard-parameters/nightly-tasks",
		"WorkflowTemplate/orchard-stages-v1", "WorkflowTemplate/orchard-trainer", "WorkflowTemplate/swe-eval"} {
		if !found[want] {
			t.Errorf("no workflow names %s; they name %v", want, slices.Sorted(maps.Keys(found)))
		}
	}
	for name := range found {
		parts := strings.SplitN(name, "/", 3)
		object := all[strings.Join(parts[:2], "/")]
		if object == nil {
			t.Errorf("the chart makes no %s", name)
			continue
		}
		if c, ok := object.(*core.ConfigMap); ok && len(parts) == 3 && c.Data[parts[2]] == "" {
			t.Errorf("ConfigMap %s has no %s", parts[1], parts[2])
		}
	}
}

// What stages are told is what the rest of the release is.
func TestSettings(t *testing.T) {
	t.Parallel()
	all := render(t, "-f", pipelinesFile)
	want := map[string]string{
		"SANDBOX_BASE_URL": "http://rel-orchard-controller.orchard.svc:8000", "OPENAI_BASE_URL": "http://rel-orchard-scripted.orchard.svc:8010/v1",
		"ORCHARD_LLM_MODEL": "scripted", "ORCHARD_DEFAULT_IMAGE": "registry.example/orchard/toolchain:go1.26",
		"AWS_ENDPOINT_URL_S3": "https://minio.example:9000", "AWS_REGION": "eu-central-1", "ORCHARD_S3_ADDRESSING": "path",
	}
	if diff := cmp.Diff(want, getKey[*core.ConfigMap](t, all, "ConfigMap/orchard-settings").Data); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
	want = map[string]string{"image": "registry.example/orchard/stage@sha256:" + strings.Repeat("3", 64), "out": "s3://training/teams/swe", "nightly-tasks": "s3://training/teams/swe/nightly.jsonl"}
	if diff := cmp.Diff(want, getKey[*core.ConfigMap](t, all, "ConfigMap/orchard-parameters").Data); diff != "" {
		t.Errorf("parameters (-want +got):\n%s", diff)
	}
	var repository map[string]any
	if err := yaml.UnmarshalStrict([]byte(getKey[*core.ConfigMap](t, all, "ConfigMap/artifact-repositories").Data["orchard"]), &repository); err != nil {
		t.Fatal(err)
	}
	s3, _ := json.Marshal(repository["s3"])
	if got, want := string(s3), `{"accessKeySecret":{"key":"AWS_ACCESS_KEY_ID","name":"orchard-credentials"},"bucket":"training","endpoint":"minio.example:9000","insecure":false,"keyFormat":"teams/swe/artifacts/{{workflow.name}}/{{pod.name}}","region":"eu-central-1","secretKeySecret":{"key":"AWS_SECRET_ACCESS_KEY","name":"orchard-credentials"}}`; got != want {
		t.Errorf("artifacts go to %s\nwant %s", got, want)
	}
	dep := getKey[*apps.Deployment](t, all, "Deployment/rel-orchard-scripted").Spec.Template.Spec.Containers[0]
	if want := []string{"llm", "scripted", "--follow", "--tasks=s3://training/teams/swe/tasks", "--listen=0.0.0.0:8010"}; !slices.Equal(dep.Args, want) {
		t.Errorf("the scripted model runs with %q, want %q", dep.Args, want)
	}
	// The least that can be said: AWS, no model, a tag.
	least := render(t, append([]string{"--set", "toolchainImage.repository="}, store...)...)
	if diff := cmp.Diff(map[string]string{"SANDBOX_BASE_URL": "http://rel-orchard-controller.orchard.svc:8000"}, getKey[*core.ConfigMap](t, least, "ConfigMap/orchard-settings").Data); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
	if got := getKey[*core.ConfigMap](t, least, "ConfigMap/orchard-parameters").Data["out"]; got != "s3://b-1" {
		t.Errorf("out is %s", got)
	}
	// A model of the user's wins over the scripted one.
	model := render(t, append([]string{"--set", "scriptedModel.enabled=true,model.url=http://m/v1"}, store...)...)
	if data := getKey[*core.ConfigMap](t, model, "ConfigMap/orchard-settings").Data; data["OPENAI_BASE_URL"] != "http://m/v1" || data["ORCHARD_LLM_MODEL"] != "" {
		t.Errorf("settings %v", data)
	}
}

// Stages are given the release's own key, or the one that is said; a Secret of the user's stays so.
func TestCredentials(t *testing.T) {
	t.Parallel()
	all := render(t, append([]string{"--set", "credentials.openaiApiKey=sk"}, store...)...)
	keys, given := get[*core.Secret](t, all).Data, getKey[*core.Secret](t, all, "Secret/orchard-credentials").Data
	want := map[string][]byte{"AWS_ACCESS_KEY_ID": []byte("id"), "AWS_SECRET_ACCESS_KEY": []byte("secret"), "OPENAI_API_KEY": []byte("sk"), "SANDBOX_API_KEY": keys["api-keys"]}
	if diff := cmp.Diff(want, given); diff != "" {
		t.Errorf("credentials (-want +got):\n%s", diff)
	}
	own := render(t, append([]string{"--set", "keys.existingSecret=mine,credentials.sandboxApiKey=theirs"}, store...)...)
	if got := getKey[*core.Secret](t, own, "Secret/orchard-credentials").Data["SANDBOX_API_KEY"]; !bytes.Equal(got, []byte("theirs")) {
		t.Errorf("the stages' key is %q", got)
	}
	managed := render(t, "-f", "orchard/ci/managed-values.yaml")
	if managed["Secret/orchard-credentials"] != nil || managed["WorkflowTemplate/swe-sft"] == nil {
		t.Error("the Secret is the user's, and the chart makes one; or there are no pipelines")
	}
}

// What is installed, by what there is and what is wanted.
func TestWhatIsInstalled(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args              []string
		stages, workflows bool
	}{
		"nothing":             {nil, false, false},
		"Argo alone":          {[]string{withArgo}, false, false},
		"store alone":         {store, true, false},
		"both":                {append([]string{withArgo}, store...), true, true},
		"both, wanted":        {append([]string{withArgo, "--set", "workflows.enabled=true"}, store...), true, true},
		"both, not wanted":    {append([]string{withArgo, "--set", "workflows.enabled=false"}, store...), true, false},
		"others of that name": {append([]string{"--api-versions=argoproj.io/v1alpha1", "--api-versions=argoproj.io/v1alpha1/Rollout"}, store...), true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, errs, err := template(t.Context(), t, c.args...)
			if err != nil {
				t.Fatalf("%v\n%s", err, errs)
			}
			for _, object := range []string{"name: orchard-settings", "name: orchard-parameters", "name: orchard-stage\n", "kind: NetworkPolicy\nmetadata:\n  name: orchard-stage"} {
				if got := strings.Contains(out, object); got != c.stages {
					t.Errorf("%q: %t, want %t", object, got, c.stages)
				}
			}
			for _, object := range []string{"kind: WorkflowTemplate", "name: artifact-repositories", "name: orchard-executor", "workflow-check"} {
				if got := strings.Contains(out, object); got != c.workflows {
					t.Errorf("%q: %t, want %t", object, got, c.workflows)
				}
			}
		})
	}
}

// Nobody calls a stage, stages alone call the scripted model, and neither reaches what hands
// out the credentials of machines; closed, just what is listed.
func TestStagesNetwork(t *testing.T) {
	t.Parallel()
	stage := labels.Set{"app.kubernetes.io/part-of": "orchard", "app.kubernetes.io/component": "stage"}
	open := render(t, append([]string{"--set", "scriptedModel.enabled=true"}, store...)...)
	np := getKey[*networking.NetworkPolicy](t, open, "NetworkPolicy/orchard-stage").Spec
	if !labels.Set(np.PodSelector.MatchLabels).AsSelector().Matches(stage) || len(np.PolicyTypes) != 2 || len(np.Ingress) > 0 {
		t.Errorf("the policy of stages is %+v", np)
	}
	var blocked []string
	for _, rule := range np.Egress {
		for _, to := range rule.To {
			if to.IPBlock != nil {
				blocked = append(blocked, to.IPBlock.Except...)
			}
		}
	}
	for _, want := range []string{"169.254.0.0/16", "fd00:ec2::254/128"} {
		if !slices.Contains(blocked, want) {
			t.Errorf("%s is open; closed are %v", want, blocked)
		}
	}
	const scripted = "/rel-orchard-scripted"
	model := getKey[*networking.NetworkPolicy](t, open, "NetworkPolicy"+scripted).Spec
	pods := labels.Set(getKey[*apps.Deployment](t, open, "Deployment"+scripted).Spec.Template.Labels)
	for what, selector := range map[string]labels.Set{"policy": model.PodSelector.MatchLabels, "Service": getKey[*core.Service](t, open, "Service"+scripted).Spec.Selector,
		"Deployment": getKey[*apps.Deployment](t, open, "Deployment"+scripted).Spec.Selector.MatchLabels} {
		if !selector.AsSelector().Matches(pods) || selector.AsSelector().Matches(stage) {
			t.Errorf("the scripted model's %s selects %v, its Pods are %v", what, selector, pods)
		}
	}
	if labels.Set(np.PodSelector.MatchLabels).AsSelector().Matches(pods) || labels.Set(get[*apps.Deployment](t, open).Spec.Selector.MatchLabels).AsSelector().Matches(pods) {
		t.Error("the scripted model is taken for a stage or a controller")
	}
	if len(model.Ingress) != 1 || len(model.Ingress[0].From) != 1 || !maps.Equal(labels.Set(model.Ingress[0].From[0].PodSelector.MatchLabels), stage) || !cmp.Equal(model.Egress, np.Egress) {
		t.Errorf("the scripted model's policy is %+v", model)
	}
	closed := getKey[*networking.NetworkPolicy](t, render(t, "-f", pipelinesFile), "NetworkPolicy/orchard-stage").Spec.Egress
	var to []string
	for _, rule := range closed[1:] { // the first is names
		for _, peer := range rule.To {
			switch {
			case peer.IPBlock != nil:
				to = append(to, fmt.Sprint(peer.IPBlock.CIDR, ":", rule.Ports[0].Port))
			default:
				to = append(to, peer.PodSelector.MatchLabels["app.kubernetes.io/component"])
			}
		}
	}
	if want := []string{"controller", "scripted", "203.0.113.10/32:9000", "198.51.100.1/32:443"}; !slices.Equal(to, want) {
		t.Errorf("closed, stages reach %v, want %v", to, want)
	}
	if off := render(t, append([]string{"--set", "stages.networkPolicy.enabled=false"}, store...)...); off["NetworkPolicy/orchard-stage"] != nil {
		t.Error("it is off, and made")
	}
}

// The stages' accounts have no token of their own but the executor's.
func TestAccounts(t *testing.T) {
	t.Parallel()
	all := render(t, "-f", pipelinesFile)
	for _, name := range []string{"orchard-stage", "orchard-executor"} {
		account := getKey[*core.ServiceAccount](t, all, "ServiceAccount/"+name)
		if account.AutomountServiceAccountToken == nil || *account.AutomountServiceAccountToken {
			t.Errorf("%s mounts its token", name)
		}
	}
	if got := getKey[*core.ServiceAccount](t, all, "ServiceAccount/orchard-stage").ImagePullSecrets; len(got) != 1 || got[0].Name != "registry" {
		t.Errorf("stages pull with %v", got)
	}
	token := getKey[*core.Secret](t, all, "Secret/orchard-executor.service-account-token")
	if token.Type != core.SecretTypeServiceAccountToken || token.Annotations[core.ServiceAccountNameKey] != "orchard-executor" {
		t.Errorf("the token's Secret is %+v", token)
	}
	spec := getKey[*apps.Deployment](t, all, "Deployment/rel-orchard-scripted").Spec.Template.Spec
	if spec.AutomountServiceAccountToken == nil || *spec.AutomountServiceAccountToken {
		t.Error("the scripted model mounts a token")
	}
}
