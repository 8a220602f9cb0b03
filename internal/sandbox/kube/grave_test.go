package kube

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ktesting "k8s.io/client-go/testing"

	"orchard/internal/sandbox/control"
)

// started is a sandbox on r.
func started(t *testing.T, r *Runtime, id string) control.State {
	t.Helper()
	st, err := r.Start(t.Context(), plainSpec(id))
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// An end that any replica sees is recorded once, and the Pod goes.
func TestEndIsBuried(t *testing.T) {
	t.Parallel()
	c := newFake(t)
	a, b := c.start(), c.start()
	spec := plainSpec("a")
	spec.Env = map[string]string{"TOKEN": "secret"}
	first, err := a.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	c.change("a", ended(137, "OOMKilled", ""))
	for _, r := range []*Runtime{a, b} {
		if st := ends(t, r, "a", control.ReasonOOMKilled); st.UID != first.UID || !strings.Contains(st.Message, "1Gi") || st.Ended.IsZero() {
			t.Errorf("%+v", st)
		}
	}
	until(t, "the Pod to go", func() (bool, string) { return len(c.pods()) == 0, "it is there" })
	graves := c.graves()
	if len(graves) != 1 || strings.Contains(graves[0].Data[tombstoneKey], "secret") {
		t.Errorf("tombstones: %+v", graves)
	}
	// A replica that comes later knows it as well.
	late := c.start()
	if st := ends(t, late, "a", control.ReasonOOMKilled); st.UID != first.UID {
		t.Errorf("%+v", st)
	}
	if list, err := late.List(t.Context()); err != nil || len(list) != 1 || list[0].Phase != control.Ended {
		t.Errorf("list: %+v, %v", list, err)
	}
	if again := started(t, late, "a"); again.UID == first.UID {
		t.Error("another sandbox has the first one's UID")
	}
}

// The first reason stays, whatever other replicas make of what they see.
func TestFirstReasonStays(t *testing.T) {
	t.Parallel()
	c := newFake(t)
	a, b := c.start(), c.start()
	started(t, a, "a")
	if err := a.Stop(t.Context(), "a", control.ReasonDeleted); err != nil {
		t.Fatal(err)
	}
	if err := b.Stop(t.Context(), "a", control.ReasonShutdown); err != nil {
		t.Errorf("second stop: %v", err)
	}
	for _, r := range []*Runtime{a, b, c.start()} {
		ends(t, r, "a", control.ReasonDeleted)
	}
}

// A replica that dies between two steps leaves nothing that another does not finish.
func TestKilledBetweenSteps(t *testing.T) {
	t.Parallel()
	pods := schema.GroupResource{Resource: "pods"}
	for _, step := range []string{"create configmaps", "delete pods"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			c := newFake(t)
			a := c.start()
			started(t, a, "a")
			verb, resource, _ := strings.Cut(step, " ")
			dead := true
			c.mu.Lock()
			c.hook = func(action ktesting.Action) error {
				c.mu.Lock()
				defer c.mu.Unlock()
				if dead && action.Matches(verb, resource) {
					return apierrors.NewServerTimeout(pods, verb, 1)
				}
				return nil
			}
			c.mu.Unlock()
			if err := a.Stop(t.Context(), "a", control.ReasonDeleted); err == nil {
				t.Fatal("stop succeeded")
			}
			a.Close()
			c.mu.Lock()
			dead = false
			c.mu.Unlock()
			b := c.start()
			if step == "create configmaps" { // nothing was done: nobody said that anything was
				if st, err := b.Get(t.Context(), "a"); err != nil || st.Phase == control.Ended {
					t.Errorf("%+v, %v", st, err)
				}
				return
			}
			ends(t, b, "a", control.ReasonDeleted)
			until(t, "the Pod to go", func() (bool, string) { return len(c.pods()) == 0, "it is there" })
		})
	}
}

// A Pod that somebody deleted is lost, and that is recorded too; so is one that vanished
// while no replica was there, for whoever knew it.
func TestDeletedFromOutside(t *testing.T) {
	t.Parallel()
	c := newFake(t)
	a, b := c.start(), c.start()
	started(t, a, "a")
	if err := c.CoreV1().Pods(fakeNamespace).Delete(context.Background(), "sandbox-a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	ends(t, a, "a", control.ReasonLost)
	ends(t, b, "a", control.ReasonLost)
	ends(t, c.start(), "a", control.ReasonLost)
	if len(c.graves()) != 1 {
		t.Errorf("%d tombstones", len(c.graves()))
	}
}

// A Pod that the informer never showed, because it came and went between two watches, is
// found out.
func TestNeverWatched(t *testing.T) {
	t.Parallel()
	c := newFake(t)
	r := c.start()
	ghost := podWith(func(p *corev1.Pod) {
		p.Labels = map[string]string{labelApp: appSandbox, labelID: "a"}
		p.Annotations = map[string]string{annotSpec: `{"Image":"i"}`}
		p.ResourceVersion = "1"
	})
	e := r.observe(ghost, false)
	r.mu.Lock()
	e.since = time.Now().Add(-time.Hour)
	r.mu.Unlock()
	ends(t, r, "a", control.ReasonLost)
}

// Tombstones go after their hour, and only then.
func TestTombstonesGo(t *testing.T) {
	t.Parallel()
	c := newFake(t)
	r := c.start()
	for _, id := range []string{"old", "new"} {
		started(t, r, id)
		if err := r.Stop(t.Context(), id, control.ReasonDeleted); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "both Pods to be forgotten", func() (bool, string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.entries) == 0 && len(r.graves) == 2, "not yet"
	})
	r.mu.Lock()
	for _, g := range r.graves["old"] {
		g.made = time.Now().Add(-tombstoneLife - time.Second)
	}
	r.mu.Unlock()
	r.clearGraves()
	until(t, "the old one to be forgotten", func() (bool, string) {
		_, err := r.Get(t.Context(), "old")
		return errors.Is(err, control.ErrNotFound), "it is known"
	})
	ends(t, r, "new", control.ReasonDeleted)
}

// The time to be ready is kept by any replica, from the Pod's creation on.
func TestReadyTimeoutOfAnotherReplica(t *testing.T) {
	t.Parallel()
	c := newFake(t)
	a := c.start()
	spec := plainSpec("a")
	spec.ReadyTimeout = time.Second
	if _, err := a.Start(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	a.Close()
	ends(t, c.start(), "a", control.ReasonNotReady)
}

// Who waits is told of the end.
func TestWait(t *testing.T) {
	t.Parallel()
	c := newFake(t)
	r := c.start()
	started(t, r, "a")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if st, err := r.Wait(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) || st.Phase != control.Pending {
		t.Errorf("%+v, %v", st, err)
	}
	waited := make(chan control.State, 1)
	go func() {
		st, _ := r.Wait(context.Background(), "a")
		waited <- st
	}()
	c.change("a", waits("InvalidImageName", "bad"))
	select {
	case st := <-waited:
		if st.Reason != control.ReasonImagePull {
			t.Errorf("%+v", st)
		}
	case <-time.After(patience):
		t.Fatal("nobody told who waited")
	}
	if _, err := r.Wait(t.Context(), "nobody"); !errors.Is(err, control.ErrNotFound) {
		t.Errorf("unknown: %v", err)
	}
}

// A replica that is behind deletes the Pod that it means, never another of its name; and of
// two reasons the one that was written first is everybody's.
func TestDeletesByUID(t *testing.T) {
	t.Parallel()
	c := newFake(t)
	a, b := c.start(), c.start()
	first := started(t, a, "a")
	until(t, "the other replica to know it", func() (bool, string) {
		e, _ := b.known("a")
		return e != nil, ""
	})
	stale, _ := b.known("a")
	if err := a.Stop(t.Context(), "a", control.ReasonDeleted); err != nil {
		t.Fatal(err)
	}
	second := started(t, a, "a")
	b.mu.Lock()
	behind := *stale // as if it had heard of nothing
	behind.changed = make(chan struct{})
	behind.gone, behind.grave, behind.verdict = false, nil, &end{control.ReasonNotReady, "too late", time.Now()}
	b.mu.Unlock()
	grave, err := b.record(t.Context(), &behind, nil)
	if err != nil || grave.UID != first.UID || grave.Reason != control.ReasonDeleted {
		t.Errorf("%+v, %v", grave, err)
	}
	if err := b.bury(t.Context(), &behind, nil, stuckTime); err != nil {
		t.Errorf("bury the first: %v", err)
	}
	if pods := c.pods(); len(pods) != 1 || string(pods[0].UID) != second.UID {
		t.Errorf("the second one is gone: %+v", pods)
	}
}
