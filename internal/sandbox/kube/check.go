package kube

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rs/zerolog"
	networkv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"

	"orchard/internal/exit"
)

// cluster is a connection that nothing is known of yet.
type cluster struct {
	opts   *Options
	client kubernetes.Interface
	key    ed25519.PrivateKey
}

// connect checks what needs no cluster.
func connect(ctx context.Context, opts Options) (*cluster, error) {
	quiet()
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	key, err := opts.key()
	if err != nil {
		return nil, err
	}
	client, err := opts.connect()
	if err != nil {
		return nil, err
	}
	if address := opts.Network.ProxyAddress; address != "" {
		if opts.Network.ProxyAddress, err = numbered(ctx, address); err != nil {
			return nil, exit.Gonef("--egress-proxy: %w", err)
		}
	}
	return &cluster{&opts, client, key}, nil
}

// check names everything that is missing in the cluster. nodes is whether they may be listed.
func (c *cluster) check(ctx context.Context) (nodes bool, err error) {
	missing := c.checkNamespace(ctx)
	if transient(missing) {
		return false, exit.Gonef("the cluster does not answer: %w", missing)
	}
	nodes, err = checkRules(ctx, c.client, c.opts.Namespace)
	if exit.Code(err) == exit.Gone {
		return false, err
	}
	if !nodes {
		zerolog.Ctx(ctx).Warn().Msg("nodes may not be listed: GET /resources will name none, and no image can be pulled before sandboxes need it")
	}
	return nodes, exit.With(exit.Config, errors.Join(err, unlessForbidden(missing), unlessForbidden(c.checkNetwork(ctx))))
}

// unlessForbidden drops what a missing rule, which is named already, brings about.
func unlessForbidden(err error) error {
	if apierrors.IsForbidden(err) {
		return nil
	}
	return err
}

func (c *cluster) checkNamespace(ctx context.Context) error {
	ctx, cancel := brief(ctx)
	defer cancel()
	_, err := c.client.CoreV1().Namespaces().Get(ctx, c.opts.Namespace, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("--namespace: %w", err)
	}
	return nil
}

// checkNetwork looks for the policy that shuts the network of every sandbox, and warns of
// others that open it again: policies add up.
func (c *cluster) checkNetwork(ctx context.Context) error {
	ctx, cancel := brief(ctx)
	defer cancel()
	list, err := c.client.NetworkingV1().NetworkPolicies(c.opts.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list NetworkPolicies of namespace %s: %w", c.opts.Namespace, err)
	}
	shut := false
	var faults []string
	for _, p := range list.Items {
		fault := openness(&p)
		switch {
		case fault == "":
			shut = true
		case !selects(&p) || owned(&p):
		default:
			faults = append(faults, p.Name+" "+fault)
		}
	}
	if !shut {
		why := "there is none"
		if len(faults) > 0 {
			why = strings.Join(faults, "; ")
		}
		return fmt.Errorf("namespace %s has no NetworkPolicy that denies all sandboxes (%s=%s) everything in and out but port %d from the controllers: %s",
			c.opts.Namespace, labelApp, appSandbox, agentPort, why)
	}
	if len(faults) > 0 {
		zerolog.Ctx(ctx).Warn().Strs("policies", faults).Msg("NetworkPolicies open the network of every sandbox")
	}
	return nil
}

// owned reports whether a policy is one sandbox's own.
func owned(p *networkv1.NetworkPolicy) bool { return len(p.OwnerReferences) > 0 }

// selects reports whether a policy is for every sandbox.
func selects(p *networkv1.NetworkPolicy) bool {
	s, err := metav1.LabelSelectorAsSelector(&p.Spec.PodSelector)
	return err == nil && s.Matches(labels.Set{labelApp: appSandbox})
}

// openness is why p does not shut the network of every sandbox; "" is that it does.
func openness(p *networkv1.NetworkPolicy) string {
	switch {
	case !selects(p):
		return "does not select every sandbox"
	case !slices.Contains(p.Spec.PolicyTypes, networkv1.PolicyTypeIngress) || !slices.Contains(p.Spec.PolicyTypes, networkv1.PolicyTypeEgress):
		return "has not both policyTypes"
	case len(p.Spec.Egress) > 0:
		return "has an egress rule"
	}
	for _, rule := range p.Spec.Ingress {
		if len(rule.From) == 0 {
			return "lets everybody in"
		}
		if len(rule.Ports) == 0 {
			return "lets somebody in to every port"
		}
		for _, port := range rule.Ports {
			if port.Port == nil || port.EndPort != nil || port.Port.IntValue() != agentPort && port.Port.StrVal != "agent" {
				return fmt.Sprintf("lets somebody in to another port than %d", agentPort)
			}
		}
	}
	return ""
}
