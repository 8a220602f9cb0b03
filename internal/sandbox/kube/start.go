package kube

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orchard/internal/sandbox"
	"orchard/internal/sandbox/control"
	"orchard/internal/seal"
)

const (
	createTries = 3
	// Before a new sandbox can have the id of one that ended, that one's Pod must be gone:
	// how long that may take, and after what time it is not waited for a kubelet's word.
	goneTime  = 20 * time.Second
	forceTime = 5 * time.Second
)

// errGoing says that an ended sandbox's Pod still holds the id.
var errGoing = errors.New("the Pod of the ended sandbox of this id is not gone yet")

// Start implements control.Runtime. The cluster decides who has an id, not this replica's
// cache: of many who start the same one at once exactly one makes the Pod.
func (r *Runtime) Start(ctx context.Context, spec sandbox.Spec) (control.State, error) {
	if err := check(spec); err != nil {
		return control.State{}, err
	}
	if err := r.opts.Network.check(spec, spec.Egress); err != nil {
		return control.State{}, err
	}
	attempt := seal.Random(8)
	if e := r.claim(ctx, spec, attempt); e != nil {
		r.openNew(ctx, e)
		return r.read(e), nil
	}
	pod, err := r.opts.podOf(spec, r.key, attempt)
	if err != nil {
		return control.State{}, err
	}
	began, pause := time.Now(), 50*time.Millisecond
	for tries := 1; ; tries++ {
		made, err := r.create(ctx, pod)
		switch {
		case err == nil:
			e := r.observe(made, false)
			r.openNew(ctx, e)
			return r.read(e), nil
		case apierrors.IsAlreadyExists(err):
			st, metErr := r.meet(ctx, spec, attempt)
			if metErr == nil || !errors.Is(metErr, errGoing) || time.Since(began) > goneTime {
				return st, metErr
			}
		case !transient(err) || tries >= createTries:
			return control.State{}, refusal(spec, err)
		}
		// A request that broke may have made the Pod: then the next one finds it, by attempt.
		select {
		case <-ctx.Done():
			return control.State{}, fmt.Errorf("start sandbox %s: %w", spec.ID, ctx.Err())
		case <-time.After(pause):
		}
		pause = min(2*pause, time.Second)
	}
}

func (r *Runtime) create(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	ctx, cancel := brief(ctx)
	defer cancel()
	return r.client.CoreV1().Pods(r.opts.Namespace).Create(ctx, pod, metav1.CreateOptions{})
}

// meet finds out whose Pod already has the name: one that this very start made (nil), a
// live sandbox (ErrExists), or one that ended and is on its way out (errGoing).
func (r *Runtime) meet(ctx context.Context, spec sandbox.Spec, attempt string) (control.State, error) {
	pod, err := r.fetch(ctx, spec.ID)
	switch {
	case apierrors.IsNotFound(err):
		return control.State{}, errGoing
	case err != nil:
		return control.State{}, fmt.Errorf("look at the Pod of sandbox %s: %w", spec.ID, err)
	}
	e := r.observe(pod, false)
	if e == nil {
		if idOf(pod) != spec.ID {
			return control.State{}, refuse(spec, "a Pod %s is there that is no sandbox", pod.Name)
		}
		return control.State{}, errGoing // an answer older than what is known
	}
	st := r.read(e)
	switch {
	case pod.Annotations[annotAttempt] == attempt:
		return st, nil
	case st.Phase != control.Ended:
		return st, control.ErrExists
	}
	if err := r.bury(ctx, e, nil, forceTime); err != nil {
		return control.State{}, err
	}
	return control.State{}, errGoing
}

// fetch is the Pod of a sandbox id as the cluster has it now.
func (r *Runtime) fetch(ctx context.Context, id string) (*corev1.Pod, error) {
	pod, err := r.get(ctx, podName(id))
	if err == nil && isTicket(pod) {
		return r.settle(ctx, pod)
	}
	return pod, err
}

// read is an entry's state.
func (r *Runtime) read(e *entry) control.State {
	if e == nil {
		return control.State{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return e.state()
}
