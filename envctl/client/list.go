package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"orchard/internal/sandbox/httpclient/rest"
)

// Filter is which sandboxes are meant; the zero value is all.
type Filter struct {
	Labels string // a selector: "app=x,tier!=y,!old"
	Owner  string // the name of an API key
	Image  string
	Prefix string // of the id
	Status Status
}

func (f Filter) query() url.Values {
	q := url.Values{}
	for name, v := range map[string]string{"labels": f.Labels, "owner": f.Owner, "image": f.Image, "prefix": f.Prefix, "status": string(f.Status)} {
		if v != "" {
			q.Set(name, v)
		}
	}
	return q
}

// listPage is how many sandboxes one answer holds.
const listPage = 1000

// List is every sandbox that is, or that ended otherwise than by Delete lately, by id.
func (c *Client) List(ctx context.Context, f Filter) ([]Info, error) {
	all, q := []Info{}, f.query()
	q.Set("limit", strconv.Itoa(listPage))
	for {
		var page struct {
			Sandboxes []Info `json:"sandboxes"`
			Continue  string `json:"continue"`
		}
		if err := c.call(ctx, "list sandboxes", rest.Request{Method: http.MethodGet, Path: "/sandboxes", Query: q, Out: &page}); err != nil {
			return nil, err
		}
		if all = append(all, page.Sandboxes...); page.Continue == "" {
			return all, nil
		}
		q.Set("continue", page.Continue)
	}
}

// Event is something that happened to a sandbox.
type Event struct {
	At      Time   `json:"at"`
	Type    string `json:"type"` // one word: "pulling", "unschedulable", "ready", "OOMKilled"
	Message string `json:"message"`
	Count   int    `json:"count"` // how often
}

// Events is what happened to the sandbox, oldest first.
func (s *Sandbox) Events(ctx context.Context) ([]Event, error) {
	var a struct {
		Events []Event `json:"events"`
	}
	err := s.client.call(ctx, "events of sandbox "+s.id, rest.Request{Method: http.MethodGet, Path: s.path("/events"), Out: &a})
	return a.Events, err
}

// CostGroup is the cost of several sandboxes.
type CostGroup struct {
	Owner     string `json:"owner,omitempty"`
	Label     string `json:"label,omitempty"` // the value of the label that was asked for
	Sandboxes int    `json:"sandboxes"`
	Unpriced  int    `json:"unpriced"` // of them, how many have no known price
	Cost
}

// CostReport is what sandboxes that are, or ended lately, cost.
type CostReport struct {
	Total   CostGroup   `json:"total"`
	ByOwner []CostGroup `json:"by_owner"`
	ByLabel []CostGroup `json:"by_label,omitempty"`
}

// Cost sums what sandboxes cost, in all, by owner, and by the values of one label when
// byLabel names one.
func (c *Client) Cost(ctx context.Context, f Filter, byLabel string) (r CostReport, err error) {
	q := f.query()
	if byLabel != "" {
		q.Set("by_label", byLabel)
	}
	err = c.call(ctx, "cost of sandboxes", rest.Request{Method: http.MethodGet, Path: "/cost", Query: q, Out: &r})
	return r, err
}
