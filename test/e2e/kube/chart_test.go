package kube_test

import (
	"context"
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Helm runs helm on the release that the tests run against.
func Helm(t testing.TB, args ...string) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 3*time.Minute)
	defer stop()
	if out, err := exec.CommandContext(ctx, "helm", append(args, "-n", namespace)...).CombinedOutput(); err != nil {
		t.Fatalf("helm %v: %v\n%s", args, err, out)
	}
}

// `helm test` makes a sandbox with the release's own rights, as users are told to try first.
func TestHelmTest(t *testing.T) {
	t.Parallel()
	Helm(t, "test", release, "--logs", "--timeout", "2m")
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
	Helm(t, "upgrade", release, "../../../charts/orchard", "--reuse-values", "--set-string", fmt.Sprintf("podAnnotations.upgraded=at-%d", time.Now().UnixNano()), "--wait", "--timeout", "2m")
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
