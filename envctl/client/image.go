package client

import (
	"context"
	"net/http"
	"time"

	"orchard/internal/sandbox/httpclient/rest"
)

// PrepullSpec is images that are to be on the machines before sandboxes need them. The zero
// value of a field is the service's default.
type PrepullSpec struct {
	Images        []string          // required
	AtOnce        int               // how many are pulled at a time, over all machines
	Timeout       time.Duration     // what is not there after this has failed
	NodeSelector  map[string]string // the machines, as in Spec, and so on
	Tolerations   []Toleration
	RuntimeClass  string
	PriorityClass string
	PullSecrets   []string
	Spot          bool
}

func (s PrepullSpec) body() any {
	return struct {
		Images  []string `json:"images"`
		AtOnce  int      `json:"at_once,omitempty"`
		Timeout float64  `json:"timeout_seconds,omitempty"`
		rest.Placement
	}{
		s.Images, s.AtOnce, s.Timeout.Seconds(),
		rest.Placement{
			NodeSelector: s.NodeSelector, Tolerations: s.Tolerations, RuntimeClass: s.RuntimeClass,
			PriorityClass: s.PriorityClass, PullSecrets: s.PullSecrets, Spot: s.Spot,
		},
	}
}

// The status of a pre-pull.
const (
	PrepullRunning  = "running"
	PrepullComplete = "complete" // every image is on every machine
	PrepullFailed   = "failed"   // it is done, and at least one is not
)

// Prepull is images that are or were being brought to machines.
type Prepull struct {
	ID      string   `json:"id"`
	Owner   string   `json:"owner"`
	Images  []string `json:"images"`
	Status  string   `json:"status"`
	Present int      `json:"present"` // of every image on every machine, how many are there
	Failed  int      `json:"failed"`
	Pulling int      `json:"pulling"`
	Pending int      `json:"pending"`
	Created Time     `json:"created_at"`
	Pulls   []Pull   `json:"pulls,omitempty"` // not in lists
}

// Pull is one image on one machine.
type Pull struct {
	Image   string `json:"image"`
	Node    string `json:"node"`
	Status  string `json:"status"`            // pending, pulling, present or failed
	Reason  string `json:"reason,omitempty"`  // of a failed one, as a sandbox's
	Message string `json:"message,omitempty"` // why it failed, or what it waits for
}

func prepullPath(id string) string { return "/images/prepull/" + escape(id) }

// Prepull begins to bring images to the machines that are there now, and returns.
func (c *Client) Prepull(ctx context.Context, s PrepullSpec) (p Prepull, err error) {
	err = c.call(ctx, "pull images", rest.Request{Method: http.MethodPost, Path: "/images/prepull", Key: rest.NewKey(), Body: s.body(), Out: &p, Prompt: true})
	return p, err
}

// PrepullOf is one pre-pull; NotFound when there is none of this id, or it was done more than
// an hour ago.
func (c *Client) PrepullOf(ctx context.Context, id string) (p Prepull, err error) {
	err = c.call(ctx, "look at pre-pull "+id, rest.Request{Method: http.MethodGet, Path: prepullPath(id), Out: &p})
	return p, err
}

// AwaitPrepull returns when every image is there or has failed. progress may be nil.
func (c *Client) AwaitPrepull(ctx context.Context, id string, progress func(Prepull)) (Prepull, error) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		p, err := c.PrepullOf(ctx, id)
		if err != nil {
			return p, err
		}
		if progress != nil {
			progress(p)
		}
		if p.Status != PrepullRunning {
			return p, nil
		}
		select {
		case <-ctx.Done():
			return p, ctx.Err()
		case <-tick.C:
		}
	}
}

// Prepulls is every pre-pull of the key's owner, and for an admin all, oldest first, without
// the single pulls.
func (c *Client) Prepulls(ctx context.Context) ([]Prepull, error) {
	var a struct {
		Prepulls []Prepull `json:"prepulls"`
	}
	err := c.call(ctx, "list pre-pulls", rest.Request{Method: http.MethodGet, Path: "/images/prepull", Out: &a})
	return a.Prepulls, err
}

// DeletePrepull ends a pre-pull and forgets it. Images that are there stay. Calling it twice
// is fine.
func (c *Client) DeletePrepull(ctx context.Context, id string) error {
	return c.call(ctx, "delete pre-pull "+id, rest.Request{Method: http.MethodDelete, Path: prepullPath(id)})
}
