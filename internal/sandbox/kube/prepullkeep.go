package kube

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"orchard/internal/sandbox"
	"orchard/internal/sandbox/control"
)

const pullEvery = time.Second

// prepuller moves pre-pulls on, again and again. It needs no leader: each step is safe to do
// twice, and what a killed replica left the next one finishes.
func (r *Runtime) prepuller() {
	seen := map[types.UID]*sight{}
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-r.pulls:
		case <-time.After(pullEvery/2 + rand.N(pullEvery)):
		}
		r.mu.Lock()
		known := slices.Collect(maps.Values(r.prepulls))
		r.mu.Unlock()
		live := map[types.UID]*sight{}
		for _, p := range known {
			if err := r.keepPrepull(r.ctx, p, seen, live); err != nil && !errors.Is(err, errStale) && r.ctx.Err() == nil {
				zerolog.Ctx(r.ctx).Warn().Err(err).Str("prepull", p.id).Msg("trying again")
			}
		}
		seen = live
	}
}

// keepPrepull makes one step. seen is what was seen of Pods before, live takes in what is
// seen now.
func (r *Runtime) keepPrepull(ctx context.Context, known *prepull, seen, live map[types.UID]*sight) error {
	if !known.Ended.IsZero() {
		if time.Since(known.Ended) < tombstoneLife {
			return nil
		}
		return r.DeletePrepull(ctx, known.id)
	}
	// First the Pods, then the record: a Pod that is neither here nor recorded there was
	// never made.
	pods, err := r.prepullPods(ctx, known.id)
	if err != nil {
		return err
	}
	p, err := r.fetchPrepull(ctx, known.id)
	if apierrors.IsNotFound(err) {
		r.mu.Lock()
		delete(r.prepulls, known.id)
		r.mu.Unlock()
		return nil
	}
	if err != nil {
		return err
	}
	now, byName := time.Now(), map[string]*corev1.Pod{}
	for i := range pods {
		pod := &pods[i]
		byName[pod.Name] = pod
		if live[pod.UID] = seen[pod.UID]; live[pod.UID] == nil {
			live[pod.UID] = &sight{}
		}
	}
	var news map[string]outcome
	var doomed []*corev1.Pod
	var free []func() error
	working := 0
	p.each(func(cell, image, node string) {
		pod := byName[prepullPodName(p.id, cell)]
		_, done := p.Done[cell]
		if !done {
			o, again := r.stepPull(p, node, pod, live, now)
			if o != nil {
				if news == nil {
					news = map[string]outcome{}
				}
				news[cell], done = *o, true
			}
			if again {
				doomed = append(doomed, pod)
			}
		}
		switch {
		case pod == nil && !done:
			free = append(free, func() error { return r.makePull(ctx, p, cell, image, node, now) })
		case pod != nil && done:
			doomed = append(doomed, pod)
		case pod != nil:
			working++
		}
	})
	if len(news) == 0 && len(pods) == 0 && len(free) == 0 {
		p.Ended, news = now, map[string]outcome{}
	}
	if news != nil {
		for cell, o := range news {
			p.finish(cell, o)
		}
		if err := r.writePrepull(ctx, p); err != nil {
			return err
		}
	}
	var errs []error
	for _, pod := range doomed { // what came of it is written down by now
		errs = append(errs, r.deletePod(ctx, pod, nil))
	}
	for _, begin := range free[:max(0, min(len(free), p.Prepull.AtOnce-working))] {
		errs = append(errs, begin())
	}
	return errors.Join(errs...)
}

// stepPull is how a pull that is not done stands: nil while it goes on. again is that its Pod
// is to be made anew.
func (r *Runtime) stepPull(p *prepull, node string, pod *corev1.Pod, live map[types.UID]*sight, now time.Time) (o *outcome, again bool) {
	if pod != nil {
		if o, again = r.outcomeOf(p, pod, live[pod.UID], now); o != nil {
			return o, false
		}
	}
	if now.After(p.deadline()) {
		return lateOutcome(p, pod), false
	}
	if r.nodes != nil {
		if _, err := r.nodes.Get(node); apierrors.IsNotFound(err) {
			return &outcome{control.ReasonNodeLost, "the machine is not there any more"}, false
		}
	}
	return nil, again
}

// makePull makes the Pod of one pull, unless it is there.
func (r *Runtime) makePull(ctx context.Context, p *prepull, cell, image, node string, now time.Time) error {
	pod, err := r.pullPod(p, cell, image, node, now)
	if err == nil {
		_, err = r.create(ctx, pod)
	}
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	var refused *sandbox.Refused
	if err != nil && !errors.As(err, &refused) {
		err = refusal(pullSpec(p, image), err)
	}
	if errors.As(err, &refused) { // the cluster takes no such Pod, now or later
		p.finish(cell, outcome{control.ReasonRefused, refused.Reason})
		return r.writePrepull(ctx, p)
	}
	return err
}

// writePrepull replaces the record, if nobody has since p was read; else the next step will.
func (r *Runtime) writePrepull(ctx context.Context, p *prepull) (err error) {
	if p.from.Data, err = p.data(); err != nil {
		return err
	}
	made, err := r.updateMap(ctx, p.from)
	if err != nil {
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return errStale
		}
		return err
	}
	p.from = made
	r.mu.Lock()
	r.prepulls[p.id] = p
	r.mu.Unlock()
	return nil
}

// errStale says that another replica was faster.
var errStale = errors.New("another replica has changed it meanwhile")
