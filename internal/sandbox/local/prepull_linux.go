package local

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"orchard/internal/sandbox"
	"orchard/internal/sandbox/control"
)

// prepull is images that are being unpacked, or were.
type prepull struct {
	cancel context.CancelFunc

	mu    sync.Mutex
	state control.PrepullState
}

func (p *prepull) snapshot() control.PrepullState {
	p.mu.Lock()
	defer p.mu.Unlock()
	st := p.state
	st.Pulls = slices.Clone(st.Pulls)
	return st
}

// Prepull implements control.Prepuller: an image is there when it is unpacked in the cache,
// and "host" when what its sandboxes share is made.
func (r *Runtime) Prepull(_ context.Context, want control.Prepull) (control.PrepullState, error) {
	if field := unservable(sandbox.Spec{Placement: want.Placement}); field != "" {
		return control.PrepullState{}, &sandbox.Refused{Reason: field + ": the local runtime has one machine and no scheduler; leave it out"}
	}
	p := &prepull{state: control.PrepullState{Prepull: want, Created: time.Now()}}
	for _, image := range want.Images {
		p.state.Pulls = append(p.state.Pulls, control.Pull{Image: image, Node: r.hostname, Status: control.PullPending})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return control.PrepullState{}, errors.New("the sandbox service ends")
	}
	if old := r.prepulls[want.ID]; old != nil {
		return old.snapshot(), control.ErrExists
	}
	var ctx context.Context
	ctx, p.cancel = context.WithTimeout(r.ctx, want.Timeout)
	r.prepulls[want.ID] = p
	r.wg.Go(func() {
		defer p.cancel()
		r.pull(ctx, p)
	})
	return p.snapshot(), nil
}

// pull unpacks what p asks for, so many at a time.
func (r *Runtime) pull(ctx context.Context, p *prepull) {
	var all sync.WaitGroup
	slots := make(chan struct{}, p.state.AtOnce)
	for i, image := range p.state.Images {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			set := func(to control.Pull) {
				p.mu.Lock()
				defer p.mu.Unlock()
				p.state.Pulls[i] = to
			}
			set(control.Pull{Image: image, Node: r.hostname, Status: control.Pulling})
			done := control.Pull{Image: image, Node: r.hostname, Status: control.PullPresent}
			if _, err := r.rootfs(ctx, sandbox.Spec{Image: image}); err != nil {
				done.Status, done.Reason, done.Message = control.PullFailed, control.ReasonImagePull, err.Error()
				var refused *sandbox.Refused
				switch {
				case errors.As(err, &refused):
					done.Reason, done.Message = control.ReasonRefused, refused.Reason
				case ctx.Err() != nil:
					done.Reason, done.Message = control.ReasonNotReady, fmt.Sprintf("not there after %v", p.state.Timeout)
				}
			}
			set(done)
		})
	}
	all.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Ended = time.Now()
}

// PrepullOf implements control.Prepuller.
func (r *Runtime) PrepullOf(_ context.Context, id string) (control.PrepullState, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgetPrepulls()
	p := r.prepulls[id]
	if p == nil {
		return control.PrepullState{}, fmt.Errorf("pre-pull %s: %w", id, control.ErrNotFound)
	}
	return p.snapshot(), nil
}

// Prepulls implements control.Prepuller.
func (r *Runtime) Prepulls(context.Context) ([]control.PrepullState, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgetPrepulls()
	all := make([]control.PrepullState, 0, len(r.prepulls))
	for _, p := range r.prepulls {
		all = append(all, p.snapshot())
	}
	slices.SortFunc(all, func(a, b control.PrepullState) int {
		if c := a.Created.Compare(b.Created); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return all, nil
}

// forgetPrepulls drops those that were done long ago. The caller holds mu.
func (r *Runtime) forgetPrepulls() {
	for id, p := range r.prepulls {
		if st := p.snapshot(); !st.Ended.IsZero() && time.Since(st.Ended) > tombstone {
			delete(r.prepulls, id)
		}
	}
}

// DeletePrepull implements control.Prepuller.
func (r *Runtime) DeletePrepull(_ context.Context, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.prepulls[id]; p != nil {
		p.cancel()
		delete(r.prepulls, id)
	}
	return nil
}
