package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Static is the policy that closes sandboxes in both directions; only controllers reach
// their agents.
func Static(namespace string, controllers Peers, agentPort int32) *networking.NetworkPolicy {
	return &networking.NetworkPolicy{
		ObjectMeta: meta.ObjectMeta{Name: StaticName, Namespace: namespace},
		Spec: networking.NetworkPolicySpec{
			PodSelector: meta.LabelSelector{MatchLabels: map[string]string{App: AppSandbox}},
			PolicyTypes: []networking.PolicyType{networking.PolicyTypeIngress, networking.PolicyTypeEgress},
			Ingress: []networking.NetworkPolicyIngressRule{{
				From: []networking.NetworkPolicyPeer{controllers.peer()}, Ports: ports(agentPort, core.ProtocolTCP)}},
		},
	}
}

// CheckStatic says why the policies of a namespace do not close its sandboxes, "" when
// one does: it selects all of them (or every Pod), names both directions, opens no way
// out, and lets in at most Pods that it names.
func CheckStatic(all []networking.NetworkPolicy) string {
	why := "there is no NetworkPolicy for Pods with " + App + "=" + AppSandbox
	for _, np := range all {
		sel := np.Spec.PodSelector
		everyPod := len(sel.MatchLabels) == 0 && len(sel.MatchExpressions) == 0
		sandboxes := len(sel.MatchExpressions) == 0 && maps.Equal(sel.MatchLabels, map[string]string{App: AppSandbox})
		if !everyPod && !sandboxes {
			continue
		}
		switch {
		case !slices.Contains(np.Spec.PolicyTypes, networking.PolicyTypeEgress):
			why = "NetworkPolicy " + np.Name + " does not list Egress in policyTypes, so ways out stay open"
		case !slices.Contains(np.Spec.PolicyTypes, networking.PolicyTypeIngress):
			why = "NetworkPolicy " + np.Name + " does not list Ingress in policyTypes, so whoever has a Pod reaches the agents"
		case len(np.Spec.Egress) > 0:
			why = "NetworkPolicy " + np.Name + " opens ways out to every sandbox"
		default:
			return ""
		}
	}
	return why
}

// Wider names each policy in a sandbox namespace that opens something to sandboxes and
// is not one of ours: policies add up, so one of those undoes the closing.
func Wider(all []networking.NetworkPolicy) []string {
	var found []string
	for _, np := range all {
		if len(np.Spec.Egress) == 0 && (len(np.Spec.Ingress) == 0 || np.Name == StaticName) {
			continue
		}
		if np.Labels[App] == AppSandbox && ofOnePod(np) {
			continue
		}
		selector, err := meta.LabelSelectorAsSelector(&np.Spec.PodSelector)
		if err == nil && !mayMatch(selector, np.Spec.PodSelector) {
			continue
		}
		var opens []string
		if len(np.Spec.Egress) > 0 {
			opens = append(opens, "ways out")
		}
		if len(np.Spec.Ingress) > 0 {
			opens = append(opens, "ways in")
		}
		found = append(found, fmt.Sprintf("NetworkPolicy %s opens %s to sandboxes", np.Name, strings.Join(opens, " and ")))
	}
	slices.Sort(found)
	return found
}

// ofOnePod reports whether the policy is one that For made: it belongs to a Pod and
// selects only that.
func ofOnePod(np networking.NetworkPolicy) bool {
	return np.Spec.PodSelector.MatchLabels[Incarnation] != "" && len(np.OwnerReferences) == 1 && np.OwnerReferences[0].Kind == "Pod"
}

// mayMatch reports whether some sandbox could have the labels that selector wants: a
// value of App that is not ours, or of a label that sandboxes do not have, cannot.
func mayMatch(selector labels.Selector, s meta.LabelSelector) bool {
	if len(s.MatchExpressions) > 0 {
		return true // not worth being clever: it is reported, and a person looks
	}
	set := labels.Set{App: AppSandbox}
	for key, value := range s.MatchLabels {
		if key != App {
			set[key] = value // sandbox-id, owner and so on can have any value
		}
	}
	return selector.Matches(set)
}
