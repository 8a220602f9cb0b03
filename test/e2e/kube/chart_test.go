package kube_test

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Helm runs helm on the release that the tests run against.
func Helm(t testing.TB, args ...string) {
	t.Helper()
	if out, err := HelmIn(t, namespace, args...); err != nil {
		t.Fatalf("helm %v: %v\n%s", args, err, out)
	}
}

// HelmIn runs helm in a namespace, and is what it says.
func HelmIn(t testing.TB, namespace string, args ...string) (string, error) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 3*time.Minute)
	defer stop()
	out, err := exec.CommandContext(ctx, "helm", append(args, "-n", namespace)...).CombinedOutput()
	return string(out), err
}

// chart is where the chart is.
const chart = "../../../charts/orchard"

// `helm test` makes a sandbox with the release's own rights and runs a Workflow with those of
// its stages, as users are told to try first.
func TestHelmTest(t *testing.T) {
	t.Parallel()
	out, err := HelmIn(t, namespace, "test", release, "--hide-notes", "--timeout", "2m30s")
	for _, want := range []string{"ok: orchard-agent", "ok: Argo ran a Workflow in "} {
		if err != nil || !strings.Contains(out, want) {
			t.Fatalf("%v, want %q in\n%s", err, want, out)
		}
	}
}

// Upgrade replaces every controller, as an upgrade with new values does, and waits until that is
// done. It keeps the keys: other ones would lock the controllers out of what runs.
func Upgrade(t testing.TB) {
	t.Helper()
	keys := func() map[string][]byte {
		t.Helper()
		list, err := API(t).CoreV1().Secrets(namespace).List(t.Context(), meta.ListOptions{LabelSelector: component + "controller"})
		if err != nil || len(list.Items) != 1 {
			t.Fatalf("%d Secrets: %v", len(list.Items), err)
		}
		return list.Items[0].Data
	}
	before, old := keys(), map[types.UID]bool{}
	for _, p := range controllerPods(t.Context(), t) {
		old[p.UID] = true
	}
	Helm(t, "upgrade", release, chart, "--reuse-values", "--set-string", fmt.Sprintf("podAnnotations.upgraded=at-%d", time.Now().UnixNano()), "--wait", "--timeout", "2m")
	AllReady(t)
	for _, p := range controllerPods(t.Context(), t) {
		if old[p.UID] {
			t.Errorf("Pod %s is there after the upgrade", p.Name)
		}
	}
	if diff := cmp.Diff(before, keys()); diff != "" {
		t.Error("an upgrade without new keys made other ones")
	}
}
