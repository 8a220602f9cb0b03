package control_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orchard/internal/sandbox/control"
)

// placed is every field that says which machine runs a sandbox.
func placed() obj {
	return obj{
		"image": "i", "sandbox_id": "placed", "cpu": 2, "memory": "2Gi", "cpu_request": "500m", "memory_request": "1Gi", "disk": "5Gi", "gpu": 1, "spot": true,
		"node_selector": obj{"pool": "gpu"}, "tolerations": []obj{{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}, {"key": "k", "value": "v"}},
		"runtime_class": "gvisor", "priority_class": "low", "image_pull_secrets": []string{"regcred"},
	}
}

func TestPlacement(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(s *control.Settings) {
		s.AllowPlacement = []string{"node_selector", "tolerations", "runtime_class", "priority_class", "image_pull_secrets"}
	})
	if a := r.do("POST", "/sandboxes", placed()); a.status != 200 {
		t.Fatalf("create: %d %s", a.status, a.raw)
	}
	view := r.do("GET", "/sandboxes/placed", nil)
	var got, want map[string]any
	json.Unmarshal([]byte(`{"cpu":"2","memory":"2Gi","cpu_request":"500m","memory_request":"1Gi","disk":"5Gi","gpu":1,"spot":true,"on_spot":false,"node_selector":{"pool":"gpu"},
		"tolerations":[{"key":"spot","operator":"Exists","value":"","effect":"NoSchedule"},{"key":"k","operator":"Equal","value":"v","effect":""}],
		"runtime_class":"gvisor","priority_class":"low","image_pull_secrets":["regcred"]}`), &want)
	got, _ = restrict(view.json, want).(map[string]any)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("view (-want +got):\n%s", diff)
	}
	same := placed()
	same["cpu_request"], same["gpu"], same["spot"] = 0.5, "1", "yes"
	if a := r.do("POST", "/sandboxes", same); a.status != 200 {
		t.Errorf("the same in other words: %d %s", a.status, a.raw)
	}
	for field, value := range map[string]any{"cpu_request": nil, "memory_request": "2Gi", "disk": nil, "gpu": 2, "spot": false, "node_selector": obj{"pool": "cpu"},
		"tolerations": []obj{}, "runtime_class": "kata", "priority_class": nil, "image_pull_secrets": []string{"other"}} {
		other := placed()
		other[field] = value
		if a := r.do("POST", "/sandboxes", other); a.status != http.StatusConflict || !strings.HasSuffix(a.str("detail"), "another "+field) {
			t.Errorf("another %s: %d %s", field, a.status, a.raw)
		}
	}
	r.do("POST", "/sandboxes", obj{"image": "i", "sandbox_id": "plain", "cpu": 2})
	if a := r.do("POST", "/sandboxes", obj{"image": "i", "sandbox_id": "plain", "cpu": 2, "cpu_request": 2}); a.status != 200 {
		t.Errorf("a request that is the limit differs from none: %s", a.raw)
	}
}

func TestPlacementRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for _, c := range []struct {
		name  string
		field string
		value any
		want  string
	}{
		{"request over limit", "cpu_request", 3, `cpu_request 3 is over cpu, which is 2`},
		{"memory request over limit", "memory_request", "3Gi", `memory_request 3Gi is over memory, which is 2Gi`},
		{"request over the default limit", "cpu_request", "100", "is over cpu"},
		{"request", "memory_request", "much", "is not a quantity"},
		{"disk", "disk", "-1Gi", "is not a quantity"},
		{"half a gpu", "gpu", 0.5, "gpu must be a whole number from 0 to 64"},
		{"minus a gpu", "gpu", -1, "gpu must be"},
		{"too many", "gpu", 1e9, "gpu must be"},
		{"no number", "gpu", "all", "gpu must be"},
		{"selector", "node_selector", obj{"a b": "c"}, "is not a Kubernetes label"},
		{"selector's type", "node_selector", "pool=gpu", "not a valid dict"},
		{"tolerations' type", "tolerations", obj{}, "is not a list of {key"},
		{"operator", "tolerations", []obj{{"key": "a", "operator": "In"}}, `["body","tolerations",0,"operator"]`},
		{"exists with value", "tolerations", []obj{{"key": "a"}, {"key": "a", "operator": "Exists", "value": "b"}}, `["body","tolerations",1,"value"]`},
		{"no key", "tolerations", []obj{{"value": "b"}}, `["body","tolerations",0,"key"]`},
		{"effect", "tolerations", []obj{{"key": "a", "effect": "Never"}}, `["body","tolerations",0,"effect"]`},
		{"class", "runtime_class", "Gvisor", "is not the name of a Kubernetes object"},
		{"priority", "priority_class", "a/b", "is not the name of a Kubernetes object"},
		{"secret", "image_pull_secrets", []string{"ok", "../x"}, "is not the name of a Kubernetes object"},
		{"secrets' type", "image_pull_secrets", "regcred", "not a valid list"},
	} {
		a := r.do("POST", "/sandboxes", obj{"image": "i", "cpu": 2, "memory": "2Gi", c.field: c.value})
		if a.status != http.StatusUnprocessableEntity || !strings.Contains(string(a.raw), c.want) || !strings.Contains(string(a.raw), `"`+c.field+`"`) {
			t.Errorf("%s: %d %s, want 422 with %s", c.name, a.status, a.raw, c.want)
		}
	}
	if r.rt.Starts() != 0 {
		t.Errorf("%d sandboxes started", r.rt.Starts())
	}
}

// What reaches beyond a sandbox is for admins, unless the operator says otherwise.
func TestPlacementAllowed(t *testing.T) {
	t.Parallel()
	fields := map[string]any{"node_selector": obj{"pool": "a"}, "tolerations": []obj{{"operator": "Exists"}}, "priority_class": "system-cluster-critical",
		"image_pull_secrets": []string{"regcred"}, "runtime_class": "gvisor"}
	for name, c := range map[string]struct {
		allow []string // nil is the default
		taken string
	}{
		"default": {nil, ""}, "by name": {[]string{"runtime_class"}, "runtime_class"}, "by value": {[]string{"node_selector=pool", "runtime_class=kata", "image_pull_secrets=regcred"}, "node_selector image_pull_secrets"},
	} {
		r := newRig(t, func(s *control.Settings) {
			s.KeysFile = keyFile(t, "")
			if c.allow != nil {
				s.AllowPlacement = c.allow
			}
		})
		for field, value := range fields {
			want := http.StatusUnprocessableEntity
			if strings.Contains(c.taken, field) {
				want = http.StatusOK
			}
			a := r.as(aliceKey, "POST", "/sandboxes", obj{"image": "i", field: value})
			if a.status != want || want != http.StatusOK && (a.json["refused"] != true || !strings.Contains(string(a.raw), "--allow-placement")) {
				t.Errorf("%s: %s answers %d %s, want %d", name, field, a.status, a.raw, want)
			}
			if a := r.as(rootKey, "POST", "/sandboxes", obj{"image": "i", field: value}); a.status != http.StatusOK {
				t.Errorf("%s: %s by an admin answers %d %s", name, field, a.status, a.raw)
			}
		}
		for _, open := range []obj{{"gpu": 1}, {"spot": true}, {"disk": "1Gi"}, {"cpu_request": "100m"}} {
			open["image"] = "i"
			if a := r.as(aliceKey, "POST", "/sandboxes", open); a.status != http.StatusOK {
				t.Errorf("%s: %v answers %d %s", name, open, a.status, a.raw)
			}
		}
	}
}
