package kube

import (
	"time"

	"math/rand/v2"

	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"orchard/internal/logx"
	"orchard/internal/sandbox/control"
)

// buryDelay spreads what all replicas notice at the same moment, so that mostly one acts.
const buryDelay = 1500 * time.Millisecond

// observe takes in a Pod as the informer or an answer of the cluster shows it. It is the
// only way into the entries, so whoever made or asked for a Pod knows it at once. Nil for
// one that is no sandbox, or is older than what is known.
func (r *Runtime) observe(pod *corev1.Pod, watched bool) *entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.take(pod, watched)
}

// take is observe; the caller holds mu.
func (r *Runtime) take(pod *corev1.Pod, watched bool) *entry {
	switch {
	case isTicket(pod):
		r.takeTicket(pod)
		return nil
	case poolOf(pod) != "":
		r.takeWarm(pod, watched)
		return nil
	}
	id, uid := idOf(pod), string(pod.UID)
	if id == "" || pod.Name != podName(id) && ticketOf(pod) == "" {
		return nil
	}
	now := time.Now()
	e := r.entries[uid]
	if e != nil && e.pool != "" { // it was claimed
		r.dropWarm(e)
		e = nil
	}
	if e == nil {
		old := r.byID[id]
		if old != nil && !newer(pod, old.pod) {
			return nil // an answer that was long on its way
		}
		spec, err := specOf(pod)
		if ticketOf(pod) != "" {
			var known bool
			if spec, known = r.claimedSpec(pod); !known {
				return nil
			}
		}
		if err != nil {
			zerolog.Ctx(r.ctx).Warn().Err(err).Str(logx.Sandbox, id).Msg("a Pod that looks like a sandbox is none")
			return nil
		}
		if old != nil {
			r.vanish(old, "another sandbox has its id by now")
		}
		e = &entry{id: id, uid: uid, agent: identityOf(pod), spec: spec, pod: pod, since: now, claimed: claimedAt(pod), changed: make(chan struct{})}
		r.entries[uid], r.byID[id] = e, e
	}
	e.watched = e.watched || watched
	if newer(pod, e.pod) {
		e.pod, e.network = pod, r.networkOf(pod)
	}
	r.evaluate(e, now)
	e.wake()
	return e
}

// evaluate says what e comes to at now. The caller holds mu.
func (r *Runtime) evaluate(e *entry, now time.Time) {
	e.seen.look(e.pod, now)
	if e.grave == nil {
		e.grave = r.graves[e.id][e.uid]
	}
	if e.verdict == nil {
		if v := r.opts.judge(e.pod, e.spec, e.seen, now); v != nil {
			e.sentence(*v, now)
		}
	}
	if !e.over() && e.seen.ready.IsZero() && e.address() != "" && !e.probing {
		e.probing = true
		r.goes(func() { r.probe(e) })
	}
}

// sentence sets how e ended as far as can be told; a tombstone may know better.
func (e *entry) sentence(v end, now time.Time) {
	if v.at.IsZero() || v.at.After(now) {
		v.at = now
	}
	e.verdict = &v
	e.retry = now.Add(rand.N(buryDelay))
	e.wake()
}

// vanish says that e's Pod is not there any more. The caller holds mu.
func (r *Runtime) vanish(e *entry, how string) {
	if e.gone {
		return
	}
	e.gone = true
	if e.grave == nil {
		e.grave = r.graves[e.id][e.uid]
	}
	now := time.Now()
	if e.verdict == nil {
		e.sentence(end{control.ReasonLost, how, now}, now)
	}
	e.wake()
}

// deleted is the informer's: a Pod was deleted, or a new list does not have it.
func (r *Runtime) deleted(o any) {
	how := "its Pod was deleted by somebody else"
	if unknown, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o, how = unknown.Obj, "its Pod vanished while nobody watched"
	}
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.tickets, string(pod.UID))
	delete(r.bodies, ticketOf(pod))
	e := r.entries[string(pod.UID)]
	if e == nil {
		return
	}
	if e.pool != "" {
		r.dropWarm(e)
		return
	}
	e.pod = pod
	r.evaluate(e, time.Now())
	r.vanish(e, how)
}

// observeGrave takes in a tombstone.
func (r *Runtime) observeGrave(m *corev1.ConfigMap) *tombstone {
	t, err := readTombstone(m)
	if err != nil {
		zerolog.Ctx(r.ctx).Warn().Err(err).Msg("a ConfigMap that looks like a tombstone is none")
		return nil
	}
	r.lay(t)
	return t
}

// lay makes t known.
func (r *Runtime) lay(t *tombstone) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := t.Spec.ID
	if r.graves[id] == nil {
		r.graves[id] = map[string]*tombstone{}
	}
	if r.graves[id][t.UID] != nil {
		return
	}
	r.graves[id][t.UID] = t
	if e := r.entries[t.UID]; e != nil && e.grave == nil {
		e.grave = t
		// Whoever wrote it deletes the Pod as well; if not, somebody else must.
		e.retry = time.Now().Add(buryDelay + rand.N(buryDelay))
		e.wake()
	}
}

// observeMap takes in a pool, a pre-pull or a tombstone.
func (r *Runtime) observeMap(m *corev1.ConfigMap) {
	switch m.Labels[labelApp] {
	case appPool:
		r.observePool(m, false)
	case appPrepull:
		r.observePrepull(m, false)
	default:
		r.observeGrave(m)
	}
}

// forget is the informer's: a tombstone, a pool or a pre-pull is gone.
func (r *Runtime) forget(o any) {
	if unknown, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = unknown.Obj
	}
	m, ok := o.(*corev1.ConfigMap)
	if !ok {
		return
	}
	switch m.Labels[labelApp] {
	case appPool:
		r.observePool(m, true)
		return
	case appPrepull:
		r.observePrepull(m, true)
		return
	}
	t, err := readTombstone(m)
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if delete(r.graves[t.Spec.ID], t.UID); len(r.graves[t.Spec.ID]) == 0 {
		delete(r.graves, t.Spec.ID)
	}
}

// lastGrave is the newest tombstone of an id, nil for none. The caller holds mu.
func (r *Runtime) lastGrave(id string) *tombstone {
	var last *tombstone
	for _, t := range r.graves[id] {
		if last == nil || t.Created.After(last.Created) || t.Created.Equal(last.Created) && t.Ended.After(last.Ended) {
			last = t
		}
	}
	return last
}
