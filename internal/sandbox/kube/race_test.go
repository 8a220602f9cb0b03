package kube

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ktesting "k8s.io/client-go/testing"

	"orchard/internal/sandbox"
	"orchard/internal/sandbox/control"
)

// Fifty who start the same sandbox at once, on three replicas, get one Pod, and all but
// one are told that it exists.
func TestSameIDAtOnce(t *testing.T) {
	t.Parallel()
	c := newFake(t)
	replicas := []*Runtime{c.start(), c.start(), c.start()}
	var made atomic.Int32
	uids := sync.Map{}
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			r := replicas[i%3]
			st, err := r.Start(t.Context(), plainSpec("same"))
			if err == nil {
				made.Add(1)
			} else if !errors.Is(err, control.ErrExists) {
				t.Errorf("start: %v", err)
			}
			uids.Store(st.UID, true)
			// Read your writes: at once, also on this replica.
			if got, err := r.Get(t.Context(), "same"); err != nil || got.UID != st.UID {
				t.Errorf("right after start: %+v, %v", got, err)
			}
		})
	}
	all.Wait()
	n := 0
	uids.Range(func(any, any) bool { n++; return true })
	if made.Load() != 1 || n != 1 || len(c.pods()) != 1 {
		t.Errorf("%d made it, %d UIDs, %d Pods", made.Load(), n, len(c.pods()))
	}
}

// A replica whose watch is behind never says that a sandbox is not there.
func TestGetAsksTheCluster(t *testing.T) {
	t.Parallel()
	c := newFake(t)
	a, b := c.start(), c.start()
	for i := range 30 {
		id := "box-" + string(rune('a'+i%26)) + string(rune('a'+i/26))
		if _, err := a.Start(t.Context(), plainSpec(id)); err != nil {
			t.Fatal(err)
		}
		if st, err := b.Get(t.Context(), id); err != nil || st.Phase != control.Pending {
			t.Fatalf("the other replica: %+v, %v", st, err)
		}
		if err := b.Stop(t.Context(), id, control.ReasonDeleted); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Start(t.Context(), plainSpec(id)); err != nil {
			t.Fatalf("the id of an ended sandbox is not free: %v", err)
		}
		if st, err := b.Get(t.Context(), id); err != nil || st.Phase != control.Pending {
			t.Fatalf("the other replica, of the second one: %+v, %v", st, err)
		}
	}
	if _, err := b.Get(t.Context(), "never-was"); !errors.Is(err, control.ErrNotFound) {
		t.Errorf("unknown: %v", err)
	}
}

// A create whose answer was lost made its Pod all the same: the caller gets that one.
func TestLostAnswerOfCreate(t *testing.T) {
	t.Parallel()
	c := newFake(t)
	r := c.start()
	var once sync.Once
	c.mu.Lock()
	c.PrependReactor("create", "pods", func(a ktesting.Action) (bool, runtime.Object, error) {
		lost := false
		once.Do(func() { lost = true })
		if !lost {
			return false, nil, nil
		}
		o := a.(ktesting.CreateAction).GetObject()
		_, _, _ = c.react(a)
		if err := c.Tracker().Create(a.GetResource(), o, fakeNamespace); err != nil {
			t.Error(err)
		}
		return true, nil, apierrors.NewTimeoutError("the answer was lost", 1)
	})
	c.mu.Unlock()
	st, err := r.Start(t.Context(), plainSpec("a"))
	if err != nil || st.UID == "" || len(c.pods()) != 1 {
		t.Errorf("%+v, %v, %d Pods", st, err, len(c.pods()))
	}
}

// What can never start is refused; what may start later is an error to try again.
func TestStartFailures(t *testing.T) {
	t.Parallel()
	pods := schema.GroupResource{Resource: "pods"}
	for name, test := range map[string]struct {
		err    error
		never  bool
		change func(*sandbox.Spec)
	}{
		"invalid":      {apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "x", nil), true, nil},
		"limit range":  {apierrors.NewForbidden(pods, "x", errors.New("maximum cpu usage per Container is 2")), true, nil},
		"priority":     {apierrors.NewForbidden(pods, "x", errors.New("no PriorityClass with name high was found")), true, nil},
		"quota":        {apierrors.NewForbidden(pods, "x", errors.New("exceeded quota: all")), false, nil},
		"busy":         {apierrors.NewTooManyRequests("busy", 1), false, nil},
		"away":         {apierrors.NewServiceUnavailable("etcd"), false, nil},
		"host":         {nil, true, func(s *sandbox.Spec) { s.Image = "host" }},
		"agent's env":  {nil, true, func(s *sandbox.Spec) { s.Env = map[string]string{"ORCHARD_AGENT_KEYS": "mine"} }},
		"bad id":       {nil, true, func(s *sandbox.Spec) { s.ID = "A_b" }},
		"reserve":      {nil, true, func(s *sandbox.Spec) { s.Reserve.CPU = "2" }},
		"bad quantity": {nil, true, func(s *sandbox.Spec) { s.Disk = "lots" }},
	} {
		t.Run(name, func(t *testing.T) {
			c := newFake(t)
			r := c.start()
			c.mu.Lock()
			c.hook = func(a ktesting.Action) error {
				if a.Matches("create", "pods") {
					return test.err
				}
				return nil
			}
			c.mu.Unlock()
			spec := plainSpec("a")
			if test.change != nil {
				test.change(&spec)
			}
			_, err := r.Start(t.Context(), spec)
			var refused *sandbox.Refused
			if err == nil || errors.As(err, &refused) != test.never {
				t.Errorf("%v", err)
			}
		})
	}
}

// A Pod that has the name of a sandbox and is none is left alone.
func TestForeignPod(t *testing.T) {
	t.Parallel()
	c := newFake(t)
	r := c.start()
	_, err := c.CoreV1().Pods(fakeNamespace).Create(context.Background(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "sandbox-a"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Start(t.Context(), plainSpec("a")); err == nil || !strings.Contains(err.Error(), "no sandbox") {
		t.Errorf("start: %v", err)
	}
	if _, err := r.Get(t.Context(), "a"); !errors.Is(err, control.ErrNotFound) {
		t.Errorf("get: %v", err)
	}
	if err := r.Stop(t.Context(), "a", "x"); !errors.Is(err, control.ErrNotFound) || len(c.pods()) != 1 {
		t.Errorf("stop: %v, %d Pods", err, len(c.pods()))
	}
}
