// Package policy is the NetworkPolicies that open something to one sandbox. It makes
// objects; it asks no API server.
//
// Policies add up, so nothing here ever closes: what is not opened is closed by the
// namespace's own policy, which the runtime checks for before it serves. A policy that opens is made
// after its Pod, belongs to it (ownerReferences) and selects it by a label that no other Pod
// ever has, so that one which is left over opens nothing to anybody.
package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"orchard/internal/sandbox"
	"orchard/internal/sandbox/egress"
)

// The labels that policies go by.
const (
	App         = "app"                     // AppSandbox on every sandbox's Pod
	AppSandbox  = "sandbox"                 //
	Incarnation = "orchard.dev/incarnation" // random, of one Pod only
)

// Peers are the Pods of one kind in one namespace.
type Peers struct {
	Namespace string
	Labels    map[string]string
}

func (p Peers) peer() networking.NetworkPolicyPeer {
	return networking.NetworkPolicyPeer{
		NamespaceSelector: &meta.LabelSelector{MatchLabels: map[string]string{core.LabelMetadataName: p.Namespace}},
		PodSelector:       &meta.LabelSelector{MatchLabels: p.Labels},
	}
}

// Cluster is what policies need to know of the cluster around the sandboxes.
type Cluster struct {
	Closed []netip.Prefix // what "everything" leaves out
	// DNS answers names to sandboxes with an open network: Pods, addresses, or both.
	DNSPods  *Peers
	DNSAddrs []netip.Addr
	// Proxy is the egress proxy; nil when there is none.
	Proxy     *Peers
	ProxyPort int32
}

// Opens reports whether a sandbox with spec needs a policy of its own.
func Opens(spec sandbox.Spec, rules []egress.Rule) bool { return spec.OpenNetwork || len(rules) > 0 }

// For is the policy that opens to pod what its sandbox may reach: everything but closed
// ranges, or what rules say. Rules by name or for a time open the egress proxy, which
// keeps to them.
func For(pod *core.Pod, spec sandbox.Spec, rules []egress.Rule, c Cluster) *networking.NetworkPolicy {
	np := &networking.NetworkPolicy{
		ObjectMeta: meta.ObjectMeta{
			Name: "open-" + pod.Name, Namespace: pod.Namespace, Labels: map[string]string{App: AppSandbox},
			OwnerReferences: []meta.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}},
		},
		Spec: networking.NetworkPolicySpec{
			PodSelector: meta.LabelSelector{MatchLabels: map[string]string{App: AppSandbox, Incarnation: pod.Labels[Incarnation]}},
			PolicyTypes: []networking.PolicyType{networking.PolicyTypeEgress},
		},
	}
	open := func(r networking.NetworkPolicyEgressRule) { np.Spec.Egress = append(np.Spec.Egress, r) }
	if spec.OpenNetwork {
		open(networking.NetworkPolicyEgressRule{To: []networking.NetworkPolicyPeer{
			block(netip.MustParsePrefix("0.0.0.0/0"), c.Closed), block(netip.MustParsePrefix("::/0"), c.Closed)}})
		if to := c.dns(); len(to) > 0 {
			open(networking.NetworkPolicyEgressRule{To: to, Ports: ports(53, core.ProtocolUDP, core.ProtocolTCP)})
		}
	}
	proxied := false
	for _, r := range rules {
		if r.Domain != "" || r.UntilUS != 0 {
			proxied = true
			continue
		}
		prefix, err := sandbox.EgressRule{CIDR: r.CIDR}.Prefix()
		if err != nil {
			continue // the service has validated it; what cannot be read opens nothing
		}
		rule := networking.NetworkPolicyEgressRule{To: []networking.NetworkPolicyPeer{block(prefix, c.Closed)}}
		for _, port := range r.Ports {
			rule.Ports = append(rule.Ports, ports(int32(port), core.ProtocolTCP, core.ProtocolUDP)...)
		}
		open(rule)
	}
	if proxied && c.Proxy != nil {
		open(networking.NetworkPolicyEgressRule{To: []networking.NetworkPolicyPeer{c.Proxy.peer()}, Ports: ports(c.ProxyPort, core.ProtocolTCP)})
	}
	return np
}

func (c Cluster) dns() []networking.NetworkPolicyPeer {
	var to []networking.NetworkPolicyPeer
	if c.DNSPods != nil {
		to = append(to, c.DNSPods.peer())
	}
	for _, a := range c.DNSAddrs {
		to = append(to, block(netip.PrefixFrom(a, a.BitLen()), nil))
	}
	return to
}

// block is a range without the closed ones inside it.
func block(p netip.Prefix, closed []netip.Prefix) networking.NetworkPolicyPeer {
	b := &networking.IPBlock{CIDR: p.String()}
	for _, c := range egress.Except(p, closed) {
		b.Except = append(b.Except, c.String())
	}
	slices.Sort(b.Except)
	return networking.NetworkPolicyPeer{IPBlock: b}
}

// ports is one port of each protocol.
func ports(port int32, protocols ...core.Protocol) []networking.NetworkPolicyPort {
	number := intstr.FromInt32(port)
	var out []networking.NetworkPolicyPort
	for _, p := range protocols {
		out = append(out, networking.NetworkPolicyPort{Protocol: &p, Port: &number})
	}
	return out
}

// ParsePeers reads NAMESPACE/KEY=VALUE, with more KEY=VALUE after commas.
func ParsePeers(text string) (*Peers, error) {
	namespace, rest, ok := strings.Cut(text, "/")
	p := &Peers{Namespace: namespace, Labels: map[string]string{}}
	for _, pair := range strings.Split(rest, ",") {
		key, value, found := strings.Cut(pair, "=")
		ok = ok && found && key != ""
		p.Labels[key] = value
	}
	if !ok || namespace == "" {
		return nil, fmt.Errorf("%q is not NAMESPACE/KEY=VALUE, such as kube-system/k8s-app=kube-dns", text)
	}
	return p, nil
}
