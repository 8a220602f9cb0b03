package control_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"orchard/internal/sandbox"
	"orchard/internal/sandbox/control"
	"orchard/internal/sandbox/egress"
	"orchard/internal/sandbox/sandboxtest/plain"
)

// opening is a runtime of real sandboxes that keeps book of what is open to them.
type opening struct {
	*plain.Runtime
	mu   sync.Mutex
	nets map[string]control.Network
}

func (o *opening) SetEgress(ctx context.Context, id string, rules []sandbox.EgressRule) (control.State, error) {
	o.mu.Lock()
	o.nets[id] = control.Network{Generation: o.nets[id].Generation + 1, Rules: egress.Rules(rules, time.Now())}
	o.mu.Unlock()
	return o.Get(ctx, id)
}

func (o *opening) Get(ctx context.Context, id string) (control.State, error) {
	st, err := o.Runtime.Get(ctx, id)
	o.mu.Lock()
	defer o.mu.Unlock()
	st.Network = o.nets[id]
	return st, err
}

func openingRig(t *testing.T) *rig {
	r := tenantRig(t, "")
	r.set.AllowEgress = []netip.Prefix{netip.MustParsePrefix("10.7.0.0/16")}
	return r.over(&opening{Runtime: r.rt, nets: map[string]control.Network{}})
}

func TestNetwork(t *testing.T) {
	t.Parallel()
	r := openingRig(t)
	r.as(aliceKey, "POST", "/sandboxes", obj{"image": "host", "sandbox_id": "one", "egress": []obj{}})
	got := r.as(aliceKey, "PUT", "/sandboxes/one/network", obj{"egress": []obj{
		{"domain": "*.pypi.org", "seconds": 600}, {"cidr": "203.0.113.0/24", "ports": []any{22, "443"}}, {"cidr": "10.7.1.0/24"}}})
	rules, _ := got.json["egress"].([]any)
	if got.status != 200 || len(rules) != 3 || got.json["generation"] != 1.0 || got.json["block_network"] != true {
		t.Fatalf("got %d %s", got.status, got.raw)
	}
	timed := rules[0].(map[string]any)
	if until, _ := timed["expires_at"].(float64); timed["open"] != true || until < float64(time.Now().Unix()+590) || until > float64(time.Now().Unix()+610) {
		t.Errorf("timed rule %v", timed)
	}
	if again := r.as(aliceKey, "GET", "/sandboxes/one/network", nil); string(again.raw) != string(got.raw) {
		t.Errorf("read back: %s", again.raw)
	}
	if got := r.as(aliceKey, "PUT", "/sandboxes/one/network", obj{"egress": []obj{}}); got.status != 200 || got.json["generation"] != 2.0 {
		t.Errorf("closed again: %d %s", got.status, got.raw)
	}
}

func TestNetworkRefusals(t *testing.T) {
	t.Parallel()
	r := openingRig(t)
	r.as(aliceKey, "POST", "/sandboxes", obj{"image": "host", "sandbox_id": "one"})
	many := make([]obj, sandbox.MaxEgressRules+1)
	for i := range many {
		many[i] = obj{"cidr": "203.0.113.1"}
	}
	for name, c := range map[string]struct {
		egress any
		want   string
	}{
		"no rules":         {nil, "none is not an allowed value"},
		"no list":          {"all", "not a list"},
		"both":             {[]obj{{"cidr": "203.0.113.0/24", "domain": "x.org"}}, "either cidr or domain"},
		"neither":          {[]obj{{"ports": []int{80}}}, "either cidr or domain"},
		"bits":             {[]obj{{"cidr": "203.0.113.7/24"}}, "did you mean 203.0.113.0/24"},
		"no address":       {[]obj{{"cidr": "everything"}}, "neither an address"},
		"capitals":         {[]obj{{"domain": "PyPI.org"}}, "lower-case"},
		"all names":        {[]obj{{"domain": "*"}}, "is not a lower-case name"},
		"port":             {[]obj{{"cidr": "203.0.113.0/24", "ports": []int{0}}}, "is not a port from 1"},
		"port of the 2nd":  {[]obj{{"domain": "x.org"}, {"domain": "x.org", "ports": []int{65536}}}, `"egress",1,"ports"`},
		"seconds":          {[]obj{{"domain": "x.org", "seconds": -1}}, "greater than or equal to 0"},
		"too many":         {many, "over the 256"},
		"metadata":         {[]obj{{"cidr": "169.254.169.254"}}, "--allow-egress"},
		"part of private":  {[]obj{{"cidr": "10.6.0.0/16"}}, "--allow-egress"},
		"more than let be": {[]obj{{"cidr": "10.0.0.0/8"}}, "--allow-egress"},
	} {
		for _, via := range []struct{ method, path string }{{"PUT", "/sandboxes/one/network"}, {"POST", "/sandboxes"}} {
			if via.method == "POST" && c.egress == nil {
				continue
			}
			got := r.as(aliceKey, via.method, via.path, obj{"image": "host", "egress": c.egress})
			if got.status != 422 || !strings.Contains(string(got.raw), c.want) {
				t.Errorf("%s by %s: %d %s, want %q", name, via.method, got.status, got.raw, c.want)
			}
		}
	}
	r.as(rootKey, "POST", "/sandboxes", obj{"image": "host", "sandbox_id": "two"})
	if got := r.as(rootKey, "PUT", "/sandboxes/two/network", obj{"egress": []obj{{"cidr": "169.254.169.254"}}}); got.status != 200 {
		t.Errorf("an admin: %d %s", got.status, got.raw)
	}
	if got := r.as(aliceKey, "POST", "/sandboxes", obj{"image": "host", "block_network": false, "egress": []obj{{"cidr": "203.0.113.1"}}}); got.status != 422 || !strings.Contains(string(got.raw), "everything is open") {
		t.Errorf("rules for an open network: %d %s", got.status, got.raw)
	}
}

// A runtime that cannot open anything says so instead of leaving it closed without a word.
func TestNetworkNotServed(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := r.box()
	rule := []obj{{"domain": "pypi.org"}}
	for _, got := range []answer{r.do("PUT", "/sandboxes/"+id+"/network", obj{"egress": rule}), r.do("POST", "/sandboxes", obj{"image": "host", "egress": rule})} {
		if got.status != 422 || got.json["refused"] != true || !strings.Contains(string(got.raw), "opens nothing to single sandboxes") {
			t.Errorf("got %d %s", got.status, got.raw)
		}
	}
	if got := r.do("PUT", "/sandboxes/"+id+"/network", obj{"egress": []obj{}}); got.status != 200 {
		t.Errorf("nothing to open: %d %s", got.status, got.raw)
	}
}

// unreachable is a runtime whose cluster does not answer.
type unreachable struct{ *plain.Runtime }

func (unreachable) Get(context.Context, string) (control.State, error) {
	return control.State{}, errors.New("the API server does not answer")
}

// What could not be asked is no fault of the service and no end of the sandbox: the client
// comes again.
func TestRuntimeAway(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := r.box()
	job := r.run(id, obj{"command": "true"}).str("job_id")
	r = r.over(unreachable{r.rt})
	for _, path := range []string{"/sandboxes/" + id, "/sandboxes/" + id + "/wait", "/sandboxes/" + id + "/events", "/sandboxes/" + id + "/files?path=/x",
		"/jobs/" + job, "/jobs/" + job + "/wait", "/jobs/" + job + "/output"} {
		if a := r.do("GET", path, nil); a.status != 503 || a.header.Get("Retry-After") == "" || !strings.Contains(a.str("detail"), "does not answer") {
			t.Errorf("GET %s: %d %s", path, a.status, a.raw)
		}
	}
	for _, path := range []string{"/sandboxes/" + id + "/exec", "/sandboxes/" + id + "/heartbeat", "/jobs/" + job + "/kill"} {
		if a := r.do("POST", path, obj{"command": "true"}); a.status != 503 || a.header.Get("Retry-After") == "" {
			t.Errorf("POST %s: %d %s", path, a.status, a.raw)
		}
	}
	if a := r.do("DELETE", "/sandboxes/"+id, nil); a.status != 503 {
		t.Errorf("DELETE: %d %s", a.status, a.raw)
	}
}
