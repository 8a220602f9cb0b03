package charts_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbac "k8s.io/api/rbac/v1"

	"orchard/internal/sandbox/kube"
	"orchard/internal/sandbox/kube/argocheck"
)

// The rights are those that the programs declare: one less and they do not start, one more
// is nobody's. Over the cluster there are none by default.
func TestRights(t *testing.T) {
	t.Parallel()
	for kind := range render(t) {
		if strings.HasPrefix(kind, "Cluster") {
			t.Errorf("the chart makes a %s by default", kind)
		}
	}
	var inside, cluster []kube.Rule
	for _, r := range kube.Rules {
		if r.Cluster {
			cluster = append(cluster, r)
		} else {
			inside = append(inside, r)
		}
	}
	want := map[string][]kube.Rule{
		"Role":                            inside,
		"ClusterRole":                     cluster,
		proxys("Role"):                    {{Resource: "pods", Verbs: []string{"list", "watch"}}},
		"Role/orchard-executor":           {{Group: "argoproj.io", Resource: "workflowtaskresults", Verbs: []string{"create", "patch"}}},
		"Role/rel-orchard-workflow-check": argocheck.Rules,
	}
	all := render(t, "-f", "orchard/ci/pipelines-values.yaml")
	got := map[string][]rbac.PolicyRule{}
	for key, object := range all {
		switch role := object.(type) {
		case *rbac.Role:
			got[key] = role.Rules
		case *rbac.ClusterRole:
			got[key] = role.Rules
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got))); diff != "" {
		t.Errorf("roles (-want +chart):\n%s", diff)
	}
	for key, rules := range got {
		if diff := cmp.Diff(said(want[key]), told(t, key, rules)); diff != "" {
			t.Errorf("rules of %s (-program +chart):\n%s", key, diff)
		}
	}
}

func said(rules []kube.Rule) []string {
	var all []string
	for _, r := range rules {
		all = append(all, r.String())
	}
	slices.Sort(all)
	return all
}

func told(t *testing.T, role string, rules []rbac.PolicyRule) []string {
	t.Helper()
	var all []string
	for _, r := range rules {
		if len(r.APIGroups) != 1 || len(r.Resources) != 1 || len(r.ResourceNames)+len(r.NonResourceURLs) > 0 {
			t.Errorf("%s: a rule is about one resource, this is %+v", role, r)
			continue
		}
		slices.Sort(r.Verbs)
		all = append(all, kube.Rule{Group: r.APIGroups[0], Resource: r.Resources[0], Verbs: r.Verbs}.String())
	}
	slices.Sort(all)
	return all
}
