package kube

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orchard/internal/sandbox"
	"orchard/internal/sandbox/control"
)

// Each end has its reason, promptly, with a message that helps; and is known after the
// Pod is gone, to replicas that come later too.
func TestClusterEnds(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.open(t)
	t.Run("each", func(t *testing.T) {
		for _, c := range []struct {
			name   string
			change func(*sandbox.Spec)
			end    func(t *testing.T, id string) // once it is ready; nil: it ends by itself
			reason string
			says   string
		}{
			{"image that is not there", func(s *sandbox.Spec) { s.Image = "198.18.255.1:1/nope:none" }, nil, control.ReasonImagePull, "nope:none"},
			{"image that is no name", func(s *sandbox.Spec) { s.Image = "Nope:::none" }, nil, control.ReasonImagePull, "Nope:::none"},
			{"no machine", func(s *sandbox.Spec) { s.CPU, s.Reserve, s.ReadyTimeout = "64", sandbox.Reserve{}, 5*time.Second }, nil, control.ReasonNotReady, "Insufficient cpu"},
			{"memory", func(s *sandbox.Spec) { s.Memory = "100Mi" }, func(t *testing.T, id string) {
				_ = hog(t, r, id)
			}, control.ReasonOOMKilled, "100Mi"},
			{"lease", func(s *sandbox.Spec) { s.Lease = 3 * time.Second }, nil, control.ReasonLease, "3s"},
			{"lifetime", func(s *sandbox.Spec) { s.Lifetime = 15 * time.Second }, nil, control.ReasonLifetime, "15s"},
			{"deleted by somebody", func(*sandbox.Spec) {}, func(t *testing.T, id string) {
				if err := s.client.CoreV1().Pods(s.opts.Namespace).Delete(t.Context(), podName(id), metav1.DeleteOptions{}); err != nil {
					t.Error(err)
				}
			}, control.ReasonLost, "deleted by somebody else"},
			{"evicted", func(*sandbox.Spec) {}, func(t *testing.T, id string) {
				err := s.client.CoreV1().Pods(s.opts.Namespace).EvictV1(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: podName(id)}})
				if err != nil {
					t.Error(err)
				}
			}, control.ReasonPreempted, ""},
			{"user", func(*sandbox.Spec) {}, func(t *testing.T, id string) {
				if err := r.Stop(t.Context(), id, control.ReasonDeleted); err != nil {
					t.Error(err)
				}
			}, control.ReasonDeleted, ""},
		} {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				spec := small(imageBash)
				c.change(&spec)
				began := time.Now()
				if _, err := r.Start(t.Context(), spec); err != nil {
					t.Fatal(err)
				}
				if c.end != nil {
					reach(t, r, spec.ID, control.Ready)
					c.end(t, spec.ID)
				}
				st := ends(t, r, spec.ID, c.reason)
				took := time.Since(began)
				t.Logf("%v: %s: %s", took, st.Reason, st.Message)
				if !strings.Contains(st.Message, c.says) || st.Ended.IsZero() {
					t.Errorf("after %v: %+v", took, st)
				}
				until(t, "the Pod to go", func() (bool, string) {
					_, err := r.fetch(t.Context(), spec.ID)
					return err != nil, "it is there"
				})
				if again, err := r.Get(t.Context(), spec.ID); err != nil || again.Reason != st.Reason || again.Message != st.Message {
					t.Errorf("after the Pod: %+v, %v", again, err)
				}
				events, err := r.Events(t.Context(), spec.ID)
				if err != nil || len(events) < 2 || events[0].Type != "accepted" || events[len(events)-1].At.Before(events[0].At) {
					t.Errorf("events %+v, %v", events, err)
				}
			})
		}
	})
	late := s.open(t)
	before, err := r.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	after, err := late.List(t.Context())
	if err != nil || len(after) != len(before) {
		t.Errorf("%d ends, a later replica knows %d, %v", len(before), len(after), err)
	}
	for i := range after {
		if after[i].Reason != before[i].Reason || after[i].Message != before[i].Message {
			t.Errorf("a later replica: %+v, before %+v", after[i], before[i])
		}
	}
}

// hog takes more memory than there is.
func hog(t *testing.T, r *Runtime, id string) error {
	t.Helper()
	_, err := tryExec(t.Context(), r, id, "sh", "-c", `a=x; while :; do a=$a$a; done`)
	if err == nil {
		t.Error("the command that took all memory has a result")
	}
	return err
}

// A replica that ends leaves its sandboxes to the others, which reach and end them.
func TestClusterReplicas(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	a := s.open(t)
	spec := small(imageSh)
	first := begin(t, a, spec)
	a.Close()
	b := s.open(t)
	st := reach(t, b, spec.ID, control.Ready)
	if st.UID != first.UID || !st.Ready.Before(time.Now()) {
		t.Errorf("%+v, before %+v", st, first)
	}
	if out, code := exec(t, b, spec.ID, "sh", "-c", "echo here"); out != "here\n" || code != 0 {
		t.Errorf("%d %q", code, out)
	}
	// Another key is another master: its replica gets nothing.
	stranger := *s
	stranger.opts.Key = newKey(t)
	x := stranger.open(t)
	if _, _, err := x.Agent(t.Context(), spec.ID); !errors.Is(err, control.ErrNotReady) {
		t.Errorf("a replica with another key: %v", err)
	}
	if err := b.Stop(t.Context(), spec.ID, control.ReasonDeleted); err != nil {
		t.Fatal(err)
	}
	s.noPods(t)
	if again, err := b.Start(t.Context(), spec); err != nil || again.UID == st.UID {
		t.Errorf("the same id again: %+v, %v", again, err)
	}
	reach(t, b, spec.ID, control.Ready)
}

// Fifty equal starts at once on two replicas are one Pod; a start right after a stop
// waits for the old one to go.
func TestClusterSameID(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	replicas := []*Runtime{s.open(t), s.open(t)}
	spec := small(imageBare)
	var all sync.WaitGroup
	counts := make(chan bool, 50)
	for i := range 50 {
		all.Go(func() {
			_, err := replicas[i%2].Start(t.Context(), spec)
			if err != nil && !errors.Is(err, control.ErrExists) {
				t.Error(err)
			}
			counts <- err == nil
		})
	}
	all.Wait()
	close(counts)
	n := 0
	for ok := range counts {
		if ok {
			n++
		}
	}
	if pods, _ := s.left(t); n != 1 || len(pods) != 1 {
		t.Errorf("%d made it, Pods %v", n, pods)
	}
	first := reach(t, replicas[1], spec.ID, control.Ready)
	if err := replicas[0].Stop(t.Context(), spec.ID, control.ReasonDeleted); err != nil {
		t.Fatal(err)
	}
	st, err := replicas[1].Start(t.Context(), spec)
	if err != nil || st.UID == first.UID || st.Phase != control.Pending {
		t.Errorf("%+v, %v", st, err)
	}
	if err := replicas[1].Stop(context.WithoutCancel(t.Context()), spec.ID, control.ReasonDeleted); err != nil {
		t.Error(err)
	}
	s.noPods(t)
}
