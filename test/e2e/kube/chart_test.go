package kube_test

import (
	"context"
	"os/exec"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	Helm(t, "test", release, "--logs", "--timeout", "2m")
}

// An upgrade keeps the keys: other ones would lock the controllers out of what runs.
func TestUpgradeKeepsKeys(t *testing.T) {
	keys := func() map[string][]byte {
		t.Helper()
		list, err := API(t).CoreV1().Secrets(namespace).List(t.Context(), meta.ListOptions{LabelSelector: component + "controller"})
		if err != nil || len(list.Items) != 1 {
			t.Fatalf("%d Secrets: %v", len(list.Items), err)
		}
		return list.Items[0].Data
	}
	before := keys()
	Helm(t, "upgrade", release, "../../../charts/orchard", "--reuse-values", "--set-string", "podAnnotations.upgraded=yes", "--wait", "--timeout", "2m")
	if diff := cmp.Diff(before, keys()); diff != "" {
		t.Error("an upgrade without new values made other keys")
	}
}
