package kube

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	authv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"orchard/internal/exit"
)

// Rule is a permission that the controller uses.
type Rule struct {
	Group, Resource string
	Verbs           []string
	Cluster         bool // of the whole cluster, not of the sandboxes' namespace
	Optional        bool // without it something smaller is missing
	Why             string
}

// Rules are all of them; a Role and a ClusterRole must grant these and should no others.
var Rules = []Rule{
	{Resource: "namespaces", Verbs: []string{"get"}, Why: "to see that the sandboxes' namespace is there"},
	{Resource: "pods", Verbs: []string{"create", "delete", "get", "list", "update", "watch"}, Why: "sandboxes are Pods, and what is open to one is written at its Pod"},
	{Resource: "configmaps", Verbs: []string{"create", "delete", "get", "list", "update", "watch"}, Why: "how a sandbox ended is kept in one for an hour, what a pool of ready ones is, which images are being pulled, and what an owner is about to hold"},
	{Resource: "events", Verbs: []string{"list"}, Why: "GET /sandboxes/{id}/events"},
	{Group: "networking.k8s.io", Resource: "networkpolicies", Verbs: []string{"create", "delete", "get", "list", "update"}, Why: "to see that the network of sandboxes is shut, and to open it to one"},
	{Resource: "nodes", Verbs: []string{"list", "watch"}, Cluster: true, Optional: true, Why: "GET /resources tells the machines, POST /images/prepull brings images to them"},
}

// String is the rule as a Role has it.
func (r Rule) String() string {
	return fmt.Sprintf(`{apiGroups: [%q], resources: [%q], verbs: ["%s"]}`, r.Group, r.Resource, strings.Join(r.Verbs, `", "`))
}

// missing are the verbs of a rule that this client does not have.
func (r Rule) missing(ctx context.Context, client kubernetes.Interface, namespace string) ([]string, error) {
	if r.Cluster {
		namespace = ""
	}
	var verbs []string
	for _, verb := range r.Verbs {
		ctx, cancel := brief(ctx)
		defer cancel()
		answer, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authv1.SelfSubjectAccessReview{
			Spec: authv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authv1.ResourceAttributes{
				Namespace: namespace, Verb: verb, Group: r.Group, Resource: r.Resource,
			}},
		}, metav1.CreateOptions{})
		if err != nil {
			return nil, exit.Gonef("ask the cluster what this account may do: %w", err)
		}
		if !answer.Status.Allowed {
			verbs = append(verbs, verb)
		}
	}
	return verbs, nil
}

// checkRules names every rule that is missing. nodes is whether the optional one of nodes is there.
func checkRules(ctx context.Context, client kubernetes.Interface, namespace string) (nodes bool, err error) {
	errs, lacks := make([]error, len(Rules)), make([]bool, len(Rules))
	var all sync.WaitGroup
	for i, rule := range Rules {
		all.Go(func() {
			verbs, err := rule.missing(ctx, client, namespace)
			if err != nil || len(verbs) == 0 {
				errs[i] = err
				return
			}
			if lacks[i] = true; rule.Optional {
				return
			}
			where := "a Role in namespace " + namespace
			if rule.Cluster {
				where = "a ClusterRole"
			}
			rule.Verbs = verbs
			errs[i] = exit.Configf("this account may not %s %s; %s must grant %s (%s)",
				strings.Join(verbs, ", "), rule.Resource, where, rule, rule.Why)
		})
	}
	all.Wait()
	for i, rule := range Rules {
		if rule.Resource == "nodes" {
			nodes = !lacks[i]
		}
	}
	return nodes, errors.Join(errs...)
}
