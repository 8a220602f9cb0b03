package kube_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbac "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orchard/internal/seal"
)

// Second is a release beside the one that the tests run against, so that its rights can be
// taken away and itself removed. Its namespace and that of its sandboxes are its own.
type Second struct {
	Namespace, Sandboxes, Name string
}

// NewSecond installs a release with the values of the first, but small.
func NewSecond(t testing.TB) Second {
	t.Helper()
	if !strings.HasPrefix(t.Name(), "TestSecond") {
		t.Fatal("tests with a release of their own are named TestSecond…")
	}
	s := Second{Namespace: Namespace(t), Name: "second-" + seal.Random(2)}
	s.Sandboxes = s.Namespace + "-boxes"
	values, err := HelmIn(t, namespace, "get", "values", release, "--output", "yaml")
	if err != nil {
		t.Fatalf("%v\n%s", err, values)
	}
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := HelmIn(t, s.Namespace, "install", s.Name, chart, "--wait", "--timeout", "2m", "-f", file,
		"--set", "replicas=1,egress.enabled=false,sandbox.namespace="+s.Sandboxes); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Cleanup(func() {
		// Not the test's context, which is over.
		out, err := exec.Command("helm", "uninstall", s.Name, "-n", s.Namespace, "--ignore-not-found", "--wait", "--timeout", "2m").CombinedOutput()
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
	return s
}

// Test runs `helm test`: all checks, or one.
func (s Second) Test(t testing.TB, only ...string) (string, error) {
	t.Helper()
	args := []string{"test", s.Name, "--hide-notes", "--timeout", "2m30s"}
	for _, name := range only {
		args = append(args, "--filter", "name="+s.Name+"-orchard-"+name)
	}
	return HelmIn(t, s.Namespace, args...)
}

// without takes a verb away from one rule of a Role, runs do and gives it back.
func without(t testing.TB, namespace, role string, rule int, verb string, do func()) {
	t.Helper()
	roles := API(t).RbacV1().Roles(namespace)
	set := func(rules []rbac.PolicyRule) {
		t.Helper()
		r, err := roles.Get(t.Context(), role, meta.GetOptions{})
		if err == nil {
			r.Rules = rules
			_, err = roles.Update(t.Context(), r, meta.UpdateOptions{})
		}
		if err != nil {
			t.Fatalf("Role %s: %v", role, err)
		}
	}
	r, err := roles.Get(t.Context(), role, meta.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	less := slices.Clone(r.Rules)
	less[rule].Verbs = slices.DeleteFunc(slices.Clone(less[rule].Verbs), func(v string) bool { return v == verb })
	if len(less[rule].Verbs) == 0 {
		less = slices.Delete(less, rule, rule+1)
	}
	set(less)
	do()
	set(r.Rules)
}

// `helm test` names the right that is missing: one of each Role that sandboxes and stages need;
// in the soak each verb of both Roles in turn.
func TestSecondHelmTestNamesMissingRight(t *testing.T) {
	t.Parallel()
	s, all := NewSecond(t), soak
	for _, c := range []struct{ namespace, role, check, verb, resource string }{
		{s.Sandboxes, s.Name + "-orchard-controller", "check", "create", "pods"},
		{s.Namespace, "orchard-executor", "workflow-check", "patch", "workflowtaskresults"},
	} {
		role, err := API(t).RbacV1().Roles(c.namespace).Get(t.Context(), c.role, meta.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		tried := 0
		for i, rule := range role.Rules {
			for _, verb := range rule.Verbs {
				if !all && (verb != c.verb || rule.Resources[0] != c.resource) {
					continue
				}
				tried++
				without(t, c.namespace, c.role, i, verb, func() {
					out, err := s.Test(t, c.check)
					want := fmt.Sprintf("may not %s %s;", verb, rule.Resources[0])
					if err == nil || !strings.Contains(out, want) || !strings.Contains(out, "must grant") {
						t.Errorf("without %s of %v in Role %s: %v, want %q in\n%s", verb, rule.Resources, c.role, err, want, out)
					}
				})
			}
		}
		if tried == 0 {
			t.Errorf("Role %s has no %s of %s: %v", c.role, c.verb, c.resource, role.Rules)
		}
		if out, err := s.Test(t, c.check); err != nil {
			t.Errorf("with every right: %v\n%s", err, out)
		}
	}
}

// Other causes are named too: the Secret with the executor's token, the image of the stages.
func TestSecondHelmTestNamesOtherCauses(t *testing.T) {
	if !soak {
		t.Skip("takes minutes; `make soak` runs it")
	}
	t.Parallel()
	s := NewSecond(t)
	const token = "orchard-executor.service-account-token"
	if err := API(t).CoreV1().Secrets(s.Namespace).Delete(t.Context(), token, meta.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if out, err := s.Test(t, "workflow-check"); err == nil || !strings.Contains(out, "a Secret is missing") || !strings.Contains(out, token) {
		t.Errorf("without the Secret: %v\n%s", err, out)
	}
	if out, err := HelmIn(t, s.Namespace, "upgrade", s.Name, chart, "--reuse-values", "--set", "stageImage.tag=absent", "--wait=false"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := s.Test(t, "workflow-check"); err == nil || !strings.Contains(out, "the image of the stages, or Argo's own, cannot be had") || !strings.Contains(out, "stage:absent") {
		t.Errorf("without the image: %v\n%s", err, out)
	}
}

// kubectl is what kubectl prints, by words.
func kubectl(ctx context.Context, args ...string) ([]string, error) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, "kubectl", args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("kubectl %v: %w: %s", args, err, errs.String())
	}
	return strings.Fields(out.String()), nil
}

// left is all that there is of every kind, in a namespace or in none, but for what is in every namespace
// and what only tells of others.
func left(ctx context.Context, namespaced bool, args ...string) ([]string, error) {
	kinds, err := kubectl(ctx, "api-resources", "--verbs=list", fmt.Sprintf("--namespaced=%t", namespaced), "--output=name")
	if err != nil {
		return nil, err
	}
	kinds = slices.DeleteFunc(kinds, func(k string) bool {
		return strings.HasPrefix(k, "events") || strings.HasPrefix(k, "componentstatuses")
	})
	found, err := kubectl(ctx, append([]string{"get", strings.Join(kinds, ","), "--ignore-not-found", "--output=name"}, args...)...)
	return slices.DeleteFunc(found, func(name string) bool {
		return name == "serviceaccount/default" || name == "configmap/kube-root-ca.crt"
	}), err
}

// After an install, a test, an upgrade and an uninstall nothing is left: not in the release's
// namespace, not in the cluster, and no sandboxes' namespace.
func TestSecondUninstallLeavesNothing(t *testing.T) {
	t.Parallel()
	s := NewSecond(t)
	if out, err := s.Test(t); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	secret := func(name string) map[string][]byte {
		t.Helper()
		got, err := API(t).CoreV1().Secrets(s.Namespace).Get(t.Context(), name, meta.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return got.Data
	}
	keys, token := secret(s.Name + "-orchard-keys")["api-keys"], secret("orchard-executor.service-account-token")["token"]
	// In the namespace, and in the cluster: those of the sandboxes' namespace and of the right to see nodes.
	inside := func(ctx context.Context) ([]string, error) { return left(ctx, true, "-n", s.Namespace) }
	outside := func(ctx context.Context) ([]string, error) {
		return left(ctx, false, "-l", "app.kubernetes.io/instance="+s.Name)
	}
	for _, look := range []func(context.Context) ([]string, error){inside, outside} {
		if seen, err := look(t.Context()); err != nil || len(seen) < 3 {
			t.Fatalf("what is looked for cannot be seen, only %v: %v", seen, err)
		}
	}
	if out, err := HelmIn(t, s.Namespace, "upgrade", s.Name, chart, "--reuse-values", "--set-string", "podAnnotations.upgraded=yes", "--wait", "--timeout", "2m"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if given := secret("orchard-credentials")["SANDBOX_API_KEY"]; !bytes.Equal(given, keys) || !bytes.Equal(secret(s.Name + "-orchard-keys")["api-keys"], keys) {
		t.Error("an upgrade gave the stages another key, or made one")
	}
	if !bytes.Equal(secret("orchard-executor.service-account-token")["token"], token) || len(token) == 0 {
		t.Error("an upgrade took the executor's token away")
	}
	if out, err := s.Test(t); err != nil {
		t.Errorf("after the upgrade: %v\n%s", err, out)
	}
	if out, err := HelmIn(t, s.Namespace, "uninstall", s.Name, "--wait", "--timeout", "2m"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	Eventually(t, "nothing left of "+s.Name, func(ctx context.Context) string {
		if _, err := API(t).CoreV1().Namespaces().Get(ctx, s.Sandboxes, meta.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Sprintf("namespace %s: %v", s.Sandboxes, err)
		}
		for _, look := range []func(context.Context) ([]string, error){inside, outside} {
			if seen, err := look(ctx); err != nil || len(seen) > 0 {
				return fmt.Sprint(seen, err)
			}
		}
		return ""
	})
}
