package kube

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	authv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"orchard/internal/sandbox"
	"orchard/internal/sandbox/control"
	"orchard/internal/seal"
)

const fakeNamespace = "boxes"

// fakeCluster is client-go's fake with what an API server adds: UIDs, times, versions,
// and a deletion that keeps its preconditions.
type fakeCluster struct {
	*fake.Clientset
	t testing.TB

	mu      sync.Mutex
	version int
	deny    map[string]bool // "verb resource"
	hook    func(ktesting.Action) error
}

func newFake(t testing.TB) *fakeCluster {
	c := &fakeCluster{t: t, Clientset: fake.NewClientset(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fakeNamespace}}, denyAll(fakeNamespace),
	), deny: map[string]bool{}}
	c.PrependReactor("*", "*", c.react)
	return c
}

func (c *fakeCluster) react(a ktesting.Action) (bool, runtime.Object, error) {
	c.mu.Lock()
	hook, denied := c.hook, c.deny[a.GetVerb()+" "+a.GetResource().Resource]
	c.version++
	version := c.version
	c.mu.Unlock()
	if hook != nil {
		if err := hook(a); err != nil {
			return true, nil, err
		}
	}
	switch a := a.(type) {
	case ktesting.CreateAction:
		return c.created(a, version)
	case ktesting.DeleteActionImpl:
		if denied {
			return true, nil, apierrors.NewForbidden(a.Resource.GroupResource(), a.Name, nil)
		}
		uid := a.DeleteOptions.Preconditions
		if uid == nil || uid.UID == nil || a.Resource.Resource != "pods" {
			return false, nil, nil
		}
		pod, err := c.Tracker().Get(a.Resource, a.Namespace, a.Name)
		if err == nil && pod.(*corev1.Pod).UID != *uid.UID {
			return true, nil, apierrors.NewConflict(a.Resource.GroupResource(), a.Name, nil)
		}
	}
	return false, nil, nil
}

// review says what the account may do: all but what is denied.
func (c *fakeCluster) review(a ktesting.CreateAction) (bool, runtime.Object, error) {
	answer := a.GetObject().(*authv1.SelfSubjectAccessReview).DeepCopy()
	attributes := answer.Spec.ResourceAttributes
	c.mu.Lock()
	defer c.mu.Unlock()
	answer.Status.Allowed = !c.deny[attributes.Verb+" "+attributes.Resource]
	return true, answer, nil
}

func (c *fakeCluster) created(a ktesting.CreateAction, version int) (bool, runtime.Object, error) {
	switch o := a.GetObject().(type) {
	case metav1.Object:
		if a.GetResource().Resource == "selfsubjectaccessreviews" {
			return c.review(a)
		}
		o.SetUID(types.UID("uid-" + seal.Random(8)))
		o.SetCreationTimestamp(metav1.NewTime(time.Now().Truncate(time.Second)))
		o.SetResourceVersion(strconv.Itoa(version))
	}
	return false, nil, nil
}

// start is a runtime on the fake cluster; more of them are more replicas.
func (c *fakeCluster) start(change ...func(*Options)) *Runtime {
	c.t.Helper()
	opts := Defaults()
	opts.Namespace, opts.AgentImage, opts.Key, opts.Client = fakeNamespace, "agent:1", newKey(c.t), c
	for _, f := range change {
		f(&opts)
	}
	r, err := New(context.Background(), opts)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(r.Close)
	return r
}

// change is a status or deletion that the cluster brings about.
func (c *fakeCluster) change(id string, f func(*corev1.Pod)) {
	c.t.Helper()
	pods := c.CoreV1().Pods(fakeNamespace)
	pod, err := pods.Get(context.Background(), podName(id), metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	f(pod)
	c.mu.Lock()
	c.version++
	pod.ResourceVersion = strconv.Itoa(c.version)
	c.mu.Unlock()
	if err := c.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), pod, fakeNamespace); err != nil {
		c.t.Fatal(err)
	}
}

func (c *fakeCluster) pods() []corev1.Pod {
	list, err := c.CoreV1().Pods(fakeNamespace).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return list.Items
}

func (c *fakeCluster) graves() []corev1.ConfigMap {
	list, err := c.CoreV1().ConfigMaps(fakeNamespace).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return list.Items
}

// ends waits until id has ended for reason, as r tells.
func ends(t testing.TB, r *Runtime, id, reason string) control.State {
	t.Helper()
	st := reach(t, r, id, control.Ended)
	if st.Reason != reason {
		t.Fatalf("sandbox %s ended: %s: %s, want %s", id, st.Reason, st.Message, reason)
	}
	return st
}

func plainSpec(id string) sandbox.Spec {
	return sandbox.Spec{ID: id, Image: "image:1", CPU: "1", Memory: "1Gi", ReadyTimeout: time.Hour, Lifetime: time.Hour}
}
