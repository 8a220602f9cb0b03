package kube

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/rs/zerolog"
	networkv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orchard/internal/logx"
	"orchard/internal/sandbox/kube/policy"
)

// annotGeneration of a policy is the generation of the grant that it was made of.
const annotGeneration = "orchard.dev/generation"

// openTime is how long whoever started or changed a sandbox has to open its network
// before a sweep does.
const openTime = 3 * time.Second

// open brings what the cluster has opened to e in line with its spec and grant. It may
// break off anywhere, and be done by several at once: the next one finishes it.
func (r *Runtime) open(ctx context.Context, e *entry) error {
	r.mu.Lock()
	pod, over := e.pod, e.over()
	r.mu.Unlock()
	g, ok := r.granted(pod)
	if over || !e.spec.OpenNetwork && len(e.spec.Egress) == 0 && !ok {
		return nil
	}
	if !ok && len(e.spec.Egress) > 0 {
		if err := r.grant(ctx, e, e.spec.Egress); err != nil {
			return err
		}
		r.mu.Lock()
		pod = e.pod
		r.mu.Unlock()
		g, _ = r.granted(pod)
	}
	np := policy.For(pod, e.spec, g.Rules, r.opts.Network.Cluster)
	np.Annotations = map[string]string{annotGeneration: strconv.FormatInt(g.Generation, 10)}
	if err := r.put(ctx, np, g.Generation); err != nil {
		return fmt.Errorf("open the network of sandbox %s: %w", e.id, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	e.opened = max(e.opened, g.Generation+1)
	return nil
}

// openNew opens a new sandbox's network. When that fails the sandbox is there all the
// same, and closed; the sweep goes on trying.
func (r *Runtime) openNew(ctx context.Context, e *entry) {
	if e == nil {
		return
	}
	if err := r.open(ctx, e); err != nil && ctx.Err() == nil {
		zerolog.Ctx(r.ctx).Warn().Err(err).Str(logx.Sandbox, e.id).Msg("trying again")
	}
}

// put makes a policy be as np, unless a later one is there.
func (r *Runtime) put(ctx context.Context, np *networkv1.NetworkPolicy, generation int64) error {
	ctx, cancel := brief(ctx)
	defer cancel()
	policies := r.client.NetworkingV1().NetworkPolicies(r.opts.Namespace)
	for {
		_, err := policies.Create(ctx, np, metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		old, err := policies.Get(ctx, np.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return err
		}
		if !maps.Equal(old.Spec.PodSelector.MatchLabels, np.Spec.PodSelector.MatchLabels) {
			// That of an earlier Pod of this name, which its end takes along a little later.
			err = policies.Delete(ctx, np.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &old.UID}})
			if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				return err
			}
			continue
		}
		was, err := strconv.ParseInt(old.Annotations[annotGeneration], 10, 64)
		if err == nil && was >= generation {
			return nil
		}
		np.ResourceVersion = old.ResourceVersion
		if _, err = policies.Update(ctx, np, metav1.UpdateOptions{}); !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return err
		}
		np.ResourceVersion = ""
	}
}

// unopened reports whether e is to be opened something that this replica has not seen
// done. The caller holds mu.
func (e *entry) unopened() bool {
	if e.over() || !e.spec.OpenNetwork && len(e.spec.Egress) == 0 && e.network.Generation == 0 {
		return false
	}
	return e.opened <= e.network.Generation && time.Since(e.since) > openTime
}

// reopen finishes what others began: one look at all policies says which are missing.
func (r *Runtime) reopen(unopened []*entry) {
	ctx, cancel := brief(r.ctx)
	defer cancel()
	list, err := r.client.NetworkingV1().NetworkPolicies(r.opts.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector(appSandbox)})
	log := zerolog.Ctx(r.ctx)
	if err != nil {
		log.Warn().Err(err).Msg("network policies cannot be listed; trying again")
		return
	}
	done := map[string]int64{} // by incarnation
	for _, np := range list.Items {
		if n, err := strconv.ParseInt(np.Annotations[annotGeneration], 10, 64); err == nil {
			done[np.Spec.PodSelector.MatchLabels[policy.Incarnation]] = n + 1
		}
	}
	for _, e := range unopened {
		r.mu.Lock()
		e.opened = max(e.opened, done[e.pod.Labels[policy.Incarnation]])
		left := e.unopened()
		r.mu.Unlock()
		if !left {
			continue
		}
		if err := r.open(ctx, e); err != nil && r.ctx.Err() == nil {
			log.Warn().Err(err).Str(logx.Sandbox, e.id).Msg("trying again")
		}
	}
}
