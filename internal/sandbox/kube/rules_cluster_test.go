package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	networkv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"orchard/internal/exit"
	"orchard/internal/seal"
)

// account is a client of somebody who may do what rules say, but for verb on resource.
func (s *site) account(t *testing.T, verb, resource string) kubernetes.Interface {
	t.Helper()
	name := "controller-" + seal.Random(4)
	var inside, cluster []rbacv1.PolicyRule
	for _, rule := range Rules {
		verbs := slices.Clone(rule.Verbs)
		if rule.Resource == resource {
			verbs = slices.DeleteFunc(verbs, func(v string) bool { return v == verb })
		}
		if len(verbs) == 0 {
			continue
		}
		p := rbacv1.PolicyRule{APIGroups: []string{rule.Group}, Resources: []string{rule.Resource}, Verbs: verbs}
		if rule.Cluster {
			cluster = append(cluster, p)
		} else {
			inside = append(inside, p)
		}
	}
	meta := metav1.ObjectMeta{Name: name}
	user := []rbacv1.Subject{{Kind: "User", Name: name, APIGroup: rbacv1.GroupName}}
	rbac := s.client.RbacV1()
	var err error
	must := func(e error) {
		if err = e; err != nil {
			t.Fatal(err)
		}
	}
	_, err = rbac.Roles(s.opts.Namespace).Create(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: inside}, metav1.CreateOptions{})
	must(err)
	_, err = rbac.RoleBindings(s.opts.Namespace).Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: meta, Subjects: user,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}}, metav1.CreateOptions{})
	must(err)
	_, err = rbac.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: cluster}, metav1.CreateOptions{})
	must(err)
	_, err = rbac.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: user,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}}, metav1.CreateOptions{})
	must(err)
	t.Cleanup(func() {
		_ = rbac.ClusterRoleBindings().Delete(context.Background(), name, metav1.DeleteOptions{})
		_ = rbac.ClusterRoles().Delete(context.Background(), name, metav1.DeleteOptions{})
	})
	config, err := clientcmd.BuildConfigFromFlags("", s.opts.Kubeconfig)
	must(err)
	config.QPS, config.Burst = 200, 400
	config.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: []string{"system:authenticated"}}
	client, err := kubernetes.NewForConfig(config)
	must(err)
	return client
}

// The rules are enough, and without any one of them the start fails and names it.
func TestClusterEachRule(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	opts := s.opts
	opts.Client = s.account(t, "", "")
	until(t, "the account to be known", func() (bool, string) {
		said, err := Try(t.Context(), opts, "")
		return err == nil && strings.HasPrefix(said, "orchard-agent"), fmt.Sprint(said, err)
	})
	s.noPods(t)
	for _, rule := range Rules {
		for _, verb := range rule.Verbs {
			t.Run(verb+" "+rule.Resource, func(t *testing.T) {
				opts := s.opts
				opts.Client = s.account(t, verb, rule.Resource)
				until(t, "the account to be known", func() (bool, string) {
					r, err := New(t.Context(), opts)
					if err == nil {
						r.Close()
					}
					if rule.Optional {
						return err == nil && r.nodes == nil, fmt.Sprint(err)
					}
					want := fmt.Sprintf("may not %s %s; a Role in namespace %s must grant", verb, rule.Resource, opts.Namespace)
					return exit.Code(err) == exit.Config && strings.Contains(err.Error(), want) && !strings.Contains(err.Error(), "\n"), fmt.Sprint(err)
				})
			})
		}
	}
}

// Without a policy that shuts the network nothing starts, and the message says what is
// wrong with those that are there.
func TestClusterNetworkMustBeShut(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	policies := s.client.NetworkingV1().NetworkPolicies(s.opts.Namespace)
	for name, c := range map[string]struct {
		change func(*networkv1.NetworkPolicySpec)
		says   string
	}{
		"one way":  {func(p *networkv1.NetworkPolicySpec) { p.PolicyTypes = p.PolicyTypes[:1] }, "has not both policyTypes"},
		"egress":   {func(p *networkv1.NetworkPolicySpec) { p.Egress = []networkv1.NetworkPolicyEgressRule{{}} }, "has an egress rule"},
		"everyone": {func(p *networkv1.NetworkPolicySpec) { p.Ingress[0].From = nil }, "lets everybody in"},
		"any port": {func(p *networkv1.NetworkPolicySpec) { p.Ingress[0].Ports = nil }, "every port"},
		"others":   {func(p *networkv1.NetworkPolicySpec) { p.PodSelector.MatchLabels = map[string]string{"app": "other"} }, "there is none"},
	} {
		policy := denyAll(s.opts.Namespace)
		c.change(&policy.Spec)
		if _, err := policies.Update(t.Context(), policy, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := New(t.Context(), s.opts); exit.Code(err) != exit.Config || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	elsewhere := s.opts
	elsewhere.Namespace = "no-such-namespace"
	if _, err := New(t.Context(), elsewhere); exit.Code(err) != exit.Config || !strings.Contains(err.Error(), `--namespace: namespaces "no-such-namespace" not found`) {
		t.Errorf("no namespace: %v", err)
	}
}
