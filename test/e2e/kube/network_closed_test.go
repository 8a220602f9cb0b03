package kube_test

import (
	"net"
	"slices"
	"strings"
	"testing"
)

// netTarget is something that no sandbox reaches unless a rule names it.
type netTarget struct {
	what string
	args []string // of /bare
	at   *StandIn // remembers who came; nil for the cluster's own parts
}

// targets are stand-ins for what a cloud has, and the parts that this cluster has.
func targets(t *testing.T) []netTarget {
	t.Helper()
	metadata, dns, host := NewStandIn(t, "198.18.254.169").TCP(80), NewStandIn(t, "198.18.254.53").TCP(53).UDP(53), NewStandIn(t, "198.18.254.10").TCP(8080)
	neighbour := NewNetBox(t, map[string]any{})
	proxy := egressAddress(t)
	return []netTarget{
		{"metadata", []string{"dial", metadata.At(80)}, metadata},
		{"DNS by UDP", []string{"udp", dns.At(53)}, dns},
		{"DNS by TCP", []string{"dial", dns.At(53)}, dns},
		{"a host", []string{"dial", host.At(8080)}, host},
		{"the agent of another sandbox", []string{"connect", net.JoinHostPort(neighbour.PodIP, "9090")}, nil},
		{"the API server, by its Service", []string{"connect", apiAddress(t)}, nil},
		{"the controllers", []string{"connect", strings.TrimPrefix(Controller(t).URL, "http://")}, nil},
		{"the egress proxy", []string{"connect", proxy}, nil},
		{"the cluster's DNS", []string{"connect", "198.18.255.1:53"}, nil},
	}
}

// N1, N3, N5: nothing of that is reached, from the first command on: neither by a sandbox
// that may reach nothing, nor by one that may reach everything public. A Pod that is no sandbox
// reaches what is not closed for its own sake, so the stand-ins do answer.
func TestNothingIsReachedUnlisted(t *testing.T) {
	t.Parallel()
	all := targets(t)
	ns := Namespace(t)
	RunPod(t, ns, "client", bareImage, nil, "/bare", "sleep")
	for _, to := range all {
		if to.at == nil && !strings.HasPrefix(to.what, "the API") && !strings.HasPrefix(to.what, "the cluster") {
			continue
		}
		if code, out, err := PodExec(t.Context(), t, ns, "client", append([]string{"/bare"}, to.args...)...); err != nil || code != 0 {
			t.Errorf("a plain Pod does not reach %s: %v, exit %d: %s", to.what, err, code, out)
		}
	}
	for name, spec := range map[string]map[string]any{"blocked": {}, "open": {"block_network": false}} {
		box := NewNetBox(t, spec)
		for _, to := range all {
			if code, out, stderr := box.Run(to.args...); code != 3 && code != 4 {
				t.Errorf("a sandbox that is %s: %s: exit %d, %s%s", name, to.what, code, out, stderr)
			}
			if to.at != nil && to.at.Met(box.PodIP) > 0 {
				t.Errorf("a sandbox that is %s came to %s", name, to.what)
			}
		}
		for variable, value := range box.Environ() {
			if strings.HasPrefix(variable, "KUBERNETES_") {
				t.Errorf("a sandbox that is %s has %s=%s", name, variable, value)
			}
		}
	}
}

// What is the user's own is given to commands, whatever it is called.
func TestOwnVariablesAreKept(t *testing.T) {
	t.Parallel()
	box := NewNetBox(t, map[string]any{"env": map[string]string{"KUBERNETES_SERVICE_HOST": "mine$(HOME)", "A": "b"}})
	env := box.Environ()
	if env["KUBERNETES_SERVICE_HOST"] != "mine$(HOME)" || env["A"] != "b" || env["KUBERNETES_SERVICE_PORT"] != "" {
		t.Errorf("%v", env)
	}
}

// A blocked sandbox has no policy of its own; an open one's leaves out what is private, and
// goes with its Pod.
func TestOpenPolicyExcludes(t *testing.T) {
	t.Parallel()
	blocked, open := NewNetBox(t, map[string]any{}), NewNetBox(t, map[string]any{"block_network": false})
	if np := blocked.Policy(); np != nil {
		t.Errorf("a blocked sandbox is opened %+v", np.Spec)
	}
	np, pod := open.Policy(), GetPod(t, sandboxNamespace, "sandbox-"+open.ID)
	if np == nil {
		t.Fatal("an open sandbox has no policy")
	}
	if len(np.OwnerReferences) != 1 || np.OwnerReferences[0].UID != pod.UID {
		t.Errorf("it belongs to %+v, want Pod %s", np.OwnerReferences, pod.UID)
	}
	excluded := map[string][]string{}
	for _, rule := range np.Spec.Egress {
		for _, to := range rule.To {
			if to.IPBlock != nil {
				excluded[to.IPBlock.CIDR] = to.IPBlock.Except
			}
		}
	}
	for all, want := range map[string][]string{
		"0.0.0.0/0": {"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "100.64.0.0/10", "127.0.0.0/8", "198.18.0.0/15"},
		"::/0":      {"fc00::/7", "fe80::/10", "::1/128"},
	} {
		for _, w := range want {
			if !slices.Contains(excluded[all], w) {
				t.Errorf("%s is open but for %v: %s is missing", all, excluded[all], w)
			}
		}
	}
}
