package kube

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// stuckTime is after what time the background does not wait for a kubelet's word that a
// deleted Pod has stopped: its machine is lost.
const stuckTime = time.Minute

// Stop implements control.Runtime. When it returns nil the end is recorded and nothing
// runs in the sandbox any more, or its kubelet has been told; the Pod goes a moment later.
func (r *Runtime) Stop(ctx context.Context, id, reason string) error {
	e, t, err := r.find(ctx, id)
	if err != nil || t != nil {
		return err
	}
	return r.bury(ctx, e, &end{reason: reason, at: time.Now()}, stuckTime)
}

// bury records the end of e and then deletes its Pod; it may be called, and break off, at
// any moment, by any number of replicas. why is the end that somebody wants, nil for the
// one that came by itself. A deletion older than force is not waited for any more.
func (r *Runtime) bury(ctx context.Context, e *entry, why *end, force time.Duration) error {
	if _, err := r.record(ctx, e, why); err != nil {
		return err
	}
	return r.remove(ctx, e, force)
}

// record is how e ended, written down if nobody has yet.
func (r *Runtime) record(ctx context.Context, e *entry, why *end) (*tombstone, error) {
	r.mu.Lock()
	grave, verdict, st := e.grave, e.verdict, e.state()
	r.mu.Unlock()
	if grave != nil {
		return grave, nil
	}
	var jobs []string
	if verdict == nil {
		verdict = why
		jobs = r.openJobs(ctx, e)
	}
	if verdict == nil {
		return nil, fmt.Errorf("sandbox %s has not ended", e.id)
	}
	ctx, cancel := brief(ctx)
	defer cancel()
	grave, err := r.write(ctx, tombstoneOf(st, *verdict, jobs))
	if err != nil {
		return nil, err
	}
	r.lay(grave)
	return grave, nil
}

// remove deletes the Pod of e, whose end is recorded, and no other one of its name.
func (r *Runtime) remove(ctx context.Context, e *entry, force time.Duration) error {
	r.mu.Lock()
	gone, pod := e.gone, e.pod
	r.mu.Unlock()
	if gone {
		return nil
	}
	uid := pod.UID
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}
	if began := deletedAt(pod); !began.IsZero() {
		if time.Since(began) < force {
			return nil
		}
		options.GracePeriodSeconds = ptr(int64(0))
	} else if running(pod) {
		r.shutdown(ctx, e)
	}
	ctx, cancel := brief(ctx)
	defer cancel()
	err := r.client.CoreV1().Pods(r.opts.Namespace).Delete(ctx, pod.Name, options)
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err), apierrors.IsConflict(err): // the name is free, or another's
		r.missing(e)
		return nil
	}
	return fmt.Errorf("delete the Pod of sandbox %s: %w", e.id, err)
}

// running reports whether the sandbox's container runs.
func running(pod *corev1.Pod) bool {
	c := sandboxContainer(pod)
	return c != nil && c.State.Running != nil
}
