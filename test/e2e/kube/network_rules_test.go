package kube_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	networking "k8s.io/api/networking/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A rule opens just what it says, and rules are widened and narrowed while the sandbox runs.
func TestRulesOpenJustWhatTheySay(t *testing.T) {
	t.Parallel()
	one, two := NewStandIn(t, "198.18.254.1").TCP(8080).TCP(8081), NewStandIn(t, "198.18.254.2").TCP(8080)
	box := NewNetBox(t, map[string]any{"egress": []netRule{{"cidr": "198.18.254.1", "ports": []int{8080}}}})
	box.Reaches("dial", one.At(8080))
	for _, closed := range []string{one.At(8081), two.At(8080), apiAddress(t)} {
		if code, _, _ := box.Run("connect", closed); code != 3 && code != 4 {
			t.Errorf("%s is open too", closed)
		}
	}
	if two.Met(box.PodIP) > 0 {
		t.Error("packets came to an address that no rule names")
	}
	if n := box.Open(netRule{"cidr": "198.18.254.0/30"}); n != 2 {
		t.Errorf("generation %d, want 2", n)
	}
	box.Reaches("dial", one.At(8081))
	box.Reaches("dial", two.At(8080))
	box.Open(netRule{"cidr": "198.18.254.2/32", "ports": []int{8080}})
	box.Misses("connect", one.At(8080))
	box.Reaches("dial", two.At(8080))
	box.Open()
	box.Misses("connect", two.At(8080))
}

// Which private networks may be opened, and by whom, is the operator's choice.
func TestPrivateNetworksNeedLeave(t *testing.T) {
	t.Parallel()
	box := NewNetBox(t, map[string]any{})
	host := strings.Split(apiAddress(t), ":")[0]
	status, said := netAsk(t.Context(), box.service, "PUT", box.url("/network"), map[string]any{"egress": []netRule{{"cidr": host}}})
	if status != http.StatusUnprocessableEntity || !strings.Contains(said, "--allow-egress") {
		t.Errorf("the API server was opened: %d %s", status, said)
	}
	if np := box.Policy(); np != nil {
		t.Errorf("a refused rule opened %+v", np.Spec)
	}
}

// Fault 21, N2: a policy that an earlier sandbox of the id left behind opens nothing to the next
// one, and is not in the way of what that one is opened.
func TestLeftoverPolicyOpensNothing(t *testing.T) {
	t.Parallel()
	host := NewStandIn(t, "198.18.254.5").TCP(8080)
	spec := map[string]any{"sandbox_id": "leftover", "egress": []netRule{{"cidr": "198.18.254.5"}}}
	first := NewNetBox(t, spec)
	first.Reaches("dial", host.At(8080))
	old := first.Policy()
	first.End()
	left := &networking.NetworkPolicy{ObjectMeta: meta.ObjectMeta{Name: old.Name, Labels: old.Labels, Annotations: old.Annotations}, Spec: old.Spec}
	policies := API(t).NetworkingV1().NetworkPolicies(sandboxNamespace)
	Eventually(t, "left behind", func(ctx context.Context) string { // the cluster may still be removing the real one
		if _, err := policies.Create(ctx, left, meta.CreateOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
	t.Cleanup(func() { _ = policies.Delete(context.Background(), old.Name, meta.DeleteOptions{}) })
	next := NewNetBox(t, map[string]any{"sandbox_id": "leftover"})
	if code, out, stderr := next.Run("dial", host.At(8080)); code != 3 && code != 4 {
		t.Errorf("what was left opens the next sandbox: exit %d, %s%s", code, out, stderr)
	}
	next.Open(netRule{"cidr": "198.18.254.5", "ports": []int{8080}})
	next.Reaches("dial", host.At(8080))
}
