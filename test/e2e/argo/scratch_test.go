package argo_test

import (
	"context"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
)

// scratch is a namespace of its own that has what the chart gives the release's for pipelines,
// but for what a test leaves out or changes, and that lets in no Pod that is not restricted.
// change is given each object, by kind/name, and returns false for one that is to be missing.
func scratch(t testing.TB, change func(what string, o map[string]any) bool) string {
	t.Helper()
	ns := unique(t)
	t.Cleanup(func() { kubectl(t, "delete", "namespace", ns, "--ignore-not-found", "--wait=false") })
	items := []any{map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{
		"name": ns, "labels": map[string]any{"pod-security.kubernetes.io/enforce": "restricted"}}}}
	for _, what := range []string{
		"serviceaccount/orchard-stage", "serviceaccount/orchard-executor", "secret/orchard-executor.service-account-token",
		"role/orchard-executor", "rolebinding/orchard-executor", "configmap/orchard-settings", "configmap/orchard-parameters",
		"configmap/artifact-repositories", "secret/orchard-credentials", "workflowtemplate/orchard-stages-v1", "workflowtemplate/swe-sft",
	} {
		var o map[string]any
		if err := object(namespace, what, &o); err != nil {
			t.Fatal(err)
		}
		old := o["metadata"].(map[string]any)
		fresh := map[string]any{"name": old["name"], "namespace": ns, "annotations": map[string]any{}}
		for _, key := range []string{"workflows.argoproj.io/configmap-type"} {
			if labels, ok := old["labels"].(map[string]any); ok && labels[key] != nil {
				fresh["labels"] = map[string]any{key: labels[key]}
			}
		}
		for _, key := range []string{"kubernetes.io/service-account.name", "workflows.argoproj.io/default-artifact-repository"} {
			if a, ok := old["annotations"].(map[string]any); ok && a[key] != nil {
				fresh["annotations"] = map[string]any{key: a[key]}
			}
		}
		o["metadata"] = fresh
		switch what {
		case "secret/orchard-executor.service-account-token":
			delete(o, "data")
		case "rolebinding/orchard-executor":
			for _, s := range o["subjects"].([]any) {
				s.(map[string]any)["namespace"] = ns
			}
		}
		if change == nil || change(what, o) {
			items = append(items, o)
		}
	}
	apply(t, map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	return ns
}

// apply gives kubectl objects.
func apply(t testing.TB, o any) {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.Background(), "kubectl", "apply", "-f", "-")
	cmd.Stdin = strings.NewReader(string(text))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("kubectl apply: %v: %s", err, out)
	}
}
