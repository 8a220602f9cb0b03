package policy

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"orchard/internal/sandbox"
	"orchard/internal/sandbox/egress"
)

var (
	pod = &core.Pod{ObjectMeta: meta.ObjectMeta{Name: "sandbox-one", Namespace: "boxes", UID: "u-1",
		Labels: map[string]string{App: AppSandbox, Incarnation: "r4nd0m"}}}
	cluster = Cluster{
		Closed:  append(egress.Special(), netip.MustParsePrefix("203.0.113.0/24")),
		DNSPods: &Peers{"kube-system", map[string]string{"k8s-app": "kube-dns"}}, DNSAddrs: []netip.Addr{netip.MustParseAddr("198.18.255.1")},
		Proxy: &Peers{"orchard", map[string]string{"component": "egress"}}, ProxyPort: 3128,
	}
)

func text(t *testing.T, v any) string {
	t.Helper()
	b, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// An open network leaves out the metadata service, private networks and the cluster.
func TestOpenNetwork(t *testing.T) {
	np := For(pod, sandbox.Spec{OpenNetwork: true}, nil, cluster)
	four, six := np.Spec.Egress[0].To[0].IPBlock, np.Spec.Egress[0].To[1].IPBlock
	if four.CIDR != "0.0.0.0/0" || six.CIDR != "::/0" {
		t.Fatal(text(t, np))
	}
	for _, c := range []string{"169.254.0.0/16", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "127.0.0.0/8", "203.0.113.0/24"} {
		if !slices.Contains(four.Except, c) {
			t.Errorf("%s is open", c)
		}
	}
	if !slices.Contains(six.Except, "fc00::/7") || !slices.Contains(six.Except, "fe80::/10") {
		t.Errorf("IPv6: %v", six.Except)
	}
	if dns := text(t, np.Spec.Egress[1]); !strings.Contains(dns, "kube-dns") || !strings.Contains(dns, "198.18.255.1/32") || strings.Count(dns, "port: 53") != 2 {
		t.Error(dns)
	}
	if len(np.Spec.Egress) != 2 || len(np.Spec.Ingress) != 0 || !slices.Equal(np.Spec.PolicyTypes, []networking.PolicyType{networking.PolicyTypeEgress}) {
		t.Error(text(t, np))
	}
	if len(np.OwnerReferences) != 1 || np.OwnerReferences[0].Kind != "Pod" || np.OwnerReferences[0].UID != "u-1" || np.Spec.PodSelector.MatchLabels[Incarnation] != "r4nd0m" {
		t.Errorf("it is not only its Pod's:\n%s", text(t, np))
	}
}

// Rules by address open just that; by name or for a time, only the proxy.
func TestRules(t *testing.T) {
	rules := egress.Rules([]sandbox.EgressRule{{CIDR: "198.51.100.7", Ports: []uint16{22}}, {CIDR: "192.0.0.0/8"}, {CIDR: "10.1.0.0/16"}}, time.Now())
	np := For(pod, sandbox.Spec{}, rules, cluster)
	if len(np.Spec.Egress) != 3 {
		t.Fatal(text(t, np))
	}
	if one := text(t, np.Spec.Egress[0]); !strings.Contains(one, "198.51.100.7/32") || strings.Count(one, "port: 22") != 2 {
		t.Error(one)
	}
	if wide := np.Spec.Egress[1].To[0].IPBlock; !slices.Contains(wide.Except, "192.168.0.0/16") {
		t.Errorf("a private range is open inside %v", wide)
	}
	if listed := np.Spec.Egress[2].To[0].IPBlock; listed.CIDR != "10.1.0.0/16" || len(listed.Except) != 0 {
		t.Errorf("a listed private range: %v", listed)
	}
	rules = egress.Rules([]sandbox.EgressRule{{CIDR: "198.51.100.7", For: time.Minute}, {Domain: "pypi.org"}}, time.Now())
	np = For(pod, sandbox.Spec{}, rules, cluster)
	if got := text(t, np.Spec.Egress); len(np.Spec.Egress) != 1 || !strings.Contains(got, "component: egress") || !strings.Contains(got, "3128") || strings.Contains(got, "ipBlock") {
		t.Error(got)
	}
	if none := cluster; true {
		none.Proxy = nil
		if np := For(pod, sandbox.Spec{}, rules, none); len(np.Spec.Egress) != 0 {
			t.Error("without a proxy something is open: ", text(t, np))
		}
	}
	if Opens(sandbox.Spec{}, nil) || !Opens(sandbox.Spec{OpenNetwork: true}, nil) || !Opens(sandbox.Spec{}, rules) {
		t.Error("Opens")
	}
}

func TestParsePeers(t *testing.T) {
	p, err := ParsePeers("kube-system/k8s-app=kube-dns,x/y=z")
	if err != nil || p.Namespace != "kube-system" || len(p.Labels) != 2 || p.Labels["k8s-app"] != "kube-dns" || p.Labels["x/y"] != "z" {
		t.Errorf("%+v, %v", p, err)
	}
	for _, bad := range []string{"", "kube-system", "/a=b", "ns/", "ns/a", "ns/=b", "ns/a=b,"} {
		if p, err := ParsePeers(bad); err == nil {
			t.Errorf("%q is %+v", bad, p)
		}
	}
}
