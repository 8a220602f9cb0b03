package charts_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// chartWithNotes is the chart with its notes in a ConfigMap: `helm template` leaves them out, and
// whatever shows them asks a cluster.
func chartWithNotes(t *testing.T) string {
	t.Helper()
	chart := filepath.Join(t.TempDir(), "orchard")
	if err := os.CopyFS(chart, os.DirFS("orchard")); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("orchard/templates/NOTES.txt")
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"_notes.tpl": `{{ define "notes" }}` + string(text) + "{{ end }}",
		"notes.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: notes}\ndata:\n  text: {{ include \"notes\" . | quote }}\n",
	} {
		if err := os.WriteFile(filepath.Join(chart, "templates", name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return chart
}

// notes are what an install of chart says.
func notes(t *testing.T, chart string, args ...string) string {
	t.Helper()
	out, errs, err := runHelm(t.Context(), t, append([]string{"template", "rel", chart, "-n", namespace, "--show-only", "templates/notes.yaml"}, args...)...)
	if err != nil {
		t.Fatalf("%v\n%s", err, errs)
	}
	var held core.ConfigMap
	if err := yaml.Unmarshal([]byte(out), &held); err != nil {
		t.Fatal(err)
	}
	return held.Data["text"]
}

// The notes have the commands to go on with, the real names in them, and warn of what is not safe.
func TestNotes(t *testing.T) {
	t.Parallel()
	chart := chartWithNotes(t)
	for name, c := range map[string]struct {
		args      []string
		says, not []string
	}{
		"default": {nil, []string{"helm test rel -n orchard", "kubectl get secret rel-orchard-keys -n orchard", "NOTE: this is the sandbox service alone: the pipelines need an object store for their datasets, any S3 service, and Argo Workflows",
			"--set s3.endpoint=URL,s3.bucket=BUCKET"}, []string{"WARNING", "argo submit"}},
		"not wanted": {[]string{"--set", "workflows.enabled=false"}, nil, []string{"NOTE", "WARNING"}},
		"pipelines": {[]string{"-f", pipelinesFile, withArgo}, []string{"run a short Workflow, make a sandbox", "argo submit -n orchard --from workflowtemplate/swe-sft -p tasks=examples\n", "argo watch -n orchard @latest",
			"  AWS_ENDPOINT_URL_S3=https://minio.example:9000 AWS_REGION=eu-central-1 orchard dataset pull s3://training/teams/swe/sft --out sft\n", "knows the answers"}, []string{"NOTE", "not-a-real"}},
		"no Argo": {store, []string{"NOTE: the pipelines are not installed, for the cluster has no Argo Workflows", "Stages read and write s3://b-1", "NOTE: no model server is named"}, []string{"argo submit"}},
		"unsafe": {append([]string{"--set", "s3.endpoint=http://minio:9000,scriptedModel.enabled=true,stages.networkPolicy.enabled=false,sandbox.podSecurity=privileged,replicas=1"}, store...),
			[]string{"s3.endpoint is http://", "knows the answers", "stages.networkPolicy.enabled is false", "podSecurity is privileged", "with one replica"}, []string{"no model server"}},
		"managed": {[]string{"-f", "orchard/ci/managed-values.yaml"}, []string{"a Secret of yours, orchard-credentials", "kubectl get secret orchard -n orchard"}, []string{"WARNING", "no model server"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := notes(t, chart, c.args...)
			for _, want := range c.says {
				if !strings.Contains(got, want) {
					t.Errorf("%q is not in\n%s", want, got)
				}
			}
			for _, no := range c.not {
				if strings.Contains(got, no) {
					t.Errorf("%q is in\n%s", no, got)
				}
			}
		})
	}
}
