package kube

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"orchard/internal/logx"
	"orchard/internal/seal"
)

const (
	keepEvery  = 2 * time.Second
	keepAtOnce = 8 // Pods that one replica makes at a time
	firstRetry = 10 * time.Second
	lastRetry  = 10 * time.Minute
)

// keeper makes pools be as they should, again and again. It needs no leader: what two do
// at once is done once.
func (r *Runtime) keeper() {
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-r.keep:
		case <-time.After(keepEvery/2 + rand.N(keepEvery)):
		}
		r.dropUnseen(time.Now())
		r.mu.Lock()
		names := map[string]bool{}
		for name := range r.pools {
			names[name] = true
		}
		for _, e := range r.warm { // also what is left of pools that are gone
			names[e.pool] = true
		}
		r.mu.Unlock()
		for _, name := range slices.Sorted(maps.Keys(names)) {
			if err := r.keepPool(r.ctx, name); err != nil && r.ctx.Err() == nil {
				zerolog.Ctx(r.ctx).Warn().Err(err).Str("pool", name).Msg("trying again")
			}
		}
		r.keepTickets(time.Now())
	}
}

// dropUnseen forgets idle Pods that the informer has never shown and the cluster does not
// have: they came and went between two watches.
func (r *Runtime) dropUnseen(now time.Time) {
	var unseen []*entry
	r.mu.Lock()
	for _, e := range r.warm {
		if !e.watched && now.Sub(e.since) > unseenTime {
			e.since = now
			unseen = append(unseen, e)
		}
	}
	r.mu.Unlock()
	for _, e := range unseen {
		pod, err := r.get(r.ctx, e.pod.Name)
		switch {
		case err == nil && string(pod.UID) == e.uid:
			r.observe(pod, false)
		case err == nil || apierrors.IsNotFound(err):
			r.mu.Lock()
			r.dropWarm(e)
			r.mu.Unlock()
		}
	}
}

// wakeKeeper has the keeper look now.
func (r *Runtime) wakeKeeper() {
	select {
	case r.keep <- struct{}{}:
	default:
	}
}

// plan is what a pool needs.
type plan struct {
	failed          *end          // why one did not start
	ready           bool          // one is
	claimed         []string      // names of Pods that are sandboxes now
	missing         []string      // names of Pods that are to be made
	doomed, strange []*corev1.Pod // to be deleted; strange ones only if the pool is as it seems
	starting        int
}

// planFor compares p, nil for a pool that is gone, with the Pods that this replica knows.
func (r *Runtime) planFor(name string, p *pool, now time.Time) (plan, error) {
	var l plan
	shape, left := "", map[string]bool{}
	if p != nil {
		spec := p.Spec
		if p.Shared {
			spec.Owner = ""
		}
		var err error
		if shape, err = r.opts.shapeOf(spec); err != nil {
			return l, err
		}
		for _, slot := range p.names() {
			left[slot] = true
		}
	}
	var aged *corev1.Pod
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.warm {
		pod := e.pod
		if e.pool != name {
			continue
		}
		known := left[pod.Name]
		delete(left, pod.Name)
		switch {
		case pod.DeletionTimestamp != nil:
		case !known || pod.Annotations[annotShape] != shape:
			if !e.aside {
				l.strange = append(l.strange, pod)
			}
		case e.over():
			if e.seen.ready.IsZero() && !podReady(pod) && e.verdict != nil {
				l.failed = e.verdict
			}
			l.doomed = append(l.doomed, pod)
		case e.idle():
			if l.ready = true; now.Sub(pod.CreationTimestamp.Time) > warmAge && !e.aside {
				aged = pod
			}
		default:
			l.starting++
		}
	}
	for _, e := range r.entries {
		if e.pool == "" && left[e.pod.Name] {
			delete(left, e.pod.Name)
			l.claimed = append(l.claimed, e.pod.Name)
		}
	}
	l.missing = slices.Sorted(maps.Keys(left))
	if aged != nil && l.starting+len(l.missing)+len(l.claimed) == 0 { // one at a time
		l.doomed = append(l.doomed, aged)
	}
	return l, nil
}

// keepPool makes one pool be as it should.
func (r *Runtime) keepPool(ctx context.Context, name string) error {
	r.mu.Lock()
	p := r.pools[name]
	r.mu.Unlock()
	now := time.Now()
	l, err := r.planFor(name, p, now)
	if err != nil {
		return err
	}
	// A pool is asked for in the cluster before anything is deleted for what it says, and
	// before it is changed.
	if p == nil || len(l.strange) > 0 || len(l.claimed) > 0 || l.failed != nil && now.After(p.Retry) || l.ready && p.Failures > 0 {
		p, err = r.changePool(ctx, name, func(p *pool) bool { return p.follow(l, now) })
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		if apierrors.IsNotFound(err) {
			p = nil
		}
		if l, err = r.planFor(name, p, now); err != nil {
			return err
		}
		l.doomed = append(l.doomed, l.strange...)
	}
	for _, pod := range l.doomed {
		// In this version only: a claim at the same moment is another.
		if err := r.deletePod(ctx, pod, &pod.ResourceVersion); err != nil {
			return err
		}
	}
	if p == nil || now.Before(p.Retry) {
		return nil
	}
	if p.Failures > 0 { // one at a time, until one is ready
		l.missing = l.missing[:min(len(l.missing), max(0, 1-l.starting))]
	}
	return r.fill(ctx, p, l.missing)
}

// follow changes the pool by what was seen: other names for slots whose Pods are sandboxes
// now, and when to try again after a failure.
func (p *pool) follow(l plan, now time.Time) (changed bool) {
	for i, name := range p.names() {
		if slices.Contains(l.claimed, name) {
			p.Slots[i], changed = seal.Random(4), true
		}
	}
	switch {
	case l.failed != nil && !now.Before(p.Retry):
		pause := min(lastRetry, firstRetry<<min(p.Failures, 10))
		p.Failures, p.Error, p.Retry = p.Failures+1, l.failed.reason+": "+l.failed.message, now.Add(pause)
		changed = true
	case l.failed == nil && l.ready && p.Failures > 0:
		p.Failures, p.Error, p.Retry, changed = 0, "", time.Time{}, true
	}
	return changed
}

// fill makes the Pods of these names that are not there.
func (r *Runtime) fill(ctx context.Context, p *pool, names []string) error {
	var mu sync.Mutex
	var first error
	var all sync.WaitGroup
	slots := make(chan struct{}, keepAtOnce)
	for _, name := range names {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			if err := r.fillSlot(ctx, p, name); err != nil {
				mu.Lock()
				first = err
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return first
}

func (r *Runtime) fillSlot(ctx context.Context, p *pool, name string) error {
	pod, err := r.warmPod(p, name[len(warmName(p.name, "")):])
	if err != nil {
		return err
	}
	made, err := r.create(ctx, pod)
	if apierrors.IsAlreadyExists(err) { // another replica's, or a sandbox by now
		made, err = r.get(ctx, name)
	}
	if err == nil {
		r.observe(made, false)
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// keepTickets finishes claims that nobody finished, and ends what has no ticket any more.
func (r *Runtime) keepTickets(now time.Time) {
	var open []*corev1.Pod
	r.mu.Lock()
	for _, ticket := range r.tickets {
		e := r.entries[ticket.Annotations[annotBodyUID]]
		if (e == nil || e.pool != "") && now.Sub(ticket.CreationTimestamp.Time) > ticketTime {
			open = append(open, ticket)
		}
	}
	lost := slices.Collect(maps.Values(r.bodies))
	r.mu.Unlock()
	log := zerolog.Ctx(r.ctx)
	for _, ticket := range open {
		body, err := r.settle(r.ctx, ticket)
		if err == nil {
			r.observe(body, false)
		} else if !apierrors.IsNotFound(err) && r.ctx.Err() == nil {
			log.Warn().Err(err).Str(logx.Sandbox, ticket.Labels[labelID]).Msg("a claim; trying again")
		}
	}
	for _, body := range lost {
		if now.Sub(claimedAt(body)) < ticketTime || body.DeletionTimestamp != nil {
			continue
		}
		ticket, err := r.get(r.ctx, podName(body.Labels[labelID]))
		switch {
		case err == nil && string(ticket.UID) == ticketOf(body):
			r.observe(ticket, false)
		case err == nil || apierrors.IsNotFound(err): // nobody can know what it is
			err = r.deletePod(r.ctx, body, nil)
		}
		if err != nil && !apierrors.IsNotFound(err) && r.ctx.Err() == nil {
			log.Warn().Err(err).Str(logx.Sandbox, body.Labels[labelID]).Msg("a claimed Pod without a ticket; trying again")
		}
	}
}
