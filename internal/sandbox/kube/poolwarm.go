package kube

import (
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"orchard/internal/sandbox"
	"orchard/internal/seal"
)

const (
	warmPatience = 10 * time.Minute    // for a pool's Pod to be ready
	warmAge      = 24 * time.Hour      // after which it is replaced
	warmLife     = 10 * 24 * time.Hour // after which the kubelet ends it, with every controller dead
	claimLife    = 8 * 24 * time.Hour  // the longest lifetime that fits into what is left of that
)

// warmPod is the idle Pod of a slot: a sandbox's in everything but that it is nobody's.
func (r *Runtime) warmPod(p *pool, slot string) (*corev1.Pod, error) {
	spec := p.Spec
	if p.Shared {
		spec.Owner = ""
	}
	pod, err := r.opts.podOf(spec, r.key, seal.Random(8))
	if err != nil {
		return nil, err
	}
	shape, err := r.opts.shapeOf(spec)
	if err != nil {
		return nil, err
	}
	pod.Name = warmName(p.name, slot)
	delete(pod.Labels, labelID)
	pod.Labels[labelPool] = p.name
	pod.Annotations[annotPool], pod.Annotations[annotShape] = p.name, shape
	return pod, nil
}

// shapeOf is equal for specs whose Pods are the same but for what a claim brings along:
// the owner too, which is "" for a pool of everybody's.
func (o *Options) shapeOf(spec sandbox.Spec) (string, error) {
	a, err := o.resourcesOf(spec)
	if err != nil {
		return "", err
	}
	p := spec.Placement
	if len(p.NodeSelector) == 0 {
		p.NodeSelector = nil
	}
	if len(p.Tolerations) == 0 {
		p.Tolerations = nil
	}
	if len(p.PullSecrets) == 0 {
		p.PullSecrets = nil
	}
	raw, err := json.Marshal([]any{spec.Owner, spec.Image, a.requests, a.limits, p})
	if err != nil {
		return "", fmt.Errorf("compare sandboxes: %w", err)
	}
	return seal.Bytes(raw), nil
}

// poolOf is the pool of an idle Pod; "" is no idle Pod.
func poolOf(pod *corev1.Pod) string {
	if pod.Labels[labelApp] != appSandbox || pod.Labels[labelID] != "" {
		return ""
	}
	return pod.Labels[labelPool]
}

// takeWarm is take for an idle Pod. The caller holds mu.
func (r *Runtime) takeWarm(pod *corev1.Pod, watched bool) {
	uid, now := string(pod.UID), time.Now()
	e := r.entries[uid]
	switch {
	case e != nil && e.pool == "":
		return // an answer from before it was claimed
	case e == nil:
		spec, err := specOf(pod)
		if err != nil {
			return // it is replaced when its time comes
		}
		e = &entry{uid: uid, agent: identityOf(pod), pool: poolOf(pod), spec: spec, pod: pod, since: now, changed: make(chan struct{})}
		r.entries[uid], r.warm[uid] = e, e
	}
	e.watched = e.watched || watched
	if newer(pod, e.pod) {
		e.pod = pod
	}
	r.evaluate(e, now)
	e.wake()
}

// dropWarm forgets an idle Pod: it is gone, or a sandbox now. The caller holds mu.
func (r *Runtime) dropWarm(e *entry) {
	e.gone = true
	delete(r.entries, e.uid)
	delete(r.warm, e.uid)
	e.wake()
}

// idle reports whether an entry is a warm Pod that can be claimed: its agent has answered
// what was signed for it, and nobody here is about to take it.
func (e *entry) idle() bool {
	return e.pool != "" && !e.over() && !e.seen.ready.IsZero() && e.pod.DeletionTimestamp == nil
}
