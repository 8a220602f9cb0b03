package kube

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ktesting "k8s.io/client-go/testing"

	"orchard/internal/sandbox"
	"orchard/internal/sandbox/control"
)

// pullCluster is a fake cluster of machines, whose kubelets are the test.
type pullCluster struct {
	*poolCluster
	mu    sync.Mutex
	made  map[string]int // by name of a pull's Pod
	most  int            // of them at a time
	begin func(*corev1.Pod)
}

func machine(name string, change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}}
	for _, f := range change {
		f(n)
	}
	return n
}

func newPullCluster(t *testing.T, nodes ...*corev1.Node) *pullCluster {
	t.Helper()
	c := &pullCluster{poolCluster: newPoolCluster(t), made: map[string]int{}, begin: func(pod *corev1.Pod) { pulling(pod, "", "") }}
	for _, n := range nodes {
		if _, err := c.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	c.PrependReactor("create", "pods", func(a ktesting.Action) (bool, runtime.Object, error) {
		pod := a.(ktesting.CreateAction).GetObject().(*corev1.Pod)
		if pod.Labels[labelApp] != appPrepull {
			return false, nil, nil
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		pod = pod.DeepCopy()
		c.poolCluster.mu.Lock()
		c.version++
		c.created(ktesting.NewCreateAction(a.GetResource(), a.GetNamespace(), pod), c.version)
		c.poolCluster.mu.Unlock()
		c.begin(pod)
		err := c.Tracker().Create(a.GetResource(), pod, a.GetNamespace())
		if err == nil {
			c.made[pod.Name]++
			all, err := c.Tracker().List(a.GetResource(), corev1.SchemeGroupVersion.WithKind("Pod"), fakeNamespace)
			if err != nil {
				return true, nil, err
			}
			c.most = max(c.most, len(all.(*corev1.PodList).Items))
		}
		return true, pod.DeepCopy(), err
	})
	return c
}

// pulling is the status of a Pod on its machine whose image is on its way, or not to be had.
func pulling(pod *corev1.Pod, reason, message string) {
	if reason == "" {
		reason = "ContainerCreating"
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: containerName, State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}
}

// arrived is that of one whose image is there and whose program has ended.
func arrived(pod *corev1.Pod) {
	pod.Status.Phase = corev1.PodSucceeded
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: containerName, ImageID: "sha256:1", State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{Reason: "Completed"}}}}
}

// pulls are the Pods of pulls that there are.
func (c *pullCluster) pulls() []corev1.Pod {
	return slices.DeleteFunc(c.pods(), func(p corev1.Pod) bool { return p.Labels[labelApp] != appPrepull })
}

// kubelets give each Pod that there is now a status, and say how many there were.
func (c *pullCluster) kubelets(f func(*corev1.Pod)) int {
	c.t.Helper()
	all := c.pulls()
	for _, pod := range all {
		f(&pod)
		if err := c.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), &pod, fakeNamespace); err != nil && !strings.Contains(err.Error(), "not found") {
			c.t.Fatal(err)
		}
	}
	return len(all)
}

func prepullOf(id string, images ...string) control.Prepull {
	return control.Prepull{ID: id, Owner: "ann", Images: images, AtOnce: 10, Timeout: time.Minute}
}

// over waits until nothing is left to be done or lies around, as every replica tells.
func (c *pullCluster) over(id string, replicas ...*Runtime) (st control.PrepullState) {
	c.t.Helper()
	for _, r := range replicas {
		until(c.t, "pre-pull "+id+" to be over", func() (bool, string) {
			var err error
			st, err = r.PrepullOf(c.t.Context(), id)
			return err == nil && !st.Ended.IsZero() && len(c.pulls()) == 0, fmt.Sprintf("%+v, %v, %d Pods", st, err, len(c.pulls()))
		})
	}
	return st
}

func statuses(st control.PrepullState) map[string]string {
	m := map[string]string{}
	for _, p := range st.Pulls {
		m[p.Image+" "+p.Node] = strings.TrimSpace(string(p.Status) + " " + p.Reason)
	}
	return m
}

func fulfil(t *testing.T, r *Runtime, p control.Prepull) control.PrepullState {
	t.Helper()
	st, err := r.Prepull(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// Each image comes to each machine that takes sandboxes, once, so many at a time whoever
// works on it; what is there already is not pulled; and nothing of it looks like a sandbox.
func TestPrepull(t *testing.T) {
	t.Parallel()
	c := newPullCluster(t,
		machine("a", func(n *corev1.Node) {
			n.Status.Images = []corev1.ContainerImage{{Names: []string{"docker.io/library/one@sha256:" + strings.Repeat("0", 64), "docker.io/library/one:1"}}}
		}),
		machine("b"), machine("c"),
		machine("cordoned", func(n *corev1.Node) { n.Spec.Unschedulable = true }),
		machine("tainted", func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}} }),
		machine("away", func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }),
	)
	replicas := c.replicas(3)
	p := prepullOf("p", "one:1", "two:2")
	p.AtOnce = 2
	st := fulfil(t, replicas[0], p)
	if s := statuses(st); len(s) != 6 || s["one:1 a"] != "present" || s["two:2 a"] != "pending" {
		t.Errorf("at first: %v", s)
	}
	if again, err := replicas[1].Prepull(t.Context(), p); !errors.Is(err, control.ErrExists) || len(again.Pulls) != 6 {
		t.Errorf("the same again: %+v, %v", again, err)
	}
	until(t, "two to be pulled", func() (bool, string) {
		st, err := replicas[1].PrepullOf(t.Context(), "p")
		n := 0
		for _, s := range statuses(st) {
			if s == string(control.Pulling) {
				n++
			}
		}
		return n == 2, fmt.Sprintf("%v, %v", statuses(st), err)
	})
	for _, r := range replicas {
		boxes, err := r.List(t.Context())
		res, resErr := r.Resources(t.Context())
		if len(boxes) != 0 || len(res.Sandboxes) != 0 || err != nil || resErr != nil {
			t.Errorf("sandboxes: %+v, %+v, %v, %v", boxes, res.Sandboxes, err, resErr)
		}
	}
	until(t, "all to be there", func() (bool, string) {
		c.kubelets(arrived)
		st, _ := replicas[2].PrepullOf(t.Context(), "p")
		return !st.Ended.IsZero(), fmt.Sprint(statuses(st))
	})
	for cell, status := range statuses(c.over("p", replicas...)) {
		if status != "present" {
			t.Errorf("%s is %s", cell, status)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.made) != 5 || c.most != 2 || slices.Max(slices.Collect(maps.Values(c.made))) != 1 {
		t.Errorf("Pods made: %v, %d at a time; want 5, once each, and 2", c.made, c.most)
	}
}

// A pull that fails says why in the kubelet's words; one whose Pod was evicted is begun anew;
// a machine that goes, and time that is over, are no image's fault.
func TestPrepullFailures(t *testing.T) {
	t.Parallel()
	c := newPullCluster(t, machine("a"), machine("b"))
	patient := func(o *Options) { o.PullPatience = 100 * time.Millisecond }
	replicas := []*Runtime{c.start(c.opts, patient), c.start(c.opts, patient)}
	evicted := map[string]bool{}
	var mu sync.Mutex
	kubelet := func(pod *corev1.Pod) {
		mu.Lock()
		defer mu.Unlock()
		node := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0].Values[0]
		switch image := pod.Spec.Containers[0].Image; {
		case image == "none:1":
			pulling(pod, "ErrImagePull", "none:1: not found")
		case image == "slow:1":
			pulling(pod, "", "")
		case node == "a" && !evicted[image]:
			pod.Status.Phase, pod.Status.Reason = corev1.PodFailed, "Evicted"
			evicted[image] = true
		default:
			arrived(pod)
		}
	}
	c.begin = kubelet
	p := prepullOf("p", "none:1", "good:1", "slow:1")
	p.Timeout = 4 * time.Second
	fulfil(t, replicas[0], p)
	st := c.over("p", replicas...)
	want := map[string]string{"none:1 a": "failed image_pull", "none:1 b": "failed image_pull", "good:1 a": "present", "good:1 b": "present",
		"slow:1 a": "failed not_ready", "slow:1 b": "failed not_ready"}
	if got := statuses(st); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if !strings.Contains(st.Pulls[0].Message, "none:1: not found") || !strings.Contains(st.Pulls[5].Message, "not there after 4s") {
		t.Errorf("they say %q and %q", st.Pulls[0].Message, st.Pulls[5].Message)
	}
	if c.made["prepull-p-1-0"] != 2 {
		t.Errorf("the evicted one was made %d times", c.made["prepull-p-1-0"])
	}
	p = prepullOf("q", "slow:1")
	fulfil(t, replicas[0], p)
	if err := c.CoreV1().Nodes().Delete(t.Context(), "b", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "the machine to be missed", func() (bool, string) {
		st, err := replicas[1].PrepullOf(t.Context(), "q")
		s := statuses(st)
		return s["slow:1 b"] == "failed node_lost" && s["slow:1 a"] == "pulling", fmt.Sprint(s, err)
	})
}

// What a replica that was killed had begun another one finishes; one that is deleted is
// forgotten.
func TestPrepullOutlivesReplicas(t *testing.T) {
	t.Parallel()
	c := newPullCluster(t, machine("a"), machine("b"))
	first := c.start(c.opts)
	p := prepullOf("p", "one:1")
	p.AtOnce = 1
	fulfil(t, first, p)
	until(t, "the first to be pulled", func() (bool, string) { return len(c.pulls()) == 1, "" })
	first.Close()
	c.kubelets(arrived)
	c.mu.Lock()
	c.begin = arrived
	c.mu.Unlock()
	second := c.start(c.opts)
	if got := statuses(c.over("p", second)); got["one:1 a"] != "present" || got["one:1 b"] != "present" {
		t.Errorf("%v", got)
	}
	// One that has not heard of any of this begins nothing again.
	stale, err := second.fetchPrepull(t.Context(), "p")
	if err != nil {
		t.Fatal(err)
	}
	stale.Done, stale.Ended = map[string]outcome{}, time.Time{}
	if err := second.keepPrepull(t.Context(), stale, map[types.UID]*sight{}, map[types.UID]*sight{}); err != nil || len(c.pulls()) != 0 {
		t.Errorf("begun again: %d Pods, %v", len(c.pulls()), err)
	}
	if err := errors.Join(second.DeletePrepull(t.Context(), "p"), second.DeletePrepull(t.Context(), "p")); err != nil {
		t.Error(err)
	}
	if _, err := second.PrepullOf(t.Context(), "p"); !errors.Is(err, control.ErrNotFound) {
		t.Errorf("deleted: %v", err)
	}
	if all, err := second.Prepulls(t.Context()); len(all) != 0 || err != nil {
		t.Errorf("listed: %+v, %v", all, err)
	}
}

// Where there is no machine, or none may be seen, it says so.
func TestPrepullRefused(t *testing.T) {
	t.Parallel()
	c := newPullCluster(t, machine("a"))
	r := c.start(c.opts)
	p := prepullOf("p", "one:1")
	p.Placement.NodeSelector = map[string]string{"no": "such"}
	var refused *sandbox.Refused
	if _, err := r.Prepull(t.Context(), p); !errors.As(err, &refused) || !strings.Contains(refused.Reason, "no machine") {
		t.Errorf("no such machine: %v", err)
	}
	if _, err := r.Prepull(t.Context(), prepullOf("p", "host")); !errors.As(err, &refused) {
		t.Errorf("host: %v", err)
	}
	c.fakeCluster.mu.Lock()
	c.deny["list nodes"] = true
	c.fakeCluster.mu.Unlock()
	if _, err := c.start(c.opts).Prepull(t.Context(), prepullOf("p", "one:1")); !errors.As(err, &refused) || !strings.Contains(refused.Reason, "nodeAccess") {
		t.Errorf("nodes unseen: %v", err)
	}
}

// A pull's Pod is as closed as a sandbox, runs nothing of the image, and holds no secret.
func TestPullPod(t *testing.T) {
	t.Parallel()
	c := newPullCluster(t, machine("a"))
	r := c.start(c.opts, func(o *Options) { o.PullSecrets = []string{"operators"} })
	want := prepullOf("p", "one:1")
	want.Placement.PullSecrets = []string{"own"}
	p := &prepull{Prepull: want, Nodes: []string{"a"}, id: "p", from: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m", UID: "u", CreationTimestamp: metav1.Now()}}}
	pod, err := r.pullPod(p, cell(0, 0), "one:1", "a", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	box := pod.Spec.Containers[0]
	switch s := box.SecurityContext; {
	case len(pod.Spec.Containers) != 1 || box.Image != "one:1" || !slices.Equal(box.Command, []string{agentProgram, "--version"}) || len(box.Args)+len(box.Env) != 0:
		t.Errorf("it runs %+v", box)
	case *s.Privileged || *s.AllowPrivilegeEscalation || s.Capabilities.Drop[0] != "ALL" || *pod.Spec.AutomountServiceAccountToken:
		t.Errorf("it is not closed: %+v", s)
	case len(pod.Annotations) != 0 || pod.Labels[labelApp] == appSandbox || idOf(pod) != "" || poolOf(pod) != "":
		t.Errorf("it looks like a sandbox: %+v", pod.ObjectMeta)
	case pod.OwnerReferences[0].UID != "u" || *pod.Spec.ActiveDeadlineSeconds > 60 || len(pod.Spec.ImagePullSecrets) != 2:
		t.Errorf("%+v", pod)
	}
}

// However many pulls fail, and whatever they say, the record fits its ConfigMap.
func TestPrepullRecordFits(t *testing.T) {
	t.Parallel()
	p := &prepull{Done: map[string]outcome{}}
	for i := range control.MaxPrepullImages {
		p.Prepull.Images = append(p.Prepull.Images, fmt.Sprintf("%0512d", i))
	}
	for i := range mostPulls / control.MaxPrepullImages {
		p.Nodes = append(p.Nodes, fmt.Sprintf("%0253d", i))
	}
	p.each(func(cell, _, _ string) {
		p.finish(cell, outcome{control.ReasonImagePull, strings.Repeat("\"é<\x00\xff", 500)})
	})
	data, err := p.data()
	if n := len(data[prepullKey]); err != nil || n > 1000<<10 {
		t.Errorf("%d bytes, %v", n, err)
	}
}
