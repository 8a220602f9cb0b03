package control

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"orchard/internal/sandbox"
)

// tenants is a Runtime in which a caller finds its own sandboxes and no others. It is
// the only Runtime that handlers have, so ownership holds for routes that never think
// of it: whoever is no caller at all, since a route forgot to ask for a key, finds
// nothing. What is another's is unknown, to the letter.
//
// What may be made is decided here too, for the same reason: the fields that a key may
// set, and its quota.
type tenants struct {
	runtime Runtime
	quotas  *quotas
	allow   placementRules
	egress  egressRules

	prepulls sync.Mutex // held while one is begun
}

var (
	_ Runtime   = (*tenants)(nil)
	_ Pooler    = (*tenants)(nil)
	_ Prepuller = (*tenants)(nil)
)

// errTaken says that a sandbox of another owner has the id.
var errTaken = errors.New("the id is taken")

// errNobody is a bug: a route that nobody was authorised for used a sandbox.
var errNobody = errors.New("a sandbox was asked for by nobody")

// ownerOf is whose a sandbox is. One from before there were owners is the flat keys'.
func ownerOf(st State) string {
	if st.Spec.Owner == "" {
		return DefaultOwner
	}
	return st.Spec.Owner
}

// sees reports whether ctx's caller may know of st.
func sees(ctx context.Context, st State) bool {
	c, ok := callerOf(ctx)
	return ok && (c.admin || c.name == ownerOf(st))
}

// Start implements Runtime for the caller, whose the sandbox then is. An admin gets no
// other's sandbox for asking for the same.
func (t *tenants) Start(ctx context.Context, spec sandbox.Spec) (State, error) {
	c, err := t.mayStart(ctx, spec)
	if err != nil {
		return State{}, err
	}
	switch st, err := t.runtime.Get(ctx, spec.ID); {
	case errors.Is(err, ErrNotFound):
	case err != nil:
		return State{}, err
	case ownerOf(st) != c.name && (st.Phase != Ended || st.Reason != ReasonDeleted):
		// An ended one keeps its id too: its owner may still ask why it ended.
		return State{}, errTaken
	case st.Phase != Ended:
		return st, ErrExists
	}
	return t.start(ctx, c, spec)
}

// startNew is Start for an id that the service itself has made and has just not found, or
// cannot have met before: a cluster is not asked for it once more.
func (t *tenants) startNew(ctx context.Context, spec sandbox.Spec) (State, error) {
	c, err := t.mayStart(ctx, spec)
	if err != nil {
		return State{}, err
	}
	return t.start(ctx, c, spec)
}

// mayStart is the caller, if it may have a sandbox of spec at all.
func (t *tenants) mayStart(ctx context.Context, spec sandbox.Spec) (caller, error) {
	c, ok := callerOf(ctx)
	if !ok {
		return c, errNobody
	}
	if err := t.allow.check(c, spec); err != nil {
		return c, err
	}
	return c, t.mayOpen(c, spec, spec.Egress)
}

// start makes c's sandbox within its quota.
func (t *tenants) start(ctx context.Context, c caller, spec sandbox.Spec) (State, error) {
	spec.Owner = c.name
	started, err := t.quotas.admit(ctx, c, spec)
	if err != nil {
		return State{}, err
	}
	st, err := t.runtime.Start(ctx, spec)
	started(st, err)
	if errors.Is(err, ErrExists) && ownerOf(st) != c.name {
		return State{}, errTaken
	}
	return st, err
}

// Get implements Runtime.
func (t *tenants) Get(ctx context.Context, id string) (State, error) {
	st, err := t.runtime.Get(ctx, id)
	if err == nil && !sees(ctx, st) {
		return State{}, ErrNotFound
	}
	return st, err
}

// Wait implements Runtime.
func (t *tenants) Wait(ctx context.Context, id string) (State, error) {
	if st, err := t.Get(ctx, id); err != nil {
		return st, err
	}
	st, err := t.runtime.Wait(ctx, id)
	if (err == nil || ctx.Err() != nil) && st.UID != "" && !sees(ctx, st) { // it was replaced meanwhile
		return State{}, ErrNotFound
	}
	return st, err
}

// List implements Runtime.
func (t *tenants) List(ctx context.Context) ([]State, error) {
	all, err := t.runtime.List(ctx)
	if c, ok := callerOf(ctx); err != nil || ok && c.admin {
		return all, err
	}
	own := make([]State, 0, len(all))
	for _, st := range all {
		if sees(ctx, st) {
			own = append(own, st)
		}
	}
	return own, nil
}

// Stop implements Runtime.
func (t *tenants) Stop(ctx context.Context, id, reason string) error {
	if _, err := t.Get(ctx, id); err != nil {
		return err
	}
	return t.runtime.Stop(ctx, id, reason)
}

// Agent implements Runtime. Whose the sandbox is is asked after its agent is had: between
// the two another's may have taken the id, not the other way round.
func (t *tenants) Agent(ctx context.Context, id string) (http.RoundTripper, string, error) {
	transport, base, err := t.runtime.Agent(ctx, id)
	if _, err := t.Get(ctx, id); err != nil {
		return nil, "", err
	}
	return transport, base, err
}

// Resources implements Resourcer: sums are of everything, names only of what the caller
// may know.
func (t *tenants) Resources(ctx context.Context) (Resources, error) {
	rt, ok := t.runtime.(Resourcer)
	if !ok {
		return Resources{}, nil
	}
	res, err := rt.Resources(ctx)
	if err != nil {
		return res, err
	}
	own, err := t.List(ctx)
	if err != nil {
		return res, err
	}
	known := make(map[string]bool, len(own))
	for _, st := range own {
		known[podName(st)] = true
	}
	c, _ := callerOf(ctx)
	for i := range res.Sandboxes {
		if q := &res.Sandboxes[i]; !c.admin && !known[q.Name] {
			q.Name = ""
		}
	}
	return res, nil
}

// Events implements Eventer.
func (t *tenants) Events(ctx context.Context, id string) ([]Event, error) {
	if _, err := t.Get(ctx, id); err != nil {
		return nil, err
	}
	if rt, ok := t.runtime.(Eventer); ok {
		return rt.Events(ctx, id)
	}
	return nil, nil
}

func podName(st State) string {
	if st.Pod != "" {
		return st.Pod
	}
	return "sandbox-" + st.Spec.ID
}
