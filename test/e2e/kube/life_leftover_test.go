package kube_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"orchard/envctl/client"
)

// D4: Pods and NetworkPolicies of sandboxes that are long gone pile up. Sandboxes come and go
// while each replica is killed in turn.
func TestD4_NothingIsLeftOver(t *testing.T) {
	each := 4
	if soak {
		each = 60
	}
	AllReady(t)
	c, prefix := SDK(t, Controller(t).URL), fmt.Sprint("d4-", time.Now().UnixNano())
	var workers sync.WaitGroup
	var left atomic.Int32
	for w := range 8 {
		left.Add(1)
		workers.Go(func() {
			defer left.Add(-1)
			for i := range each {
				spec := Roomy(bareImage)
				// Every other one has a policy of its own; some are deleted as they start.
				spec.ID, spec.OpenNetwork = fmt.Sprintf("%s-%d-%d", prefix, w, i), i%2 == 0
				s, _, err := c.Begin(t.Context(), spec)
				if err == nil && rand.N(3) > 0 {
					_, err = s.Wait(t.Context(), patience, nil)
				}
				if err == nil {
					err = s.Delete(t.Context())
				}
				if err != nil {
					t.Errorf("sandbox %s: %v", spec.ID, err)
				}
			}
		})
	}
	kills := 0
	for _, p := range controllerPods(t.Context(), t) {
		time.Sleep(time.Duration(rand.N(1500)) * time.Millisecond)
		if left.Load() > 0 {
			KillContainer(t, p)
			kills++
		}
		AllReady(t)
	}
	workers.Wait()
	if kills == 0 {
		t.Error("no replica was killed while sandboxes came and went")
	}
	Eventually(t, "nothing left over", func(context.Context) string { return strings.Join(leftovers(t.Context(), t, prefix), ", ") })
}

// D5: what a controller was doing as it was killed is never finished: the Pod stays.
func TestD5_AKilledReplicaLeaksNothing(t *testing.T) {
	AllReady(t)
	c, prefix := SDK(t, Controller(t).URL), fmt.Sprint("d5-", time.Now().UnixNano())
	spec := func(i int) client.Spec {
		s := Roomy(bareImage)
		s.ID, s.OpenNetwork = fmt.Sprintf("%s-%d", prefix, i), true
		return s
	}
	const n = 8
	var ready sync.WaitGroup
	for i := range n {
		ready.Go(func() {
			if _, err := c.Create(t.Context(), spec(i)); err != nil {
				t.Error(err)
			}
		})
	}
	ready.Wait()
	// Every one is ended, as many others are made, by requests that are sent once; all replicas
	// are killed meanwhile.
	all, pods := Replicas(t), controllerPods(t.Context(), t)
	var going sync.WaitGroup
	var said [2 * n]int
	for i := range 2 * n {
		going.Go(func() {
			url := all[i%len(all)] + "/sandboxes"
			var a Answer
			if i < n {
				a, _ = Request(t.Context(), t, "DELETE", url+"/"+spec(i).ID, nil) // an answer that does not come is 0
			} else {
				a, _ = Request(t.Context(), t, "POST", url, map[string]any{"image": bareImage, "sandbox_id": spec(i).ID, "block_network": false, "cpu_request": "10m", "lifetime_seconds": 600})
			}
			said[i] = a.Status
		})
	}
	time.Sleep(time.Duration(rand.N(60)) * time.Millisecond)
	for _, p := range pods {
		KillContainer(t, p)
	}
	going.Wait()
	t.Logf("answers: %v", said)
	AllReady(t)
	for i := range n {
		if said[i] == http.StatusOK {
			Gone(t, spec(i).ID)
		}
	}
	for i := range 2 * n {
		s := c.Sandbox(spec(i).ID)
		info, err := s.Info(t.Context())
		if i >= n && said[i] == http.StatusOK && (err != nil || info.Status == client.Failed) {
			t.Errorf("sandbox %s was made, and is: %v, %s %s", s.ID(), err, info.Status, info.Message)
		}
		if err := s.Delete(t.Context()); err != nil {
			t.Error(err)
		}
	}
	Eventually(t, "nothing left over", func(context.Context) string { return strings.Join(leftovers(t.Context(), t, prefix), ", ") })
}

// D6: the answer to a create is lost, the client asks again, and has two sandboxes.
func TestD6_EqualCreatesAreOneSandbox(t *testing.T) {
	t.Parallel()
	all, label := Replicas(t), fmt.Sprint("d6-", time.Now().UnixNano())
	for name, c := range map[string]struct {
		id     any
		header []string
	}{"id": {label, nil}, "key": {nil, []string{"Idempotency-Key", label}}} {
		body := map[string]any{"image": bareImage, "sandbox_id": c.id, "labels": map[string]string{"d6": label + name}, "cpu_request": "10m", "memory": "128Mi", "lifetime_seconds": 600}
		ids := make(chan string, 50)
		var askers sync.WaitGroup
		for i := range 50 {
			askers.Go(func() {
				a, err := Request(t.Context(), t, "POST", all[i%len(all)]+"/sandboxes", body, c.header...)
				if err != nil || a.Status != http.StatusOK {
					t.Errorf("%s: %v, %d: %s", name, err, a.Status, a.Body)
					return
				}
				var made client.Info
				into(t, a, &made)
				ids <- made.ID
			})
		}
		askers.Wait()
		close(ids)
		one := map[string]bool{}
		for id := range ids {
			one[id] = true
		}
		pods := 0
		for _, p := range podsOf(t.Context(), t, "") {
			if strings.Contains(p.Annotations["orchard.dev/spec"], label+name) {
				pods++
			}
		}
		if len(one) != 1 || pods != 1 {
			t.Errorf("%s: 50 creates are %d sandboxes, %d Pods", name, len(one), pods)
		}
		body["memory"] = "96Mi"
		if a := Reply(t, "POST", all[1]+"/sandboxes", body, c.header...); a.Status != http.StatusConflict || !strings.Contains(a.Detail(), "memory") {
			t.Errorf("%s, another spec: %d: %s", name, a.Status, a.Body)
		}
		for id := range one {
			if a := Reply(t, "DELETE", all[2]+"/sandboxes/"+id, nil); a.Status != http.StatusOK {
				t.Errorf("delete: %d: %s", a.Status, a.Body)
			}
			Gone(t, id)
		}
	}
}
