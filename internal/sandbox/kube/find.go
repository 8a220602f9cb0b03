package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orchard/internal/sandbox/control"
)

// find is a sandbox: its Pod, or how it ended when that is all that is left. What the cache
// does not have, or has ended, is asked for in the cluster: another replica may have made it
// just now.
func (r *Runtime) find(ctx context.Context, id string) (*entry, *tombstone, error) {
	known, over := r.known(id)
	if known != nil && !over {
		return known, nil, nil
	}
	pod, err := r.fetch(ctx, id)
	switch {
	case err == nil:
		if e := r.observe(pod, false); e != nil {
			return e, nil, nil
		}
	case apierrors.IsNotFound(err):
		r.missing(known)
	default:
		return nil, nil, fmt.Errorf("look for sandbox %s: %w", id, err)
	}
	if e, t := r.dead(id); e != nil || t != nil {
		return e, t, nil
	}
	ctx, cancel := brief(ctx)
	defer cancel()
	list, err := r.client.CoreV1().ConfigMaps(r.opts.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: selector(appTombstone) + "," + labelID + "=" + id,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("look for the end of sandbox %s: %w", id, err)
	}
	for i := range list.Items {
		r.observeGrave(&list.Items[i])
	}
	if e, t := r.dead(id); e != nil || t != nil {
		return e, t, nil
	}
	return nil, nil, fmt.Errorf("%s: %w", id, control.ErrNotFound)
}

// known is the newest entry of an id, nil for none, and whether it is over: then there
// may be a newer one that this replica has not heard of.
func (r *Runtime) known(id string) (e *entry, over bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e = r.byID[id]
	return e, e != nil && e.over()
}

// missing says that the cluster does not have the Pod of e, which may be nil.
func (r *Runtime) missing(e *entry) {
	if e == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.vanish(e, "its Pod was deleted by somebody else")
}

// dead is what is known of an id that has no Pod.
func (r *Runtime) dead(id string) (*entry, *tombstone) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.byID[id]; e != nil {
		return e, nil
	}
	return nil, r.lastGrave(id)
}

// Get implements control.Runtime.
func (r *Runtime) Get(ctx context.Context, id string) (control.State, error) {
	e, t, err := r.find(ctx, id)
	switch {
	case err != nil:
		return control.State{}, err
	case t != nil:
		return t.state(), nil
	}
	st := r.read(e)
	if st.Phase == control.Pending && r.ask(ctx, e) { // another replica may have seen it ready already
		st = r.read(e)
	}
	return r.settled(ctx, e, st), nil
}

// settled is st, an end with the reason that all replicas agree on.
func (r *Runtime) settled(ctx context.Context, e *entry, st control.State) control.State {
	if st.Phase != control.Ended {
		return st
	}
	if _, err := r.record(ctx, e, nil); err != nil {
		return st // it ended for certain; what is recorded of it the next look will tell
	}
	return r.read(e)
}

// Wait implements control.Runtime.
func (r *Runtime) Wait(ctx context.Context, id string) (control.State, error) {
	for {
		e, t, err := r.find(ctx, id)
		switch {
		case err != nil:
			return control.State{}, err
		case t != nil:
			return t.state(), nil
		}
		r.mu.Lock()
		st, changed := e.state(), e.changed
		r.mu.Unlock()
		if st.Phase != control.Pending {
			return r.settled(ctx, e, st), nil
		}
		select {
		case <-ctx.Done():
			return r.read(e), ctx.Err()
		case <-changed:
		}
	}
}

// List implements control.Runtime.
func (r *Runtime) List(context.Context) ([]control.State, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	states := make([]control.State, 0, len(r.byID))
	for _, e := range r.byID {
		states = append(states, e.state())
	}
	for id := range r.graves {
		if r.byID[id] == nil {
			states = append(states, r.lastGrave(id).state())
		}
	}
	slices.SortFunc(states, func(a, b control.State) int { return strings.Compare(a.Spec.ID, b.Spec.ID) })
	return states, nil
}
