package charts_test

import (
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v2"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	pdb "k8s.io/api/policy/v1"
	rbac "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"

	"orchard/internal/sandbox/control/command"
	"orchard/internal/sandbox/kube/policy"
)

// Whatever is chosen: the proxy holds no private key, may only look at Pods, is open to
// sandboxes and nobody else, and is where the controllers look for it.
func TestEgressProxyHolds(t *testing.T) {
	t.Parallel()
	for _, file := range variants(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			all := render(t, "-f", file)
			dep, service := getProxys[*apps.Deployment](t, all), getProxys[*core.Service](t, all)
			spec, pods := dep.Spec.Template.Spec, labels.Set(dep.Spec.Template.Labels)
			checkPod(t, "egress", spec)
			checkProxyKeys(t, spec)
			sandboxes := get[*networking.NetworkPolicy](t, all).Namespace
			checkProxyRights(t, all, sandboxes, spec.ServiceAccountName)
			for kind, selector := range map[string]labels.Set{"Deployment": dep.Spec.Selector.MatchLabels, "Service": service.Spec.Selector,
				"NetworkPolicy": getProxys[*networking.NetworkPolicy](t, all).Spec.PodSelector.MatchLabels, "PodDisruptionBudget": getProxys[*pdb.PodDisruptionBudget](t, all).Spec.Selector.MatchLabels} {
				controllers := labels.Set(get[*apps.Deployment](t, all).Spec.Template.Labels)
				if !selector.AsSelector().Matches(pods) || selector.AsSelector().Matches(controllers) {
					t.Errorf("%s selects %v, which must be the proxies %v and not the controllers %v", kind, selector, pods, controllers)
				}
			}
			env := environ(get[*apps.Deployment](t, all).Spec.Template.Spec.Containers[0])
			if want := service.Name + "." + namespace + ".svc:3128"; env["ORCHARD_EGRESS_PROXY"] != want || service.Spec.Ports[0].Port != 3128 {
				t.Errorf("controllers look for the proxy at %s, it is at %s", env["ORCHARD_EGRESS_PROXY"], want)
			}
			peers, err := policy.ParsePeers(env["ORCHARD_EGRESS_PROXY_PODS"])
			if err != nil || peers.Namespace != namespace || !labels.Set(peers.Labels).AsSelector().Matches(pods) {
				t.Errorf("controllers open %+v, %v; the proxies are %v", peers, err, pods)
			}
			own := environ(spec.Containers[0])
			if own["SANDBOX_NAMESPACE"] != sandboxes || own["CLOSED_NETWORKS"] != env["CLOSED_NETWORKS"] {
				t.Errorf("the proxy has %v, the controllers %v", own, env)
			}
			checkProxyVariables(t, own)
		})
	}
}

func checkProxyKeys(t *testing.T, spec core.PodSpec) {
	t.Helper()
	for _, v := range spec.Volumes {
		if s := v.Secret; s != nil && (len(s.Items) != 1 || s.Items[0].Key != "signing-key") {
			t.Errorf("the Pod has more of the Secret than it needs: %+v", s)
		}
	}
	for _, m := range spec.Containers[0].VolumeMounts {
		if m.Name == "keys" || !m.ReadOnly {
			t.Errorf("the proxy mounts %+v", m)
		}
	}
}

func checkProxyRights(t *testing.T, all objects, sandboxes, account string) {
	t.Helper()
	role, binding := getProxys[*rbac.Role](t, all), getProxys[*rbac.RoleBinding](t, all)
	if diff := cmp.Diff([]rbac.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list", "watch"}}}, role.Rules); diff != "" {
		t.Errorf("rights of the proxy (-want +got):\n%s", diff)
	}
	subject := []rbac.Subject{{Kind: "ServiceAccount", Name: account, Namespace: namespace}}
	if role.Namespace != sandboxes || binding.Namespace != sandboxes || binding.RoleRef.Name != role.Name || !cmp.Equal(binding.Subjects, subject) ||
		getProxys[*core.ServiceAccount](t, all).Name != account || get[*core.ServiceAccount](t, all).Name == account {
		t.Errorf("Role %s/%s is bound to %v in %s; want an account of its own, %v", role.Namespace, role.Name, binding.Subjects, binding.Namespace, subject)
	}
	in := getProxys[*networking.NetworkPolicy](t, all).Spec.Ingress
	for _, rule := range in {
		if len(rule.Ports) != 1 || len(rule.From) != 1 {
			t.Fatalf("a way in that is not one port of one kind of client: %+v", rule)
		}
		proxy := rule.Ports[0].Port.IntValue() == 3128
		if got := rule.From[0].NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"] == sandboxes; proxy != got {
			t.Errorf("port %v is open to %+v", rule.Ports[0].Port, rule.From[0])
		}
	}
}

// checkProxyVariables: every variable is one that the proxy reads.
func checkProxyVariables(t *testing.T, env map[string]string) {
	t.Helper()
	app := command.App(io.Discard, io.Discard)
	flags := app.Flags
	for _, c := range app.Commands {
		if c.Name == "egress" {
			flags = append(flags, c.Flags...)
		}
	}
	for name := range env {
		if !slices.ContainsFunc(flags, func(f cli.Flag) bool {
			doc, ok := f.(cli.DocGenerationFlag)
			return ok && slices.Contains(doc.GetEnvVars(), name)
		}) {
			t.Errorf("orchard-controller egress reads no variable %s", name)
		}
	}
}

func TestEgressChoices(t *testing.T) {
	t.Parallel()
	off := render(t, "--set", "egress.enabled=false")
	for key := range off {
		if strings.HasSuffix(key, proxys("")) {
			t.Errorf("the proxy is off and there is a %s", key)
		}
	}
	if env := environ(get[*apps.Deployment](t, off).Spec.Template.Spec.Containers[0]); env["ORCHARD_EGRESS_PROXY"] != "" {
		t.Errorf("controllers look for it at %s", env["ORCHARD_EGRESS_PROXY"])
	}
	if one := render(t, "--set", "egress.replicas=1"); one[proxys("PodDisruptionBudget")] != nil {
		t.Error("one replica has a PodDisruptionBudget, so its node cannot be drained")
	}
	env := environ(get[*apps.Deployment](t, render(t, "--set", "network.closedNetworks={203.0.113.0/24,2001:db8::/32}", "--set", "network.allowEgress={10.1.0.0/16}",
		"--set", "network.canary=false", "--set", "network.dns.addresses={10.0.0.10}")).Spec.Template.Spec.Containers[0])
	want := map[string]string{"CLOSED_NETWORKS": "203.0.113.0/24,2001:db8::/32", "ALLOW_EGRESS": "10.1.0.0/16", "ORCHARD_NETWORK_CANARY": "false",
		"SANDBOX_DNS_PODS": "kube-system/k8s-app=kube-dns", "SANDBOX_DNS_ADDRESSES": "10.0.0.10"}
	for name, value := range want {
		if env[name] != value {
			t.Errorf("%s=%q, want %q", name, env[name], value)
		}
	}
}
