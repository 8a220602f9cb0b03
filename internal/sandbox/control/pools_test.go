package control_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"orchard/internal/sandbox/control"
	"orchard/internal/sandbox/sandboxtest/plain"
)

// pooling is a runtime of real sandboxes that keeps book of pools.
type pooling struct {
	*plain.Runtime
	mu    sync.Mutex
	pools map[string]control.PoolState
}

func (p *pooling) SetPool(_ context.Context, pool control.Pool) (control.PoolState, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if old, ok := p.pools[pool.Name]; ok && old.Spec.Owner != pool.Spec.Owner {
		return control.PoolState{}, control.ErrExists
	}
	p.pools[pool.Name] = control.PoolState{Pool: pool, Starting: pool.Size}
	return p.pools[pool.Name], nil
}

func (p *pooling) Pool(_ context.Context, name string) (control.PoolState, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	st, ok := p.pools[name]
	if !ok {
		return st, control.ErrNotFound
	}
	return st, nil
}

func (p *pooling) Pools(context.Context) (all []control.PoolState, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, st := range p.pools {
		all = append(all, st)
	}
	slices.SortFunc(all, func(a, b control.PoolState) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

func (p *pooling) DeletePool(_ context.Context, name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pools, name)
	return nil
}

func poolingRig(t *testing.T, quota string) *rig {
	t.Helper()
	r := tenantRig(t, quota)
	return r.over(&pooling{Runtime: r.rt, pools: map[string]control.PoolState{}})
}

// A pool is its owner's: another's is unknown, its name is taken, and it is not deleted.
func TestPoolsOfOwners(t *testing.T) {
	t.Parallel()
	r := poolingRig(t, "")
	a := r.as(aliceKey, "PUT", "/pools/hers", obj{"image": "image:1", "size": 3, "cpu": "500m"})
	if a.status != 200 || a.str("owner") != "alice" || a.json["size"] != 3.0 || a.json["starting"] != 3.0 || a.str("cpu") != "500m" {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	if a = r.as(bobKey, "GET", "/pools/hers", nil); a.status != 404 {
		t.Errorf("bob sees it: %d %s", a.status, a.raw)
	}
	if a = r.as(bobKey, "PUT", "/pools/hers", obj{"image": "image:1", "size": 0}); a.status != 409 {
		t.Errorf("bob changes it: %d %s", a.status, a.raw)
	}
	if a = r.as(bobKey, "DELETE", "/pools/hers", nil); a.status != 200 {
		t.Errorf("bob deletes it: %d %s", a.status, a.raw)
	}
	for key, want := range map[string]int{aliceKey: 1, bobKey: 0, rootKey: 1} {
		if a = r.as(key, "GET", "/pools", nil); a.status != 200 || len(a.json["pools"].([]any)) != want {
			t.Errorf("%s lists %s, want %d", key, a.raw, want)
		}
	}
	if a = r.as(bobKey, "PUT", "/pools/all", obj{"image": "image:1", "size": 1, "shared": true}); a.status != 422 || a.json["refused"] != true {
		t.Errorf("bob makes everybody's: %d %s", a.status, a.raw)
	}
	if a = r.as(bobKey, "PUT", "/pools/his", obj{"image": "image:1", "size": 1, "runtime_class": "runc"}); a.status != 422 {
		t.Errorf("bob chooses machines: %d %s", a.status, a.raw)
	}
	if a = r.as(rootKey, "PUT", "/pools/all", obj{"image": "image:1", "size": 1, "shared": true}); a.status != 200 || a.json["shared"] != true {
		t.Errorf("an admin makes everybody's: %d %s", a.status, a.raw)
	}
	r.as(aliceKey, "DELETE", "/pools/hers", nil)
	if a = r.as(aliceKey, "GET", "/pools/hers", nil); a.status != 404 {
		t.Errorf("deleted: %d %s", a.status, a.raw)
	}
}

// What is no pool is refused by field.
func TestBadPools(t *testing.T) {
	t.Parallel()
	r := poolingRig(t, "")
	for name, test := range map[string]struct {
		path string
		body any
		says string
	}{
		"no image":  {"/pools/p", obj{"size": 1}, `"image"`},
		"no size":   {"/pools/p", obj{"image": "a"}, `"size"`},
		"half":      {"/pools/p", obj{"image": "a", "size": 1.5}, `"size"`},
		"below":     {"/pools/p", obj{"image": "a", "size": -1}, `"size"`},
		"too many":  {"/pools/p", obj{"image": "a", "size": 501}, `"size"`},
		"name":      {"/pools/Not_One", obj{"image": "a", "size": 1}, `"name"`},
		"a secret":  {"/pools/p", obj{"image": "a", "size": 1, "env": obj{"A": "b"}}, `"env"`},
		"open":      {"/pools/p", obj{"image": "a", "size": 1, "block_network": false}, `"block_network"`},
		"bad limit": {"/pools/p", obj{"image": "a", "size": 1, "cpu": "lots"}, `"cpu"`},
	} {
		if a := r.as(aliceKey, "PUT", test.path, test.body); a.status != http.StatusUnprocessableEntity || !strings.Contains(string(a.raw), test.says) {
			t.Errorf("%s: %d %s, want %s", name, a.status, a.raw, test.says)
		}
	}
	if a := newRig(t, nil).do("PUT", "/pools/p", obj{"image": "host", "size": 1}); a.status != 422 || !strings.Contains(string(a.raw), "keeps no pools") {
		t.Errorf("a runtime without pools: %d %s", a.status, a.raw)
	}
}

// A pool holds its size of its owner's quota; sandboxes count beside it.
func TestPoolsAndQuota(t *testing.T) {
	t.Parallel()
	r := poolingRig(t, "sandboxes: 4, cpu: 10")
	put := func(name string, size int, cpu string) int {
		return r.as(aliceKey, "PUT", "/pools/"+name, obj{"image": "image:1", "size": size, "cpu": cpu}).status
	}
	if got := put("p", 3, "1"); got != 200 {
		t.Fatalf("three of four: %d", got)
	}
	if got := put("q", 2, "1"); got != 429 {
		t.Errorf("two more: %d", got)
	}
	if got := put("p", 4, "1"); got != 200 { // instead of the three
		t.Errorf("four of four: %d", got)
	}
	if got := put("p", 3, "4"); got != 429 {
		t.Errorf("12 of 10 processors: %d", got)
	}
	if got := put("p", 3, "1"); got != 200 {
		t.Errorf("three again: %d", got)
	}
	create := func() answer { return r.as(aliceKey, "POST", "/sandboxes", obj{"image": "host", "cpu": "1"}) }
	if a := create(); a.status != 200 {
		t.Errorf("one sandbox beside three: %d %s", a.status, a.raw)
	}
	if a := create(); a.status != 429 || !strings.Contains(string(a.raw), "in use are 4") {
		t.Errorf("a second one: %d %s", a.status, a.raw)
	}
	if got := r.as(bobKey, "PUT", "/pools/his", obj{"image": "image:1", "size": 400}).status; got != 200 {
		t.Errorf("bob has no quota: %d", got)
	}
}
