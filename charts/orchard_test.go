// Package charts_test renders the chart with helm itself, as its users do, and reads what
// comes out with the types of the API server, which know every field's name.
package charts_test

import (
	"bytes"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v2"
	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	rbac "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"

	"orchard/agent/wire"
	"orchard/internal/buildinfo"
	"orchard/internal/sandbox/control/command"
)

// variants are the values that the chart is tried with.
func variants(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("orchard/ci/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("variants %v, %v; want at least 3", files, err)
	}
	return files
}

// Whatever is chosen: Pods that the restricted Pod Security level takes, selectors that
// find just what they are for, and rights that end at the sandbox namespace.
func TestEveryVariantHolds(t *testing.T) {
	t.Parallel()
	for _, file := range variants(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			all := render(t, "-f", file)
			dep, check := get[*apps.Deployment](t, all), get[*batch.Job](t, all).Spec.Template
			for name, spec := range podSpecs(all) {
				checkPod(t, name, spec)
			}
			pods := labels.Set(dep.Spec.Template.Labels)
			selectors := map[string]labels.Set{"Deployment": dep.Spec.Selector.MatchLabels, "Service": get[*core.Service](t, all).Spec.Selector}
			if pdb, ok := all["PodDisruptionBudget"].(*policy.PodDisruptionBudget); ok {
				selectors["PodDisruptionBudget"] = pdb.Spec.Selector.MatchLabels
			}
			for kind, selector := range selectors {
				if !selector.AsSelector().Matches(pods) || selector.AsSelector().Matches(labels.Set(check.Labels)) {
					t.Errorf("%s selects %v, which must be the controllers %v and not the check %v", kind, selector, pods, check.Labels)
				}
				want := []string{"app.kubernetes.io/component", "app.kubernetes.io/instance", "app.kubernetes.io/name"}
				if got := slices.Sorted(maps.Keys(selector)); !slices.Equal(got, want) {
					t.Errorf("%s selects by %v, want %v: anything else changes between versions", kind, got, want)
				}
			}
			role, binding := get[*rbac.Role](t, all), get[*rbac.RoleBinding](t, all)
			subject := []rbac.Subject{{Kind: "ServiceAccount", Name: dep.Spec.Template.Spec.ServiceAccountName, Namespace: namespace}}
			if binding.Namespace != role.Namespace || binding.RoleRef.Name != role.Name || !cmp.Equal(binding.Subjects, subject) {
				t.Errorf("RoleBinding %s/%s of %s to %v, want %s/%s to %v", binding.Namespace, binding.Name, binding.RoleRef.Name, binding.Subjects, role.Namespace, role.Name, subject)
			}
			if env := environ(dep.Spec.Template.Spec.Containers[0]); env["SANDBOX_NAMESPACE"] != role.Namespace {
				t.Errorf("sandboxes go to %s and the rights are in %s", env["SANDBOX_NAMESPACE"], role.Namespace)
			}
			checkEnviron(t, dep.Spec.Template.Spec, check.Spec)
			checkNetwork(t, get[*networking.NetworkPolicy](t, all), role.Namespace, pods, labels.Set(check.Labels))
		})
	}
}

// checkEnviron: every variable is one that the program reads, and it has time to drain.
func checkEnviron(t *testing.T, controller, check core.PodSpec) {
	t.Helper()
	var known []string
	for _, flag := range command.App(io.Discard, io.Discard).Flags {
		if f, ok := flag.(cli.DocGenerationFlag); ok {
			known = append(known, f.GetEnvVars()...)
		}
	}
	env := environ(controller.Containers[0])
	for name := range env {
		if !slices.Contains(known, name) {
			t.Errorf("orchard-controller reads no variable %s", name)
		}
	}
	for name, value := range environ(check.Containers[0]) {
		if env[name] != value {
			t.Errorf("the check has %s=%q, the controllers %q", name, value, env[name])
		}
	}
	need := int64(0)
	for _, name := range []string{"DRAIN_SECONDS", "DRAIN_DELAY_SECONDS"} {
		n, err := strconv.ParseInt(env[name], 10, 64)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		need += n
	}
	if grace := *controller.TerminationGracePeriodSeconds; grace <= need {
		t.Errorf("terminationGracePeriodSeconds is %d, and it drains for %d", grace, need)
	}
}

func environ(c core.Container) map[string]string {
	env := map[string]string{}
	for _, e := range c.Env {
		env[e.Name] = e.Value
	}
	return env
}

// checkPod is the restricted level of the Pod Security Standards and a read-only root.
func checkPod(t *testing.T, name string, spec core.PodSpec) {
	t.Helper()
	pod := spec.SecurityContext
	if pod == nil || pod.RunAsNonRoot == nil || !*pod.RunAsNonRoot || pod.SeccompProfile == nil || pod.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault {
		t.Errorf("%s: the Pod's security context is %+v", name, pod)
	}
	if spec.HostNetwork || spec.HostPID || spec.HostIPC {
		t.Errorf("%s: it shares the node's namespaces", name)
	}
	for _, c := range append(spec.InitContainers, spec.Containers...) {
		s := c.SecurityContext
		if s == nil || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem ||
			s.Capabilities == nil || !slices.Equal(s.Capabilities.Drop, []core.Capability{"ALL"}) || len(s.Capabilities.Add) > 0 || s.Privileged != nil {
			t.Errorf("%s: the container's security context is %+v", name, s)
		}
		if c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() || c.Resources.Limits.Memory().IsZero() {
			t.Errorf("%s: resources are %+v", name, c.Resources)
		}
	}
}

// checkNetwork: nothing out, and in only controllers and the check, to the agent.
func checkNetwork(t *testing.T, np *networking.NetworkPolicy, sandboxes string, may ...labels.Set) {
	t.Helper()
	if np.Namespace != sandboxes || len(np.Spec.PodSelector.MatchLabels)+len(np.Spec.PodSelector.MatchExpressions) > 0 ||
		!slices.Equal(np.Spec.PolicyTypes, []networking.PolicyType{"Ingress", "Egress"}) || len(np.Spec.Egress) > 0 || len(np.Spec.Ingress) != 1 {
		t.Fatalf("the policy in %s is not closed: %+v", np.Namespace, np.Spec)
	}
	in := np.Spec.Ingress[0]
	if len(in.Ports) != 1 || in.Ports[0].Port.IntValue() != 9090 || len(in.From) != len(may) {
		t.Errorf("it lets in %+v", in)
	}
	for i, from := range in.From {
		if from.IPBlock != nil || from.NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"] != namespace || !labels.Set(from.PodSelector.MatchLabels).AsSelector().Matches(may[i]) {
			t.Errorf("it lets in %+v, want %v", from, may[i])
		}
	}
}

// The keys that are made are good, and nobody else's.
func TestKeys(t *testing.T) {
	t.Parallel()
	one, two := get[*core.Secret](t, render(t)), get[*core.Secret](t, render(t))
	if _, err := wire.ParsePrivateKey(string(one.Data["signing-key"])); err != nil {
		t.Errorf("signing-key: %v", err)
	}
	if n := len(one.Data["api-keys"]); n != 40 {
		t.Errorf("api-keys has %d characters, want 40", n)
	}
	for entry := range one.Data {
		if bytes.Equal(one.Data[entry], two.Data[entry]) {
			t.Errorf("%s is the same in two installs", entry)
		}
	}
	own := render(t, "--set", "keys.existingSecret=mine")
	if own["Secret"] != nil {
		t.Error("there is a Secret of the user's and the chart makes another")
	}
	for name, spec := range map[string]core.PodSpec{"controller": get[*apps.Deployment](t, own).Spec.Template.Spec, "check": get[*batch.Job](t, own).Spec.Template.Spec} {
		if got := spec.Volumes[0].Secret.SecretName; got != "mine" {
			t.Errorf("%s mounts the Secret %s, want mine", name, got)
		}
	}
}

func TestChoices(t *testing.T) {
	t.Parallel()
	image := func(all objects) string { return get[*apps.Deployment](t, all).Spec.Template.Spec.Containers[0].Image }
	if got, want := image(render(t)), "localhost/orchard/controller:"+buildinfo.Version; got != want {
		t.Errorf("image %s, want %s: appVersion is this version", got, want)
	}
	managed := render(t, "-f", "orchard/ci/managed-values.yaml")
	if got := image(managed); !strings.HasPrefix(got, "registry.example/orchard/controller@sha256:0123") {
		t.Errorf("image %s, want the digest", got)
	}
	if env := environ(get[*apps.Deployment](t, managed).Spec.Template.Spec.Containers[0]); env["ORCHARD_AGENT_IMAGE"] != "registry.example/orchard/agent:2.0" || env["MAX_TIMEOUT_SECONDS"] != "7200" {
		t.Errorf("variables %v", env)
	}
	if managed["Namespace"] != nil {
		t.Error("the namespace was not to be made")
	}
	single := render(t, "-f", "orchard/ci/single-values.yaml")
	if single["PodDisruptionBudget"] != nil {
		t.Error("one replica has a PodDisruptionBudget, so its node cannot be drained")
	}
	ns := get[*core.Namespace](t, single)
	if got := ns.Labels["pod-security.kubernetes.io/enforce"]; ns.Name != "boxes" || got != "restricted" {
		t.Errorf("namespace %s with level %s, want boxes and restricted", ns.Name, got)
	}
	if got := get[*policy.PodDisruptionBudget](t, render(t)).Spec.MaxUnavailable.IntValue(); got != 1 {
		t.Errorf("maxUnavailable %d, want 1", got)
	}
}
