package kube

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ktesting "k8s.io/client-go/testing"

	"orchard/internal/sandbox/control"
)

// Many sandboxes at once, on two replicas, empty a pool: each gets a Pod of its own, told
// once whose it is, and the pool is filled again, never beyond its size.
func TestClaimsAtOnce(t *testing.T) {
	t.Parallel()
	c := newPoolCluster(t)
	replicas := c.replicas(2)
	const size, asked = 20, 50
	setPool(t, poolNamed("p", "ann", size), replicas...)
	var all sync.WaitGroup
	var mu sync.Mutex
	uids, warm := map[string]string{}, 0
	for i := range asked {
		all.Go(func() {
			id := fmt.Sprintf("box-%d", i)
			st, err := replicas[i%2].Start(t.Context(), ownedBy(id, "ann"))
			if err != nil || st.UID == "" {
				t.Errorf("start %s: %+v, %v", id, st, err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if other := uids[st.UID]; other != "" {
				t.Errorf("%s and %s have one Pod", id, other)
			}
			uids[st.UID] = id
			if strings.HasPrefix(st.Pod, "warm-p-") {
				by, _ := c.claimOf(st.UID)
				if warm++; st.Phase != control.Ready || by.Sandbox != id || by.Env["SECRET"] != "of "+id || by.Cwd != "/work" {
					t.Errorf("%s: %+v, its agent knows %+v", id, st, by)
				}
			}
			// Read your writes on the other replica, the environment too.
			if got, err := replicas[(i+1)%2].Get(t.Context(), id); err != nil || got.UID != st.UID || got.Spec.Env["SECRET"] != "of "+id {
				t.Errorf("%s on the other replica: %+v, %v", id, got, err)
			}
		})
	}
	all.Wait()
	if warm < size {
		t.Errorf("%d came from the pool, want at least its %d", warm, size)
	}
	full(t, "p", size, replicas...)
	if idle, most, _ := c.counted("p"); idle != size || most > size {
		t.Errorf("%d idle Pods, at most %d, want %d", idle, most, size)
	}
	if st, err := replicas[0].Pool(t.Context(), "p"); err != nil || st.Claimed != warm {
		t.Errorf("%+v, %v, want %d claimed", st, err, warm)
	}
}

// E3: one id, asked for by many through replicas of which some claim and some make Pods, is
// one sandbox.
func TestOneIDClaimedAndMade(t *testing.T) {
	t.Parallel()
	for round := range 5 {
		c := newPoolCluster(t)
		replicas := c.replicas(3)
		setPool(t, poolNamed("p", "ann", 3), replicas...)
		replicas[2].mu.Lock() // it knows of no idle Pod, as one whose watch is behind
		for _, e := range replicas[2].warm {
			e.aside = true
		}
		replicas[2].mu.Unlock()
		var made atomic.Int32
		var uids sync.Map
		var all sync.WaitGroup
		for i := range 24 {
			all.Go(func() {
				st, err := replicas[i%3].Start(t.Context(), ownedBy("same", "ann"))
				if err == nil {
					made.Add(1)
				} else if !errors.Is(err, control.ErrExists) {
					t.Errorf("start: %v", err)
				}
				uids.Store(st.UID, true)
			})
		}
		all.Wait()
		n, real := 0, 0
		uids.Range(func(any, any) bool { n++; return true })
		for _, pod := range c.pods() {
			if !isTicket(&pod) && idOf(&pod) == "same" {
				real++
			}
		}
		if made.Load() != 1 || n != 1 || real != 1 {
			t.Fatalf("round %d: %d made it, %d UIDs, %d Pods", round, made.Load(), n, real)
		}
	}
}

// A replica that dies between any two steps of a claim leaves what another one completes.
func TestClaimKilledBetweenSteps(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"the Pod is claimed", "its agent is told"} {
		for _, asked := range []bool{true, false} {
			t.Run(fmt.Sprintf("before %s, asked for again %v", step, asked), func(t *testing.T) {
				t.Parallel()
				c := newPoolCluster(t)
				a := c.replicas(1)[0]
				setPool(t, poolNamed("p", "ann", 2), a)
				var dead atomic.Bool
				dead.Store(true)
				c.fakeCluster.mu.Lock()
				c.hook = func(action ktesting.Action) error {
					if dead.Load() && action.Matches("update", "pods") && step == "the Pod is claimed" {
						return apierrors.NewServerTimeout(action.GetResource().GroupResource(), "update", 1)
					}
					return nil
				}
				c.fakeCluster.mu.Unlock()
				c.mu.Lock()
				c.silent = func(_ string, r *http.Request) bool { return dead.Load() && r.URL.Path == "/v1/claim" }
				c.mu.Unlock()
				spec := ownedBy("a", "ann")
				st, err := a.Start(t.Context(), spec)
				if step == "the Pod is claimed" && err == nil {
					t.Fatalf("start succeeded: %+v", st)
				}
				a.Close()
				dead.Store(false)
				b := c.start(c.opts)
				if asked {
					if st, err := b.Start(t.Context(), spec); !errors.Is(err, control.ErrExists) || st.UID == "" {
						t.Errorf("again: %+v, %v", st, err)
					}
				} else {
					until(t, "the claim to be completed", func() (bool, string) {
						list, _ := b.List(t.Context())
						return len(list) == 1, fmt.Sprint(list)
					})
				}
				st = reach(t, b, "a", control.Ready)
				if by, _ := c.claimOf(st.UID); by.Env["SECRET"] != "of a" || st.Spec.Env["SECRET"] != "of a" || !strings.HasPrefix(st.Pod, "warm-p-") {
					t.Errorf("%+v, its agent knows %+v", st, by)
				}
				full(t, "p", 2, b)
				if _, most, _ := c.counted("p"); most > 2 {
					t.Errorf("%d idle Pods", most)
				}
			})
		}
	}
}

// The id of a claimed sandbox that ended is free, and how that one ended is known.
func TestClaimedEnds(t *testing.T) {
	t.Parallel()
	c := newPoolCluster(t)
	replicas := c.replicas(2)
	setPool(t, poolNamed("p", "ann", 2), replicas...)
	var last string
	for i := range 6 {
		st, err := replicas[i%2].Start(t.Context(), ownedBy("again", "ann"))
		if err != nil || st.UID == last {
			t.Fatalf("round %d: %+v, %v", i, st, err)
		}
		last = st.UID
		if other, err := replicas[(i+1)%2].Get(t.Context(), "again"); err != nil || other.UID != last || other.Phase == control.Ended {
			t.Fatalf("round %d: %+v, %v", i, other, err)
		}
		if err := replicas[(i+1)%2].Stop(t.Context(), "again", control.ReasonDeleted); err != nil {
			t.Fatal(err)
		}
		ends(t, replicas[i%2], "again", control.ReasonDeleted)
	}
	until(t, "tickets of ended sandboxes to go", func() (bool, string) { return c.tickets() == 0, "there are some" })
	if len(c.graves()) != 6+1 { // and the pool
		t.Errorf("%d tombstones", len(c.graves())-1)
	}
}

// F1: pools that are asked for all at once make as many Pods as they have slots.
func TestPoolsFillOnce(t *testing.T) {
	t.Parallel()
	c := newPoolCluster(t)
	replicas := c.replicas(3)
	var all sync.WaitGroup
	for i := range 5 {
		for _, r := range replicas { // each of them is asked
			all.Go(func() {
				if _, err := r.SetPool(t.Context(), poolNamed(fmt.Sprintf("p%d", i), "ann", 5)); err != nil {
					t.Error(err)
				}
			})
		}
	}
	all.Wait()
	for i := range 5 {
		name := fmt.Sprintf("p%d", i)
		full(t, name, 5, replicas...)
		if idle, most, made := c.counted(name); idle != 5 || most != 5 || made != 5 {
			t.Errorf("pool %s: %d idle, at most %d, %d made; want 5", name, idle, most, made)
		}
	}
}

// F2: a pool whose Pods do not start says why, and tries less and less.
func TestPoolBacksOff(t *testing.T) {
	t.Parallel()
	c := newPoolCluster(t)
	replicas := c.replicas(2)
	p := poolNamed("p", "ann", 4)
	p.Spec.Image = "bad:1"
	if _, err := replicas[0].SetPool(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	until(t, "a second failure", func() (bool, string) {
		st, err := replicas[1].Pool(t.Context(), "p")
		return st.Failures >= 2 && strings.Contains(st.Message, "bad image") && st.RetryAt.After(time.Now()), fmt.Sprintf("%+v, %v", st, err)
	})
	if _, most, made := c.counted("p"); most > 4 || made > 4+1 {
		t.Errorf("%d Pods were made, at most %d at a time; want 4, and one when it tried again", made, most)
	}
	p.Spec.Image = "image:2" // it is mended
	setPool(t, p, replicas...)
	if st, _ := replicas[0].Pool(t.Context(), "p"); st.Failures != 0 || st.Message != "" {
		t.Errorf("%+v", st)
	}
}

// F4: a Pod of one owner's pool is never another's sandbox, unless the pool is everybody's.
func TestPoolsAreTheirOwners(t *testing.T) {
	t.Parallel()
	c := newPoolCluster(t)
	r := c.replicas(1)[0]
	setPool(t, poolNamed("anns", "ann", 2), r)
	setPool(t, poolNamed("bobs", "bob", 2), r)
	for i := range 8 { // more than there are, so that some find nothing of their own
		for owner, prefix := range map[string]string{"ann": "warm-anns-", "bob": "warm-bobs-"} {
			st, err := r.Start(t.Context(), ownedBy(fmt.Sprintf("%s-%d", owner, i), owner))
			if err != nil || st.Pod != "" && !strings.HasPrefix(st.Pod, prefix) || st.Spec.Owner != owner {
				t.Errorf("%s got %+v, %v", owner, st, err)
			}
		}
	}
	if st, err := r.Start(t.Context(), ownedBy("eve", "eve")); err != nil || st.Pod != "" {
		t.Errorf("somebody without a pool got %+v, %v", st, err)
	}
	if _, err := r.SetPool(t.Context(), poolNamed("anns", "bob", 1)); !errors.Is(err, control.ErrExists) {
		t.Errorf("another's pool: %v", err)
	}
	all := poolNamed("all", "admin", 1)
	all.Shared = true
	setPool(t, all, r)
	if st, err := r.Start(t.Context(), ownedBy("eve-2", "eve")); err != nil || !strings.HasPrefix(st.Pod, "warm-all-") || st.Spec.Owner != "eve" {
		t.Errorf("of everybody's pool: %+v, %v", st, err)
	}
}

// F5: a Pod that runs and whose agent does not answer is not given away.
func TestOnlyServingPodsAreClaimed(t *testing.T) {
	t.Parallel()
	c := newPoolCluster(t)
	r := c.replicas(1)[0]
	setPool(t, poolNamed("p", "ann", 1), r)
	c.mu.Lock()
	c.silent = func(_ string, q *http.Request) bool { return true }
	c.mu.Unlock()
	if st, err := r.Start(t.Context(), ownedBy("a", "ann")); err != nil || st.Pod != "" {
		t.Errorf("of a Pod that served once: %+v, %v", st, err)
	}
	if _, err := r.SetPool(t.Context(), poolNamed("q", "bob", 1)); err != nil {
		t.Fatal(err)
	}
	until(t, "a Pod to run", func() (bool, string) { _, _, made := c.counted("q"); return made == 1, "none" })
	if st, err := r.Start(t.Context(), ownedBy("b", "bob")); err != nil || st.Pod != "" {
		t.Errorf("of a Pod that never served: %+v, %v", st, err)
	}
}

// Idle Pods that are old are replaced, one after the other.
func TestOldIdlePods(t *testing.T) {
	t.Parallel()
	c := newPoolCluster(t)
	r := c.replicas(1)[0]
	setPool(t, poolNamed("p", "ann", 3), r)
	p, err := r.fetchPool(t.Context(), "p")
	if err != nil {
		t.Fatal(err)
	}
	for after, want := range map[time.Duration]int{warmAge - time.Minute: 0, warmAge + time.Minute: 1} {
		if l, err := r.planFor("p", p, time.Now().Add(after)); err != nil || len(l.doomed) != want || len(l.missing) != 0 {
			t.Errorf("after %v: %d go and %d are missing, %v; want %d to go", after, len(l.doomed), len(l.missing), err, want)
		}
	}
}

// What a pool is changes its idle Pods; its end ends them; claimed ones stay.
func TestPoolChangesAndEnds(t *testing.T) {
	t.Parallel()
	c := newPoolCluster(t)
	replicas := c.replicas(2)
	setPool(t, poolNamed("p", "ann", 3), replicas...)
	st, err := replicas[0].Start(t.Context(), ownedBy("kept", "ann"))
	if err != nil || st.Pod == "" {
		t.Fatalf("%+v, %v", st, err)
	}
	other := poolNamed("p", "ann", 2)
	other.Spec.CPU = "2"
	if _, err := replicas[1].SetPool(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	until(t, "the idle Pods to be as the pool is now", func() (bool, string) {
		n, wrong := 0, 0
		for _, pod := range c.pods() {
			if poolOf(&pod) == "" {
				continue
			}
			if n++; pod.Spec.Containers[0].Resources.Limits.Cpu().String() != "2" {
				wrong++
			}
		}
		return n == 2 && wrong == 0, fmt.Sprintf("%d Pods, %d wrong", n, wrong)
	})
	if _, most, _ := c.counted("p"); most > 3 {
		t.Errorf("%d idle Pods at a time", most)
	}
	if err := replicas[0].DeletePool(t.Context(), "p"); err != nil {
		t.Fatal(err)
	}
	until(t, "the idle Pods to go", func() (bool, string) { idle, _, _ := c.counted("p"); return idle == 0, "some are there" })
	for _, r := range replicas {
		if got, err := r.Get(t.Context(), "kept"); err != nil || got.UID != st.UID || got.Phase != control.Ready {
			t.Errorf("the claimed one: %+v, %v", got, err)
		}
		if _, err := r.Pool(t.Context(), "p"); !errors.Is(err, control.ErrNotFound) {
			t.Errorf("the pool: %v", err)
		}
	}
}
