package control_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestQuotaOfSandboxes(t *testing.T) {
	t.Parallel()
	r := tenantRig(t, "sandboxes: 2, cpu: 3, memory: 4Gi")
	create := func(id string, more obj) answer {
		body := obj{"image": "i", "sandbox_id": id, "cpu": 1, "memory": "1Gi"}
		for k, v := range more {
			body[k] = v
		}
		return r.as(aliceKey, "POST", "/sandboxes", body)
	}
	create("one", nil)
	if a := create("big", obj{"cpu": 4}); a.status != 422 || a.json["refused"] != true || !strings.Contains(a.str("detail"), `quota of key "alice" is 3`) {
		t.Errorf("more than the quota alone: %d %s", a.status, a.raw)
	}
	for quota, more := range map[string]obj{"cpu": {"cpu": "2500m"}, "memory": {"memory": "3.5Gi"}} {
		if a := create("more", more); a.status != 429 || a.header.Get("Retry-After") == "" || !strings.Contains(a.str("detail"), "quota "+quota+` of key "alice" is`) {
			t.Errorf("over the quota of %s: %d %s", quota, a.status, a.raw)
		}
	}
	create("two", nil)
	if a := create("three", nil); a.status != 429 || a.str("detail") != `quota sandboxes of key "alice" is 2, in use are 2` {
		t.Errorf("a third: %d %s", a.status, a.raw)
	}
	if a := create("two", nil); a.status != 200 {
		t.Errorf("the same again at the quota: %d %s", a.status, a.raw)
	}
	if a := r.as(bobKey, "POST", "/sandboxes", obj{"image": "i", "sandbox_id": "bobs"}); a.status != 200 {
		t.Errorf("bob's, who has no quota: %d %s", a.status, a.raw)
	}
	r.as(aliceKey, "DELETE", "/sandboxes/one", nil)
	if a := create("three", nil); a.status != 200 {
		t.Errorf("after one ended: %d %s", a.status, a.raw)
	}
	if a := r.as(aliceKey, "POST", "/sandboxes", obj{"image": "never", "cpu": 1, "memory": "1Gi"}); a.status != 429 {
		t.Errorf("a bad image at the quota: %d %s", a.status, a.raw)
	}
	if m := string(r.do("GET", "/metrics", nil).raw); !strings.Contains(m, `orchard_quota_refusals_total{owner="alice",quota="sandboxes"} 2`) {
		t.Error("the metrics do not count refusals")
	}
}

// Creates at the same time do not go over together; one that is refused is given back.
func TestQuotaOfConcurrentCreates(t *testing.T) {
	t.Parallel()
	r := tenantRig(t, "sandboxes: 5")
	for range 8 {
		if a := r.as(aliceKey, "POST", "/sandboxes", obj{"image": "never"}); a.status != 422 {
			t.Fatalf("a bad image: %d %s", a.status, a.raw)
		}
	}
	var wg sync.WaitGroup
	var made, refused atomic.Int64
	for i := range 25 {
		wg.Go(func() {
			switch a := r.as(aliceKey, "POST", "/sandboxes", obj{"image": "i", "sandbox_id": fmt.Sprint("s", i)}); a.status {
			case 200:
				made.Add(1)
			case 429:
				refused.Add(1)
			default:
				t.Errorf("create: %d %s", a.status, a.raw)
			}
		})
	}
	wg.Wait()
	if made.Load() != 5 || refused.Load() != 20 {
		t.Errorf("%d made and %d refused, want 5 and 20", made.Load(), refused.Load())
	}
}

func TestQuotaOfCreatesPerMinute(t *testing.T) {
	t.Parallel()
	r := tenantRig(t, "creates_per_minute: 2")
	var clock atomic.Int64
	clock.Store(time.Now().Unix())
	r.s.SetClock(func() time.Time { return time.Unix(clock.Load(), 0) })
	create := func() answer { return r.as(aliceKey, "POST", "/sandboxes", obj{"image": "i"}) }
	create()
	clock.Add(20)
	create()
	if a := create(); a.status != 429 || a.header.Get("Retry-After") != "40" {
		t.Errorf("a third within a minute: %d, Retry-After %q, %s", a.status, a.header.Get("Retry-After"), a.raw)
	}
	clock.Add(40)
	if a := create(); a.status != 200 {
		t.Errorf("after the first one's minute: %d %s", a.status, a.raw)
	}
	if a := create(); a.status != 429 || a.header.Get("Retry-After") != "20" {
		t.Errorf("the next: %d, Retry-After %q", a.status, a.header.Get("Retry-After"))
	}
}

func TestQuotaOfExecs(t *testing.T) {
	t.Parallel()
	r := tenantRig(t, "execs_in_flight: 1")
	for _, c := range []struct{ key, id string }{{aliceKey, "hers"}, {bobKey, "his"}} {
		r.as(c.key, "POST", "/sandboxes", obj{"image": "i", "sandbox_id": c.id})
	}
	run := func(key, id, command string) answer {
		return r.as(key, "POST", "/sandboxes/"+id+"/exec", obj{"command": command, "wait": true, "concurrent": true})
	}
	gate := r.work + "/go"
	first := make(chan answer, 1)
	go func() { first <- run(aliceKey, "hers", "touch begun; until test -e "+gate+"; do sleep 0.05; done") }()
	eventually(t, "a command under way", func() bool { return exists(r.work + "/begun") })
	if a := run(aliceKey, "hers", "true"); a.status != 429 || a.header.Get("Retry-After") == "" || !strings.Contains(a.str("detail"), "execs_in_flight") {
		t.Errorf("a second at a time: %d %s", a.status, a.raw)
	}
	if a := run(bobKey, "his", "touch "+gate); a.str("status") != "succeeded" {
		t.Errorf("bob's: %d %s", a.status, a.raw)
	}
	if a := <-first; a.str("status") != "succeeded" {
		t.Errorf("the first: %d %s", a.status, a.raw)
	}
	if a := run(aliceKey, "hers", "true"); a.str("status") != "succeeded" {
		t.Errorf("after the first: %d %s", a.status, a.raw)
	}
}
