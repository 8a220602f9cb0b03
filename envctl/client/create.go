package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"orchard/internal/sandbox/httpclient/rest"
)

// Begin makes a sandbox and returns before it is ready. When ctx ends first it is ended
// again, if it was made. Info holds what the service has
// told so far; its times may be missing.
func (c *Client) Begin(ctx context.Context, spec Spec) (*Sandbox, Info, error) {
	doing := fmt.Sprintf("create sandbox of image %q", spec.Image)
	if err := c.rest.Check(ctx); err != nil {
		return nil, Info{}, explain(doing, err)
	}
	var info Info
	ask := rest.Request{Method: http.MethodPost, Path: "/sandboxes", Key: rest.NewKey(), Body: spec.body(), Out: &info, Prompt: true}
	err := c.call(ctx, doing, ask)
	if err != nil && ctx.Err() != nil {
		c.abandon(ctx, ask)
	}
	if err != nil {
		return nil, Info{}, err
	}
	return c.Sandbox(info.ID), info, nil
}

// abandon ends what a create whose caller has left may have made all the same: the same
// key finds it. It is done once; a service that does not answer ends it by its lifetime.
func (c *Client) abandon(ctx context.Context, ask rest.Request) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	var made Info
	ask.Out = &made
	if c.rest.Impatient().Call(ctx, ask) == nil {
		_ = c.Sandbox(made.ID).Delete(ctx) // see above
	}
}

// Create makes a sandbox and returns when commands run in it. One that does not become
// ready is ended again.
func (c *Client) Create(ctx context.Context, spec Spec) (*Sandbox, error) {
	s, info, err := c.Begin(ctx, spec)
	if err != nil {
		return nil, err
	}
	if info.Status == Ready {
		return s, nil
	}
	if _, err := s.Wait(ctx, spec.ReadyTimeout, spec.Progress); err != nil {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		return nil, errors.Join(err, s.Delete(end))
	}
	return s, nil
}

// NotReady says that a sandbox was not ready in time. It is still there.
type NotReady struct {
	ID    string
	Limit time.Duration
	Last  Info // what it waited for; zero when that was not watched
}

func (e *NotReady) Error() string {
	text := fmt.Sprintf("sandbox %s was not ready within %v", e.ID, e.Limit)
	if e.Last.Message != "" {
		text += ": " + e.Last.Message
	}
	return text
}

// Wait returns when commands run in the sandbox, or with *NotReady after limit (0 is an
// hour), *Gone or *Refused when it never will. progress may be nil.
func (s *Sandbox) Wait(ctx context.Context, limit time.Duration, progress func(Info)) (Info, error) {
	doing := "wait for sandbox " + s.id
	if limit == 0 {
		limit = time.Hour
	}
	var last Info
	st, err := s.client.rest.Await(ctx, escape(s.id), limit, func(st rest.State) {
		if json.Unmarshal(st.Raw, &last) == nil && progress != nil {
			progress(last)
		}
	})
	if rest.IsStatus(err, http.StatusRequestTimeout) {
		return last, &NotReady{s.id, limit, last}
	} else if err != nil {
		return last, explain(doing, err)
	}
	var info Info
	if err := json.Unmarshal(st.Raw, &info); err != nil {
		return info, fmt.Errorf("%s: %w", doing, err)
	}
	switch {
	case st.Ready:
		return info, nil
	case st.Reason == "refused":
		return info, fmt.Errorf("%s: %w", doing, &Refused{st.Why()})
	case st.Status == "not_found":
		return info, fmt.Errorf("%s: %w", doing, &NotFound{"Sandbox " + s.id + " not found"})
	}
	return info, fmt.Errorf("%s: %w", doing, &Gone{Reason: st.Reason, Detail: "it did not start: " + st.Message, Retryable: st.Again})
}

// Info is the sandbox as it is now. One that ended otherwise than by Delete is there for
// a while, as Failed.
func (s *Sandbox) Info(ctx context.Context) (info Info, err error) {
	err = s.client.call(ctx, "get sandbox "+s.id, rest.Request{Method: http.MethodGet, Path: s.path(""), Out: &info})
	return info, err
}

// Delete ends the sandbox and everything in it. One that is not there is no error.
func (s *Sandbox) Delete(ctx context.Context) error {
	return s.client.call(ctx, "delete sandbox "+s.id, rest.Request{Method: http.MethodDelete, Path: s.path("")})
}

// Heartbeat extends the sandbox's lease, once.
func (s *Sandbox) Heartbeat(ctx context.Context) error {
	return s.client.call(ctx, "heartbeat of sandbox "+s.id, rest.Request{Method: http.MethodPost, Path: s.path("/heartbeat")})
}

// KeepAlive sends heartbeats, three to a lease, until ctx ends (nil) or the sandbox has
// (*Gone or *NotFound). A service that is away for a moment does not end it.
func (s *Sandbox) KeepAlive(ctx context.Context, lease time.Duration) error {
	tick := time.NewTicker(max(lease/3, 10*time.Millisecond))
	defer tick.Stop()
	for {
		err := s.Heartbeat(ctx)
		var away *Unavailable
		if err != nil && ctx.Err() == nil && !errors.As(err, &away) {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
