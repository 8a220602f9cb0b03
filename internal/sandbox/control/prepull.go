package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"orchard/internal/sandbox"
)

// The bounds of a pre-pull.
const (
	MaxPrepullImages = 50
	MaxPrepulls      = 5 // of one owner that are not done
	maxAtOnce        = 50
	defaultAtOnce    = 10
	maxPrepullTime   = 6 * time.Hour
)

// Prepull asks for images on the machines before a sandbox needs them.
type Prepull struct {
	ID        string
	Owner     string // whose it is: the name of an API key; the service sets it
	Images    []string
	Placement sandbox.Placement // the machines: those that may run a sandbox placed so
	AtOnce    int               // images that are pulled at a time, over all machines
	Timeout   time.Duration     // what is not there after this has failed
}

// PullStatus is how far one image is on one machine.
type PullStatus string

// How far an image is on a machine. The last two are final.
const (
	PullPending PullStatus = "pending" // its turn has not come, or it waits for its machine
	Pulling     PullStatus = "pulling"
	PullPresent PullStatus = "present"
	PullFailed  PullStatus = "failed"
)

// Pull is one image on one machine.
type Pull struct {
	Image   string     `json:"image"`
	Node    string     `json:"node"`
	Status  PullStatus `json:"status"`
	Reason  string     `json:"reason,omitempty"`  // of a failed one, as a sandbox's
	Message string     `json:"message,omitempty"` // why it failed, or what it waits for
}

// PrepullState is a pre-pull as a runtime knows it.
type PrepullState struct {
	Prepull
	Created time.Time
	Ended   time.Time // when nothing was left to be done; zero is not yet
	Pulls   []Pull    // by image, as given, and node
}

// over reports whether every image is there or has failed.
func (st PrepullState) over() bool {
	for _, p := range st.Pulls {
		if p.Status != PullPresent && p.Status != PullFailed {
			return false
		}
	}
	return true
}

// Prepuller is a Runtime that can have images on its machines before a sandbox starts. It
// is optional.
type Prepuller interface {
	// Prepull begins it and returns. The machines are those that are there at that moment.
	// ErrExists, with that one's state, when there is one of this id.
	Prepull(ctx context.Context, p Prepull) (PrepullState, error)
	// PrepullOf is ErrNotFound for one that is not there. One that is done stays known for
	// a while.
	PrepullOf(ctx context.Context, id string) (PrepullState, error)
	// Prepulls is all of them, oldest first.
	Prepulls(ctx context.Context) ([]PrepullState, error)
	// DeletePrepull ends and forgets one. Images that are there stay.
	DeletePrepull(ctx context.Context, id string) error
}

var errNoPrepull = &sandbox.Refused{Reason: "this service pulls no images before sandboxes need them"}

// Prepull implements Prepuller for the caller, whose it then is.
func (t *tenants) Prepull(ctx context.Context, p Prepull) (PrepullState, error) {
	rt, ok := t.runtime.(Prepuller)
	if !ok {
		return PrepullState{}, errNoPrepull
	}
	c, ok := callerOf(ctx)
	if !ok {
		return PrepullState{}, errNobody
	}
	if err := t.allow.check(c, sandbox.Spec{Placement: p.Placement}); err != nil {
		return PrepullState{}, err
	}
	p.Owner = c.name
	t.prepulls.Lock() // so that of two the second sees the first
	defer t.prepulls.Unlock()
	all, err := rt.Prepulls(ctx)
	if err != nil {
		return PrepullState{}, err
	}
	open := 0
	for _, st := range all {
		switch {
		case st.ID == p.ID && st.Owner != c.name:
			return PrepullState{}, errTaken
		case st.ID == p.ID:
			return st, ErrExists
		case st.Owner == c.name && !st.over():
			open++
		}
	}
	if open >= MaxPrepulls {
		return PrepullState{}, t.quotas.over(c, "prepulls", 5, fmt.Sprint(MaxPrepulls), fmt.Sprint(open))
	}
	st, err := rt.Prepull(ctx, p)
	if errors.Is(err, ErrExists) && st.Owner != c.name {
		return PrepullState{}, errTaken
	}
	return st, err
}

// PrepullOf implements Prepuller: what is another's is unknown.
func (t *tenants) PrepullOf(ctx context.Context, id string) (PrepullState, error) {
	rt, ok := t.runtime.(Prepuller)
	if !ok {
		return PrepullState{}, ErrNotFound
	}
	st, err := rt.PrepullOf(ctx, id)
	if err == nil && !seesPrepull(ctx, st) {
		return PrepullState{}, ErrNotFound
	}
	return st, err
}

// Prepulls implements Prepuller.
func (t *tenants) Prepulls(ctx context.Context) ([]PrepullState, error) {
	rt, ok := t.runtime.(Prepuller)
	if !ok {
		return nil, nil
	}
	all, err := rt.Prepulls(ctx)
	own := make([]PrepullState, 0, len(all))
	for _, st := range all {
		if seesPrepull(ctx, st) {
			own = append(own, st)
		}
	}
	return own, err
}

// DeletePrepull implements Prepuller.
func (t *tenants) DeletePrepull(ctx context.Context, id string) error {
	if _, err := t.PrepullOf(ctx, id); err != nil {
		return err
	}
	return t.runtime.(Prepuller).DeletePrepull(ctx, id)
}

// ownerOfPrepull is whose it is.
func ownerOfPrepull(st PrepullState) string { return ownerOf(ofOwner(st)) }

func seesPrepull(ctx context.Context, st PrepullState) bool { return sees(ctx, ofOwner(st)) }

// ofOwner is a sandbox of the same owner: whoever may see that one may see st.
func ofOwner(st PrepullState) State { return State{Spec: sandbox.Spec{Owner: st.Owner}} }
