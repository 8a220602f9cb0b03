package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"orchard/internal/sandbox"
	"orchard/internal/sandbox/control"
)

// smallPool keeps what small makes.
func smallPool(name, owner, image string, size int) control.Pool {
	spec := small(image)
	return control.Pool{Name: name, Size: size, Spec: sandbox.Spec{Owner: owner, Image: image, CPU: spec.CPU, Memory: spec.Memory, Reserve: spec.Reserve}}
}

func smallOf(owner, image string) sandbox.Spec {
	spec := small(image)
	spec.Owner = owner
	return spec
}

// watchIdle counts the idle Pods that the cluster makes, and the most there are at a time
// of each pool, until stop, which waits until it has seen want of each. A watch that the API
// server ends, as it does when it is busy, is taken up again.
func (s *site) watchIdle(t *testing.T) (stop func(want int, pools ...string) (made, most map[string]int)) {
	t.Helper()
	pods := informers.NewSharedInformerFactoryWithOptions(s.client, 0, informers.WithNamespace(s.opts.Namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = labelApp + "=" + appSandbox })).Core().V1().Pods().Informer()
	var mu sync.Mutex
	made, most, idle := map[string]int{}, map[string]int{}, map[string]string{} // the last is UID to pool
	see := func(pool string, pod *corev1.Pod, added bool) {
		mu.Lock()
		defer mu.Unlock()
		uid := string(pod.UID)
		if pool != "" && idle[uid] == "" && added {
			made[pool]++
		}
		idle[uid] = pool
		now := map[string]int{}
		for _, pool := range idle {
			if pool != "" {
				now[pool]++
				most[pool] = max(most[pool], now[pool])
			}
		}
	}
	_, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { see(poolOf(o.(*corev1.Pod)), o.(*corev1.Pod), true) },
		UpdateFunc: func(_, o any) { see(poolOf(o.(*corev1.Pod)), o.(*corev1.Pod), false) },
		DeleteFunc: func(o any) {
			if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = last.Obj
			}
			see("", o.(*corev1.Pod), false)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var over sync.WaitGroup
	over.Go(func() { pods.Run(ctx.Done()) })
	t.Cleanup(func() { cancel(); over.Wait() })
	if !cache.WaitForCacheSync(t.Context().Done(), pods.HasSynced) {
		t.Fatal("the Pods are not listed")
	}
	return func(want int, pools ...string) (map[string]int, map[string]int) {
		until(t, "the watch to have seen all Pods", func() (bool, string) {
			mu.Lock()
			defer mu.Unlock()
			return !slices.ContainsFunc(pools, func(p string) bool { return made[p] < want }), fmt.Sprint(made)
		})
		cancel()
		over.Wait()
		return made, most
	}
}

// F1: five pools that three replicas are asked for at once make the Pods that they want, never more.
func TestClusterPoolsFillOnce(t *testing.T) {
	t.Parallel()
	size := 2
	if os.Getenv("ORCHARD_SOAK") == "1" {
		size = 5
	}
	s := newSite(t)
	replicas := []*Runtime{s.open(t), s.open(t), s.open(t)}
	stop := s.watchIdle(t)
	var all sync.WaitGroup
	for i := range 5 {
		for _, r := range replicas {
			all.Go(func() {
				if _, err := r.SetPool(t.Context(), smallPool(fmt.Sprintf("p%d", i), "ann", imageBare, size)); err != nil {
					t.Error(err)
				}
			})
		}
	}
	all.Wait()
	for i := range 5 {
		full(t, fmt.Sprintf("p%d", i), size, replicas...)
	}
	made, most := stop(size, "p0", "p1", "p2", "p3", "p4")
	for i := range 5 {
		if name := fmt.Sprintf("p%d", i); made[name] != size || most[name] != size {
			t.Errorf("pool %s: %d Pods were made, at most %d at a time, want %d", name, made[name], most[name], size)
		}
	}
}

// F2: a pool whose image cannot be had backs off, and says why.
func TestClusterPoolBacksOff(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	replicas := []*Runtime{s.open(t), s.open(t)}
	stop := s.watchIdle(t)
	if _, err := replicas[0].SetPool(t.Context(), smallPool("p", "ann", "198.18.0.9:5000/none/such:1", 3)); err != nil {
		t.Fatal(err)
	}
	until(t, "the pool to give up for now", func() (bool, string) {
		st, err := replicas[1].Pool(t.Context(), "p")
		return st.Failures > 0 && strings.Contains(st.Message, "198.18.0.9") && !st.RetryAt.IsZero(), fmt.Sprintf("%+v, %v", st, err)
	})
	if made, most := stop(3, "p"); made["p"] > 3 || most["p"] > 3 {
		t.Errorf("%d Pods were made, %d at a time, before the first failure; want 3", made["p"], most["p"])
	}
}

// A claimed sandbox is as one that was made for its user: variables, folder, deadline,
// closed network, any replica, and an end that is known. F4: nothing of another's is in it.
func TestClusterClaim(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	replicas := []*Runtime{s.open(t), s.open(t)}
	setPool(t, smallPool("anns", "ann", imageBash, 1), replicas...)
	setPool(t, smallPool("bobs", "bob", imageBash, 1), replicas...)
	boxes := map[string]control.State{}
	for _, owner := range []string{"ann", "bob"} {
		spec := smallOf(owner, imageBash)
		spec.Env, spec.Workdir = map[string]string{"SECRET": "of " + owner}, "/data/"+owner
		st, err := replicas[0].Start(t.Context(), spec)
		if err != nil || st.Phase != control.Ready || !strings.HasPrefix(st.Pod, "warm-"+owner+"s-") {
			t.Fatalf("%s: %+v, %v", owner, st, err)
		}
		if out, code := exec(t, replicas[1], spec.ID, "/bin/bash", "-c", `echo "$SECRET $PWD"; env | grep -c SECRET`); code != 0 || out != "of "+owner+" /data/"+owner+"\n1\n" {
			t.Errorf("%s: exit %d, %q", owner, code, out)
		}
		boxes[owner] = st
	}
	// With nothing left that is its own, a third one is made, not taken.
	if st, err := replicas[0].Start(t.Context(), smallOf("eve", imageBash)); err != nil || st.Pod != "" {
		t.Errorf("somebody without a pool got %+v, %v", st, err)
	}
	st := boxes["ann"]
	pod, err := s.client.CoreV1().Pods(s.opts.Namespace).Get(t.Context(), st.Pod, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if left := pod.Status.StartTime.Add(time.Duration(*pod.Spec.ActiveDeadlineSeconds) * time.Second).Sub(st.ExpiresAt); left < 0 || left > 5*time.Second {
		t.Errorf("the kubelet ends it %v after %v", left, st.ExpiresAt)
	}
	if text := fmt.Sprint(pod.Labels, pod.Annotations, pod.Spec.Containers); strings.Contains(text, "of ann") {
		t.Error("its environment is where others may look")
	}
	if err := replicas[1].Stop(t.Context(), st.Spec.ID, control.ReasonDeleted); err != nil {
		t.Fatal(err)
	}
	ends(t, replicas[0], st.Spec.ID, control.ReasonDeleted)
	full(t, "anns", 1, replicas...)
	until(t, "its ticket to go", func() (bool, string) {
		pods, _ := s.left(t)
		return !slices.Contains(pods, podName(st.Spec.ID)), strings.Join(pods, " ")
	})
}

// The lifetime of a claimed sandbox counts from its claim, and the kubelet keeps to it.
func TestClusterClaimedLifetime(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.open(t)
	setPool(t, smallPool("p", "ann", imageBare, 1), r)
	spec := smallOf("ann", imageBare)
	spec.Lifetime = 10 * time.Second
	st, err := r.Start(t.Context(), spec)
	if err != nil || st.Pod == "" {
		t.Fatalf("%+v, %v", st, err)
	}
	if st = ends(t, r, spec.ID, control.ReasonLifetime); st.Ended.Sub(st.Created) < spec.Lifetime-2*time.Second {
		t.Errorf("it ended %v after its claim", st.Ended.Sub(st.Created))
	}
}

// E3: one id asked for at once of three replicas is one sandbox, whether it is claimed or
// made. F5: what is claimed serves at once.
func TestClusterOneID(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	replicas := []*Runtime{s.open(t), s.open(t), s.open(t)}
	setPool(t, smallPool("p", "ann", imageBare, 3), replicas...)
	replicas[2].mu.Lock()
	for _, e := range replicas[2].warm { // it knows of none, as one whose watch is behind
		e.aside = true
	}
	replicas[2].mu.Unlock()
	spec := smallOf("ann", imageBare)
	var made atomic.Int32
	var uids sync.Map
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			st, err := replicas[i%3].Start(t.Context(), spec)
			if err == nil {
				made.Add(1)
			} else if !errors.Is(err, control.ErrExists) {
				t.Errorf("start: %v", err)
			}
			uids.Store(st.UID, true)
		})
	}
	all.Wait()
	n := 0
	uids.Range(func(any, any) bool { n++; return true })
	if made.Load() != 1 || n != 1 {
		t.Errorf("%d made it, %d UIDs", made.Load(), n)
	}
	if st := reach(t, replicas[0], spec.ID, control.Ready); st.Pod != "" {
		exec(t, replicas[1], spec.ID, "/bare", "exit", "0")
	}
}

// What a claim takes, over HTTP from the request to a sandbox that is ready, against one
// that is made; the ratio is printed, and only that it is faster is asserted.
func TestClusterClaimTime(t *testing.T) {
	if os.Getenv("ORCHARD_SOAK") == "" {
		t.Skip("a measurement: set ORCHARD_SOAK=1")
	}
	s := newSite(t)
	r := s.open(t)
	set := control.Defaults()
	set.RequireKey = false
	service, err := control.New(r, set)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(service)
	t.Cleanup(server.Close)
	t.Cleanup(service.Drain)
	ask := func(method, path string, body any) (answer struct {
		ID    string `json:"sandbox_id"`
		Pod   string `json:"pod_name"`
		Ready any    `json:"ready"` // of a pool a number
	}) {
		raw, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s %s: %s, %v", method, path, resp.Status, err)
		}
		return answer
	}
	const rounds = 5
	shape := map[string]any{"image": imageBare, "cpu": "500m", "memory": "128Mi", "cpu_request": "20m", "memory_request": "32Mi", "size": rounds}
	took := func(prefix string) time.Duration {
		var all []time.Duration
		for range rounds {
			began := time.Now()
			id := ask("POST", "/sandboxes", shape).ID
			box := ask("GET", "/sandboxes/"+id+"/wait", nil)
			all = append(all, time.Since(began))
			if box.Ready != true || !strings.HasPrefix(box.Pod, prefix) {
				t.Errorf("%+v, want one called %s", box, prefix)
			}
			ask("DELETE", "/sandboxes/"+id, nil)
		}
		slices.Sort(all)
		t.Logf("%s: median %v of %v", prefix, all[len(all)/2], all)
		return all[len(all)/2]
	}
	cold := took("sandbox-")
	ask("PUT", "/pools/p", shape)
	full(t, "p", rounds, r)
	warm := took("warm-p-")
	t.Logf("a claim takes 1/%.1f of a new sandbox", float64(cold)/float64(warm))
	if warm >= cold {
		t.Errorf("a claim takes %v, and a new sandbox %v", warm, cold)
	}
}
