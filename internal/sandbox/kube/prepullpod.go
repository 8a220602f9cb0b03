package kube

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"orchard/internal/sandbox"
	"orchard/internal/sandbox/control"
)

// pullSpec is the sandbox that a pull stands for: as closed as any, and next to nothing.
func pullSpec(p *prepull, image string) sandbox.Spec {
	return sandbox.Spec{
		ID: p.id, Owner: p.Prepull.Owner, Image: image, Placement: p.Prepull.Placement, Workdir: "/",
		CPU: "500m", Memory: "64Mi", Reserve: sandbox.Reserve{CPU: "5m", Memory: "16Mi"}, Lifetime: p.Prepull.Timeout,
	}
}

// pullPod is the Pod that brings one image to one machine: a sandbox's, whose only program
// is the agent that tells its version. Nothing of the image is run, and it needs to have nothing.
func (r *Runtime) pullPod(p *prepull, cell, image, node string, now time.Time) (*corev1.Pod, error) {
	spec := pullSpec(p, image)
	pod, err := r.opts.podOf(spec, r.key, p.id)
	if err != nil {
		return nil, err
	}
	pod.ObjectMeta = metav1.ObjectMeta{
		Name: prepullPodName(p.id, cell), Namespace: r.opts.Namespace, Labels: map[string]string{labelApp: appPrepull, labelPrepull: p.id},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: p.from.Name, UID: p.from.UID}},
	}
	if labelValue.MatchString(spec.Owner) {
		pod.Labels[labelOwner] = spec.Owner
	}
	c := &pod.Spec.Containers[0]
	c.Command, c.Env, c.Ports, c.ReadinessProbe = []string{agentProgram, "--version"}, nil, nil, nil
	// It ends by itself even where no controller lives any more.
	pod.Spec.ActiveDeadlineSeconds = ptr(max(1, int64(math.Ceil(p.deadline().Sub(now).Seconds()))))
	pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
			{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}},
		}}},
	}}}
	return pod, nil
}

// pulled reports whether the image of a pull's Pod is on its machine: the kubelet makes a
// container only then, whatever comes of the container.
func pulled(pod *corev1.Pod) bool {
	c := sandboxContainer(pod)
	if c == nil {
		return false
	}
	if c.State.Waiting != nil {
		_, bad := makeTrouble(&corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{*c}}})
		return bad
	}
	return c.ImageID != "" || c.State.Running != nil
}

// outcomeOf is how a pull has ended, nil when it has not. again is that its Pod ended through
// no fault of the image, and another is to be made.
func (r *Runtime) outcomeOf(p *prepull, pod *corev1.Pod, s *sight, now time.Time) (o *outcome, again bool) {
	s.look(pod, now)
	if pulled(pod) {
		return &outcome{}, false
	}
	e := r.opts.judge(pod, pullSpec(p, ""), *s, now)
	switch {
	case e == nil:
		return nil, false
	case e.reason == control.ReasonLifetime:
		return lateOutcome(p, pod), false
	case control.Retryable(e.reason):
		return nil, true
	}
	return &outcome{e.reason, e.message}, false
}

// lateOutcome is that of a pull that has had its time. The Pod may be nil.
func lateOutcome(p *prepull, pod *corev1.Pod) *outcome {
	waits := "its turn did not come"
	if pod != nil {
		waits = pendingText(pod)
	}
	return &outcome{control.ReasonNotReady, fmt.Sprintf("not there after %v: %s", p.Prepull.Timeout, waits)}
}

// chooseNodes settles on which machines p is: those that would run a sandbox now. What is on
// one already, as far as its kubelet tells, is done.
func (r *Runtime) chooseNodes(ctx context.Context, p *prepull) error {
	if r.nodes == nil {
		return refuse(pullSpec(p, ""), "images can be pulled before sandboxes need them only where the service may list nodes: the chart's value nodeAccess")
	}
	probe := &corev1.Pod{}
	r.opts.place(probe, p.Prepull.Placement)
	ctx, cancel := brief(ctx)
	defer cancel()
	// Not from the cache, which does not keep what images a node has.
	list, err := r.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: labels.SelectorFromSet(probe.Spec.NodeSelector).String()})
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	for _, node := range list.Items {
		if !takesPods(&node, probe.Spec.Tolerations) {
			continue
		}
		n := len(p.Nodes)
		p.Nodes = append(p.Nodes, node.Name)
		has := map[string]bool{}
		for _, image := range node.Status.Images {
			for _, ref := range image.Names {
				has[fullName(ref)] = true
			}
		}
		for i, image := range p.Prepull.Images {
			if has[fullName(image)] {
				p.Done[cell(i, n)] = outcome{}
			}
		}
	}
	switch n := len(p.Nodes) * len(p.Prepull.Images); {
	case n == 0:
		return refuse(pullSpec(p, ""), "no machine that may run such a sandbox is ready")
	case n > mostPulls:
		return refuse(pullSpec(p, ""), "%d images on %d machines are more than %d pulls: name fewer at a time", len(p.Prepull.Images), len(p.Nodes), mostPulls)
	}
	return nil
}

// takesPods reports whether a machine is ready for Pods with these tolerations.
func takesPods(node *corev1.Node, tolerations []corev1.Toleration) bool {
	ready := slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
	if !ready || node.Spec.Unschedulable {
		return false
	}
	for _, taint := range node.Spec.Taints {
		tolerated := slices.ContainsFunc(tolerations, func(t corev1.Toleration) bool { return t.ToleratesTaint(&taint) })
		if taint.Effect != corev1.TaintEffectPreferNoSchedule && !tolerated {
			return false
		}
	}
	return true
}

// fullName is an image by its full name, so that python:3.12 is what a kubelet calls
// docker.io/library/python:3.12. What is no name stays as it is.
func fullName(image string) string {
	ref, err := name.ParseReference(image)
	if err != nil {
		return image
	}
	return ref.Name()
}
