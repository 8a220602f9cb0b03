package kube

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ktesting "k8s.io/client-go/testing"

	"orchard/agent/wire"
	"orchard/internal/sandbox"
	"orchard/internal/sandbox/control"
)

// poolCluster is a fake cluster that keeps to resource versions, starts Pods at once, and
// has an agent in each.
type poolCluster struct {
	*fakeCluster
	opts func(*Options)

	mu     sync.Mutex
	idle   map[string]int // by pool, now
	most   map[string]int // the most that there ever were
	made   map[string]int // in all
	claims map[string]wire.Claim
	silent func(uid string, r *http.Request) bool // an agent that does not answer
}

func newPoolCluster(t testing.TB) *poolCluster {
	t.Helper()
	key := newKey(t)
	c := &poolCluster{
		fakeCluster: newFake(t),
		idle:        map[string]int{}, most: map[string]int{}, made: map[string]int{}, claims: map[string]wire.Claim{},
		silent: func(string, *http.Request) bool { return false },
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.opts = func(o *Options) {
		o.Key = key
		o.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, l.Addr().String())
		}
	}
	server := &http.Server{Handler: http.HandlerFunc(c.agent)}
	go server.Serve(tls.NewListener(l, anyAgent(key)))
	t.Cleanup(func() { server.Close() })
	c.PrependReactor("create", "pods", c.createPod)
	c.PrependReactor("update", "*", c.update)
	c.PrependReactor("delete", "pods", c.deletePod)
	return c
}

// anyAgent proves to be whichever agent of the controllers with that key it is asked for.
func anyAgent(key ed25519.PrivateKey) *tls.Config {
	return &tls.Config{GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		seed, err := wire.IdentitySeed(key, hello.ServerName)
		if err != nil {
			return nil, err
		}
		return wire.Certificate(seed)
	}}
}

// agent is the one in the Pod whose UID the request is for.
func (c *poolCluster) agent(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.silent(r.Host, r):
		w.WriteHeader(http.StatusServiceUnavailable)
	case r.URL.Path == "/v1/jobs":
		w.Write([]byte("[]"))
	case r.URL.Path == "/v1/claim":
		var by wire.Claim
		if err := json.NewDecoder(r.Body).Decode(&by); err != nil {
			c.t.Error(err)
		}
		if old, ok := c.claims[r.Host]; ok && !reflect.DeepEqual(old, by) {
			c.t.Errorf("Pod %s is claimed by %+v and then by %+v", r.Host, old, by)
		}
		c.claims[r.Host] = by
		w.WriteHeader(http.StatusNoContent)
	}
}

// failing is what the test makes of an action before anything else.
func (c *poolCluster) failing(a ktesting.Action) error {
	c.fakeCluster.mu.Lock()
	hook := c.hook
	c.fakeCluster.mu.Unlock()
	if hook == nil {
		return nil
	}
	return hook(a)
}

func (c *poolCluster) createPod(a ktesting.Action) (bool, runtime.Object, error) {
	if err := c.failing(a); err != nil {
		return true, nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	pod := a.(ktesting.CreateAction).GetObject().(*corev1.Pod).DeepCopy()
	c.version++
	c.created(ktesting.NewCreateAction(a.GetResource(), a.GetNamespace(), pod), c.version)
	now := metav1.Now()
	switch {
	case len(pod.Spec.SchedulingGates) > 0:
	case strings.HasPrefix(pod.Spec.Containers[0].Image, "bad"):
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: containerName, State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "InvalidImageName", Message: "bad image"}}}}
	default:
		pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "198.18.0.1", StartTime: &now, ContainerStatuses: []corev1.ContainerStatus{{
			Name: containerName, ContainerID: "c-" + string(pod.UID), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}}
	}
	err := c.Tracker().Create(a.GetResource(), pod, a.GetNamespace())
	if pool := poolOf(pod); err == nil && pool != "" {
		c.idle[pool]++
		c.made[pool]++
		c.most[pool] = max(c.most[pool], c.idle[pool])
	}
	return true, pod.DeepCopy(), err
}

func (c *poolCluster) update(a ktesting.Action) (bool, runtime.Object, error) {
	if err := c.failing(a); err != nil {
		return true, nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	o := a.(ktesting.UpdateAction).GetObject().DeepCopyObject()
	m, err := meta.Accessor(o)
	if err != nil {
		return true, nil, err
	}
	old, err := c.Tracker().Get(a.GetResource(), a.GetNamespace(), m.GetName())
	if err != nil {
		return true, nil, err
	}
	was, _ := meta.Accessor(old)
	if was.GetResourceVersion() != m.GetResourceVersion() || was.GetUID() != m.GetUID() {
		return true, nil, apierrors.NewConflict(a.GetResource().GroupResource(), m.GetName(), fmt.Errorf("changed"))
	}
	c.version++
	m.SetResourceVersion(strconv.Itoa(c.version))
	if pod, ok := old.(*corev1.Pod); ok && poolOf(pod) != "" && poolOf(o.(*corev1.Pod)) == "" {
		c.idle[poolOf(pod)]--
	}
	return true, o, c.Tracker().Update(a.GetResource(), o.DeepCopyObject(), a.GetNamespace())
}

func (c *poolCluster) deletePod(a ktesting.Action) (bool, runtime.Object, error) {
	if err := c.failing(a); err != nil {
		return true, nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	d := a.(ktesting.DeleteActionImpl)
	old, err := c.Tracker().Get(a.GetResource(), a.GetNamespace(), d.Name)
	if err != nil {
		return true, nil, err
	}
	pod := old.(*corev1.Pod)
	if p := d.DeleteOptions.Preconditions; p == nil || *p.UID != pod.UID || p.ResourceVersion != nil && *p.ResourceVersion != pod.ResourceVersion {
		return true, nil, apierrors.NewConflict(a.GetResource().GroupResource(), d.Name, fmt.Errorf("another"))
	}
	if pool := poolOf(pod); pool != "" {
		c.idle[pool]--
	}
	return true, nil, c.Tracker().Delete(a.GetResource(), a.GetNamespace(), d.Name)
}

// replicas are n runtimes with one key.
func (c *poolCluster) replicas(n int) []*Runtime {
	all := make([]*Runtime, n)
	for i := range all {
		all[i] = c.start(c.opts)
	}
	return all
}

func poolNamed(name, owner string, size int) control.Pool {
	return control.Pool{Name: name, Size: size, Spec: sandbox.Spec{Image: "image:1", CPU: "1", Memory: "1Gi", Owner: owner}}
}

// setPool makes a pool and waits until every replica has it ready.
func setPool(t *testing.T, p control.Pool, replicas ...*Runtime) {
	t.Helper()
	if _, err := replicas[0].SetPool(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	full(t, p.Name, p.Size, replicas...)
}

func full(t *testing.T, name string, size int, replicas ...*Runtime) {
	t.Helper()
	for _, r := range replicas {
		until(t, "pool "+name+" to be ready", func() (bool, string) {
			st, err := r.Pool(t.Context(), name)
			return err == nil && st.Ready == size && st.Starting == 0, fmt.Sprintf("%+v, %v", st, err)
		})
	}
}

// ownedBy is a spec of somebody's.
func ownedBy(id, owner string) sandbox.Spec {
	spec := plainSpec(id)
	spec.Owner, spec.Env, spec.Workdir = owner, map[string]string{"SECRET": "of " + id}, "/work"
	return spec
}

// counted is what the cluster has seen of a pool's idle Pods.
func (c *poolCluster) counted(pool string) (idle, most, made int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.idle[pool], c.most[pool], c.made[pool]
}

// claimOf is what the agent in a Pod was told.
func (c *poolCluster) claimOf(uid string) (wire.Claim, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	by, ok := c.claims[uid]
	return by, ok
}

// tickets is how many there are.
func (c *poolCluster) tickets() (n int) {
	for _, pod := range c.pods() {
		if isTicket(&pod) {
			n++
		}
	}
	return n
}
