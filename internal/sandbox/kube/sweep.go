package kube

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/rs/zerolog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orchard/internal/logx"
)

const (
	sweepEvery  = time.Second
	graveEvery  = time.Minute
	unseenTime  = 15 * time.Second // for the informer to show what an answer has shown
	retryPeriod = 5 * time.Second
)

// sweep looks at every sandbox again and again, because some ends are only a matter of time,
// and finishes what this or another replica began. It needs no leader: each step is safe to do twice.
func (r *Runtime) sweep() {
	graves := time.Now().Add(rand.N(graveEvery))
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-time.After(sweepEvery/2 + rand.N(sweepEvery)):
		}
		now := time.Now()
		due, unseen, unopened := r.round(now)
		if len(unopened) > 0 {
			r.inBackground(func() { r.reopen(unopened) })
		}
		for _, e := range due {
			r.inBackground(func() { r.buryDue(e) })
		}
		for _, e := range unseen {
			r.inBackground(func() { r.verify(e) })
		}
		if now.After(graves) {
			graves = now.Add(graveEvery/2 + rand.N(graveEvery))
			r.inBackground(r.clearGraves)
		}
	}
}

// inBackground runs f when one of a few slots is free.
func (r *Runtime) inBackground(f func()) {
	select {
	case r.slots <- struct{}{}:
	case <-r.ctx.Done():
		return
	}
	r.wg.Go(func() {
		defer func() { <-r.slots }()
		f()
	})
}

// round judges every sandbox at now. due are those to bury; unseen those that the informer
// should have shown by now; unopened those whose network should be open.
func (r *Runtime) round(now time.Time) (due, unseen, unopened []*entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for uid, e := range r.entries {
		if e.pool != "" {
			if !e.over() {
				r.evaluate(e, now)
			}
			continue // the keeper's
		}
		if e.gone && e.grave != nil {
			delete(r.entries, uid)
			if r.byID[e.id] == e {
				delete(r.byID, e.id)
			}
			continue
		}
		if !e.over() {
			r.evaluate(e, now)
		}
		switch {
		case e.over() && !e.burying && now.After(e.retry):
			e.burying, e.retry = true, now.Add(retryPeriod+rand.N(retryPeriod))
			due = append(due, e)
		case !e.watched && !e.gone && now.Sub(e.since) > unseenTime:
			e.since = now
			unseen = append(unseen, e)
		case e.unopened() && now.After(e.retry):
			e.retry = now.Add(openTime)
			unopened = append(unopened, e)
		}
	}
	return due, unseen, unopened
}

func (r *Runtime) buryDue(e *entry) {
	err := r.bury(r.ctx, e, nil, stuckTime)
	r.mu.Lock()
	e.burying = false
	st := e.state()
	r.mu.Unlock()
	log := zerolog.Ctx(r.ctx)
	switch {
	case err != nil && r.ctx.Err() == nil:
		log.Warn().Err(err).Str(logx.Sandbox, e.id).Msg("end of a sandbox; trying again")
	case err == nil:
		log.Debug().Str(logx.Sandbox, e.id).Str("reason", st.Reason).Msg("sandbox ended")
	}
}

// verify asks the cluster for a Pod that the informer has never shown: it may have come and
// gone between two watches.
func (r *Runtime) verify(e *entry) {
	pod, err := r.fetch(r.ctx, e.id)
	switch {
	case err == nil && string(pod.UID) == e.uid:
		r.observe(pod, false)
	case err == nil || apierrors.IsNotFound(err):
		r.mu.Lock()
		r.vanish(e, "its Pod vanished while nobody watched")
		r.mu.Unlock()
	}
}

// clearGraves deletes the tombstones whose time is over.
func (r *Runtime) clearGraves() {
	var old []*tombstone
	r.mu.Lock()
	for _, of := range r.graves {
		for _, t := range of {
			// As long as the Pod is there its end must be known.
			if time.Since(t.made) > tombstoneLife && r.entries[t.UID] == nil {
				old = append(old, t)
			}
		}
	}
	r.mu.Unlock()
	for _, t := range old {
		r.clear(t)
	}
}

func (r *Runtime) clear(t *tombstone) {
	ctx, cancel := context.WithTimeout(r.ctx, callTime)
	defer cancel()
	err := r.client.CoreV1().ConfigMaps(r.opts.Namespace).Delete(ctx, tombstoneName(t.Spec.ID, t.UID), metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) && r.ctx.Err() == nil {
		zerolog.Ctx(r.ctx).Warn().Err(err).Str(logx.Sandbox, t.Spec.ID).Msg("delete a tombstone; trying again")
	}
}
