package kube

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"orchard/internal/sandbox"
	"orchard/internal/sandbox/control"
)

// entry is one Pod as this replica knows it. Guarded by Runtime.mu, but for id, uid, agent,
// pool, spec and claimed, which never change: an idle Pod that is claimed is another entry.
type entry struct {
	id, uid string
	agent   string // the name that its agent proves; "" is one that proves none
	pool    string // of an idle Pod, which is no sandbox and has no id
	spec    sandbox.Spec
	pod     *corev1.Pod     // the newest seen; not to be changed
	network control.Network // what is open to it
	seen    sight
	watched bool          // the informer has shown it
	since   time.Time     // when this replica met it
	gone    bool          // the Pod is deleted
	verdict *end          // how it ended as far as the Pod tells; a tombstone may know better
	grave   *tombstone    // how it ended; nil until it is written down
	changed chan struct{} // closed at the next change
	probing bool          // its agent is being asked
	burying bool          // its end is being written down
	opened  int64         // the generation of its grant, and one, that its policy was seen to follow
	retry   time.Time     // not to be buried in the background before
	claimed time.Time     // when an idle Pod became this sandbox; zero: it was made for it
	aside   bool          // this replica is about to claim it
}

// newer reports whether a is later than b, both of one object.
func newer(a, b *corev1.Pod) bool { return newerVersion(a.ResourceVersion, b.ResourceVersion) }

func newerVersion(a, b string) bool {
	x, errX := strconv.ParseUint(a, 10, 64)
	y, errY := strconv.ParseUint(b, 10, 64)
	return errX != nil || errY != nil || x >= y
}

// wake tells everybody who waits for a change.
func (e *entry) wake() {
	close(e.changed)
	e.changed = make(chan struct{})
}

// over reports whether the sandbox has ended.
func (e *entry) over() bool { return e.grave != nil || e.verdict != nil || e.gone }

// address is where the agent is, "" while there is nothing to reach.
func (e *entry) address() string {
	if e.gone {
		return ""
	}
	return e.pod.Status.PodIP
}

// state is the sandbox now.
func (e *entry) state() control.State {
	if e.grave != nil {
		st := e.grave.state()
		st.Spec.Env = e.spec.Env
		return st
	}
	st := control.State{
		Spec: e.spec, UID: e.uid, Phase: control.Pending, Created: e.pod.CreationTimestamp.Time, Scheduled: scheduledAt(e.pod),
		Ready: e.seen.ready, Limits: control.LimitsFull, Host: e.pod.Spec.NodeName, Spot: e.spec.Placement.Spot, Network: e.network,
	}
	if !e.claimed.IsZero() { // what was before is the pool's
		st.Created, st.Scheduled, st.Pod = e.claimed, e.claimed, e.pod.Name
	}
	if e.spec.Lifetime > 0 {
		from := st.Created
		if start := e.pod.Status.StartTime; start != nil && e.claimed.IsZero() {
			from = start.Time
		}
		st.ExpiresAt = from.Add(e.spec.Lifetime)
	}
	switch {
	case e.verdict != nil:
		st.Phase, st.Reason, st.Message, st.Ended = control.Ended, e.verdict.reason, e.verdict.message, e.verdict.at
	case !e.seen.ready.IsZero():
		st.Phase = control.Ready
	default:
		st.Message = e.seen.waitsFor(e.pod)
	}
	return st
}
