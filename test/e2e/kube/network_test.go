package kube_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// A Service is found by its name from a Pod, and reached.
func TestServiceNames(t *testing.T) {
	t.Parallel()
	ns := Namespace(t)
	RunPod(t, ns, "server", bareImage, map[string]string{"app": "server"}, "/bare", "listen", ":7000")
	service, err := API(t).CoreV1().Services(ns).Create(t.Context(), &core.Service{
		ObjectMeta: meta.ObjectMeta{Name: "greeter"},
		Spec:       core.ServiceSpec{Selector: map[string]string{"app": "server"}, Ports: []core.ServicePort{{Port: 70, TargetPort: intstr.FromInt32(7000)}}},
	}, meta.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	RunPod(t, ns, "client", bareImage, nil, "/bare", "sleep")
	Eventually(t, "resolved", func(ctx context.Context) string {
		code, out, err := PodExec(ctx, t, ns, "client", "/bare", "resolve", "greeter")
		if err != nil || code != 0 || strings.TrimSpace(out) != service.Spec.ClusterIP {
			return fmt.Sprintf("%v, exit %d, %q; want %s", err, code, out, service.Spec.ClusterIP)
		}
		return ""
	})
	wantDial(t, ns, "greeter:70", true)
}

// Policies are enforced on real packets, in both directions: what is closed is not
// reached, what is not selected still is, and what is opened again is reached again.
func TestPoliciesAreEnforced(t *testing.T) {
	t.Parallel()
	ns := Namespace(t)
	server := RunPod(t, ns, "server", bareImage, map[string]string{"app": "server"}, "/bare", "listen", ":7000")
	other := RunPod(t, ns, "other", bareImage, nil, "/bare", "listen", ":7000")
	at := func(p *core.Pod) string { return p.Status.PodIP + ":7000" }
	RunPod(t, ns, "client", bareImage, map[string]string{"app": "client"}, "/bare", "sleep")
	wantDial(t, ns, at(server), true)
	policies := API(t).NetworkingV1().NetworkPolicies(ns)
	for _, c := range []struct {
		name string
		spec networking.NetworkPolicySpec
		// open is reached all the same.
		open *core.Pod
	}{
		{"ingress", networking.NetworkPolicySpec{PodSelector: meta.LabelSelector{MatchLabels: map[string]string{"app": "server"}}, PolicyTypes: []networking.PolicyType{"Ingress"}}, other},
		{"egress", networking.NetworkPolicySpec{PodSelector: meta.LabelSelector{MatchLabels: map[string]string{"app": "client"}}, PolicyTypes: []networking.PolicyType{"Egress"}}, nil},
	} {
		if _, err := policies.Create(t.Context(), &networking.NetworkPolicy{ObjectMeta: meta.ObjectMeta{Name: c.name}, Spec: c.spec}, meta.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		wantDial(t, ns, at(server), false)
		if c.open != nil {
			wantDial(t, ns, at(c.open), true)
		}
		if err := policies.Delete(t.Context(), c.name, meta.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		wantDial(t, ns, at(server), true)
	}
}

// wantDial waits until the Pod client reaches an address, or does not. What it does not reach
// may be refused on the way (3) or never answer (4): that is the enforcer's choice.
func wantDial(t testing.TB, ns, address string, reached bool) {
	t.Helper()
	Eventually(t, fmt.Sprintf("%s reached: %v", address, reached), func(ctx context.Context) string {
		code, out, err := PodExec(ctx, t, ns, "client", "/bare", "dial", address)
		if ok := code == 0 || code == 3 || code == 4; err != nil || !ok || (code == 0) != reached {
			return fmt.Sprintf("%v, exit %d: %s", err, code, out)
		}
		return ""
	})
}
