package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Request is one call of the service. All calls are safe to repeat: by their nature,
// or by key.
type Request struct {
	Method, Path string
	Query        url.Values
	Key          string        // Idempotency-Key; "" sends none
	Body         any           // as JSON; nil sends none
	Wait         time.Duration // that the service was asked to take; AnswerTime comes on top
	Out          any           // takes the JSON answer; nil drops it
	Prompt       bool          // a quota that is used up is an answer, not to be waited for
}

// Call makes a JSON request, again and again while the service is away.
func (c *Client) Call(ctx context.Context, r Request) error {
	return c.Persist(ctx, func() error {
		ctx, cancel := context.WithTimeout(ctx, r.Wait+AnswerTime)
		defer cancel()
		resp, err := c.Open(ctx, r)
		if r.Prompt && IsStatus(err, http.StatusTooManyRequests) {
			return backoff.Permanent(err)
		}
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if r.Out == nil {
			_, err = io.Copy(io.Discard, resp.Body)
		} else {
			err = json.NewDecoder(resp.Body).Decode(r.Out)
		}
		if err != nil {
			return fmt.Errorf("read answer: %w", err)
		}
		return nil
	})
}

// Open makes a request once and leaves a successful answer to be read and closed. Its
// time is ctx's.
func (c *Client) Open(ctx context.Context, r Request) (*http.Response, error) {
	var body io.Reader
	if r.Body != nil {
		raw, err := json.Marshal(r.Body)
		if err != nil {
			return nil, backoff.Permanent(fmt.Errorf("encode request: %w", err))
		}
		body = bytes.NewReader(raw)
	}
	return c.Send(ctx, r.Method, r.Path, r.Query, body, func(q *http.Request) {
		if r.Key != "" {
			q.Header.Set("Idempotency-Key", r.Key)
		}
		if body != nil {
			q.Header.Set("Content-Type", "application/json")
		}
	})
}

// Send makes one request with any body; an answer that is not a success is an error.
func (c *Client) Send(ctx context.Context, method, path string, q url.Values, body io.Reader, edit func(*http.Request)) (*http.Response, error) {
	target := c.base + path
	if len(q) > 0 {
		target += "?" + q.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return nil, err
	}
	if c.key != "" {
		req.Header.Set("X-API-Key", c.key)
	}
	if edit != nil {
		edit(req)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, refusal(resp)
}

// Persist tries until it works, cannot work, or the patience or ctx is over.
func (c *Client) Persist(ctx context.Context, try func() error) error {
	policy := backoff.NewExponentialBackOff()
	policy.InitialInterval, policy.MaxInterval = 100*time.Millisecond, 5*time.Second
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := try()
		if err == nil {
			return struct{}{}, nil
		}
		if ctx.Err() != nil || !Transient(err) {
			return struct{}{}, backoff.Permanent(err)
		}
		var e *Error
		if errors.As(err, &e) && e.RetryAfter > 0 {
			return struct{}{}, fmt.Errorf("%w (%w)", err, backoff.RetryAfter(e.RetryAfter))
		}
		return struct{}{}, err
	}, backoff.WithBackOff(policy), backoff.WithMaxElapsedTime(c.patience))
	return err
}
