package control_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"orchard/internal/sandbox/control"
	"orchard/internal/sandbox/sandboxtest/plain"
)

// prepulling is a runtime of one machine that keeps book of what it is to pull.
type prepulling struct {
	*plain.Runtime
	mu  sync.Mutex
	all []control.PrepullState
}

func (p *prepulling) Prepull(_ context.Context, want control.Prepull) (control.PrepullState, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	st := control.PrepullState{Prepull: want, Created: time.Now()}
	for _, image := range want.Images {
		pull := control.Pull{Image: image, Node: "n", Status: control.PullPresent}
		switch image {
		case "slow":
			pull.Status = control.Pulling
		case "none":
			pull.Status, pull.Reason, pull.Message = control.PullFailed, control.ReasonImagePull, "not found"
		}
		st.Pulls = append(st.Pulls, pull)
	}
	p.all = append(p.all, st)
	return st, nil
}

func (p *prepulling) PrepullOf(_ context.Context, id string) (control.PrepullState, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, st := range p.all {
		if st.ID == id {
			return st, nil
		}
	}
	return control.PrepullState{}, control.ErrNotFound
}

func (p *prepulling) Prepulls(context.Context) ([]control.PrepullState, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]control.PrepullState(nil), p.all...), nil
}

func (p *prepulling) DeletePrepull(_ context.Context, id string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, st := range p.all {
		if st.ID == id {
			p.all = append(p.all[:i], p.all[i+1:]...)
			break
		}
	}
	return nil
}

func prepullRig(t *testing.T) *rig {
	t.Helper()
	r := tenantRig(t, "")
	return r.over(&prepulling{Runtime: r.rt})
}

// A pre-pull is its owner's: another's is unknown and is not deleted; an admin sees all.
func TestPrepullsOfOwners(t *testing.T) {
	t.Parallel()
	r := prepullRig(t)
	a := r.as(aliceKey, "POST", "/images/prepull", obj{"images": []string{"one", "none", "slow"}})
	if a.status != 200 || a.str("owner") != "alice" || a.str("status") != "running" || a.json["present"] != 1.0 || a.json["failed"] != 1.0 || a.json["pulling"] != 1.0 {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	path := "/images/prepull/" + a.str("id")
	if a = r.as(aliceKey, "GET", path, nil); a.status != 200 || !strings.Contains(string(a.raw), `{"image":"none","node":"n","status":"failed","reason":"image_pull","message":"not found"}`) {
		t.Errorf("%d %s", a.status, a.raw)
	}
	if a = r.as(bobKey, "GET", path, nil); a.status != 404 {
		t.Errorf("bob sees it: %d %s", a.status, a.raw)
	}
	if a = r.as(bobKey, "DELETE", path, nil); a.status != 200 {
		t.Errorf("bob deletes it: %d %s", a.status, a.raw)
	}
	for key, want := range map[string]int{aliceKey: 1, bobKey: 0, rootKey: 1} {
		if a = r.as(key, "GET", "/images/prepull", nil); a.status != 200 || len(a.json["prepulls"].([]any)) != want || strings.Contains(string(a.raw), "pulls\":[{\"image") {
			t.Errorf("%s lists %s, want %d", key, a.raw, want)
		}
	}
	if a = r.as(bobKey, "POST", "/images/prepull", obj{"images": []string{"one"}, "node_selector": obj{"a": "b"}}); a.status != 422 || a.json["refused"] != true {
		t.Errorf("bob chooses machines: %d %s", a.status, a.raw)
	}
	r.as(aliceKey, "DELETE", path, nil)
	if a = r.as(aliceKey, "GET", path, nil); a.status != 404 {
		t.Errorf("deleted: %d %s", a.status, a.raw)
	}
	for images, want := range map[string]string{"one": "complete", "none": "failed"} {
		if a = r.as(aliceKey, "POST", "/images/prepull", obj{"images": []string{images}}); a.str("status") != want {
			t.Errorf("%s: %s, want %s", images, a.raw, want)
		}
	}
}

// One owner has a few at a time that are not done, and a repeat with the same key is the same.
func TestPrepullsAtATime(t *testing.T) {
	t.Parallel()
	r := prepullRig(t)
	ask := func(key, idempotency string, images ...string) answer {
		return r.do("POST", "/images/prepull", obj{"images": images}, "X-API-Key", key, "Idempotency-Key", idempotency)
	}
	first := ask(aliceKey, "0", "slow")
	for i := 1; i < control.MaxPrepulls; i++ {
		if a := ask(aliceKey, fmt.Sprint(i), "slow"); a.status != 200 || a.str("id") == first.str("id") {
			t.Errorf("another: %d %s", a.status, a.raw)
		}
	}
	if a := ask(aliceKey, "more", "slow"); a.status != 429 || a.header.Get("Retry-After") == "" {
		t.Errorf("one too many: %d %s", a.status, a.raw)
	}
	if a := ask(aliceKey, "0", "slow"); a.status != 200 || a.str("id") != first.str("id") {
		t.Errorf("the first again: %d %s", a.status, a.raw)
	}
	if a := ask(aliceKey, "0", "one"); a.status != 409 {
		t.Errorf("another with its key: %d %s", a.status, a.raw)
	}
	if a := ask(bobKey, "0", "slow"); a.status != 200 || a.str("id") == first.str("id") {
		t.Errorf("bob's: %d %s", a.status, a.raw)
	}
}

// What is no pre-pull is refused by field.
func TestBadPrepulls(t *testing.T) {
	t.Parallel()
	r := prepullRig(t)
	for name, test := range map[string]struct {
		body any
		says string
	}{
		"none":     {obj{}, `"images"`},
		"empty":    {obj{"images": []string{}}, `"images"`},
		"no image": {obj{"images": []string{"a b"}}, `"images"`},
		"twice":    {obj{"images": []string{"a", "a"}}, "twice"},
		"too many": {obj{"images": strings.Split(strings.Repeat("a,", 50)+"a", ",")}, `"images"`},
		"too wide": {obj{"images": []string{"a"}, "at_once": 51}, `"at_once"`},
		"a device": {obj{"images": []string{"a"}, "gpu": 1}, `"gpu"`},
	} {
		if a := r.as(aliceKey, "POST", "/images/prepull", test.body); a.status != 422 || !strings.Contains(string(a.raw), test.says) {
			t.Errorf("%s: %d %s, want %s", name, a.status, a.raw, test.says)
		}
	}
	if a := newRig(t, nil).do("POST", "/images/prepull", obj{"images": []string{"host"}}); a.status != 422 || a.json["refused"] != true {
		t.Errorf("a runtime that pulls nothing: %d %s", a.status, a.raw)
	}
}
