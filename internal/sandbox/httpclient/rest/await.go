package rest

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// State is what waiting needs of a sandbox; Raw is all that the service told.
type State struct {
	ID      string `json:"sandbox_id"`
	Ready   bool   `json:"ready"`
	Status  string `json:"status"`
	Message string `json:"status_message"`
	Reason  string `json:"reason"`
	Again   bool   `json:"retryable"` // of one that ended: another may do better

	Raw json.RawMessage `json:"-"`
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *State) UnmarshalJSON(raw []byte) error {
	type plain State
	if err := json.Unmarshal(raw, (*plain)(s)); err != nil {
		return err
	}
	s.Raw = append(json.RawMessage(nil), raw...)
	return nil
}

// Why is the message without the reason, which the service puts in front.
func (s State) Why() string { return strings.TrimPrefix(s.Message, s.Reason+": ") }

// Seconds is d as a query has it.
func Seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 3, 64) }

// glance is how often somebody who watches a sandbox start is told how it is.
const glance = 2 * time.Second

// Await is the sandbox once it is ready or has failed; a *Error of status 408 when limit
// is over first. progress, when not nil, is told every other second how it is.
func (c *Client) Await(ctx context.Context, id string, limit time.Duration, progress func(State)) (State, error) {
	longest, deadline := Slice, time.Now().Add(limit)
	if progress != nil {
		longest = glance
	}
	for {
		wait := max(min(time.Until(deadline), longest), time.Second)
		var st State
		err := c.Call(ctx, Request{
			Method: http.MethodGet, Path: "/sandboxes/" + id + "/wait", Out: &st, Wait: wait,
			Query: url.Values{"timeout": {Seconds(wait)}},
		})
		if !IsStatus(err, http.StatusRequestTimeout) || !time.Now().Before(deadline) {
			return st, err
		}
		if progress == nil {
			continue
		}
		if err := c.Call(ctx, Request{Method: http.MethodGet, Path: "/sandboxes/" + id, Out: &st}); err != nil {
			return st, err
		}
		progress(st)
	}
}

var _ json.Unmarshaler = (*State)(nil)
