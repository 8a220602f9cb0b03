package httpclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"

	"orchard/internal/sandbox"
)

// request is one call of the service. All calls are safe to repeat: by their nature,
// or by key.
type request struct {
	method, path string
	query        url.Values
	key          string        // Idempotency-Key; "" sends none
	body         any           // as JSON; nil sends none
	limit        time.Duration // of one try
	out          any           // takes the JSON answer; nil drops it
}

// serviceError is an answer that is not a success.
type serviceError struct {
	status int
	detail string
	gone   bool
	reason string
}

func (e *serviceError) Error() string { return fmt.Sprintf("%d: %s", e.status, e.detail) }

// lost is err as *sandbox.Lost when the service says that the sandbox is gone.
func lost(id string, err error) error {
	var e *serviceError
	if !errors.As(err, &e) || !e.gone {
		return err
	}
	if e.reason == "" {
		return &sandbox.Lost{ID: id, Reason: "the service does not know it"}
	}
	return &sandbox.Lost{ID: id, Reason: e.reason}
}

// call makes a JSON request, again and again while the service is away.
func (c *Client) call(ctx context.Context, r request) error {
	var raw []byte
	if r.body != nil {
		var err error
		if raw, err = json.Marshal(r.body); err != nil {
			return fmt.Errorf("encode request: %w", err)
		}
	}
	return c.persist(ctx, func() error {
		ctx, cancel := context.WithTimeout(ctx, r.limit)
		defer cancel()
		resp, err := c.send(ctx, r.method, r.path, r.query, bytes.NewReader(raw), func(q *http.Request) {
			if r.key != "" {
				q.Header.Set("Idempotency-Key", r.key)
			}
			if raw != nil {
				q.Header.Set("Content-Type", "application/json")
			}
		})
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if r.out == nil {
			_, err = io.Copy(io.Discard, resp.Body)
		} else {
			err = json.NewDecoder(resp.Body).Decode(r.out)
		}
		if err != nil {
			return fmt.Errorf("read answer: %w", err)
		}
		return nil
	})
}

// persist tries until it works, cannot work, or the patience or ctx is over.
func (c *Client) persist(ctx context.Context, try func() error) error {
	policy := backoff.NewExponentialBackOff()
	policy.InitialInterval, policy.MaxInterval = 100*time.Millisecond, 5*time.Second
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := try()
		if err == nil {
			return struct{}{}, nil
		}
		if ctx.Err() != nil || !transient(err) {
			return struct{}{}, backoff.Permanent(err)
		}
		var wait *busy
		if errors.As(err, &wait) && wait.after > 0 {
			return struct{}{}, fmt.Errorf("%w (%w)", err, backoff.RetryAfter(wait.after))
		}
		return struct{}{}, err
	}, backoff.WithBackOff(policy), backoff.WithMaxElapsedTime(c.patience))
	return err
}

// busy is a serviceError that asks to come again, after so many seconds when above 0.
type busy struct {
	serviceError
	after int
}

func (e *busy) Unwrap() error { return &e.serviceError }

// transient reports whether the same request may work later: the service is not
// reached, broke off, or says so.
func transient(err error) bool {
	var refusal *serviceError
	var wait *busy
	return errors.As(err, &wait) || !errors.As(err, &refusal)
}

// send makes one request; an answer that is not a success is an error.
func (c *Client) send(ctx context.Context, method, path string, q url.Values, body io.Reader, edit func(*http.Request)) (*http.Response, error) {
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

func refusal(resp *http.Response) error {
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return fmt.Errorf("read error %d: %w", resp.StatusCode, err)
	}
	var b struct {
		Detail json.RawMessage `json:"detail"`
		Gone   bool            `json:"gone"`
		Reason string          `json:"reason"`
	}
	e := serviceError{status: resp.StatusCode}
	if json.Unmarshal(raw, &b) != nil || len(b.Detail) == 0 {
		e.detail = fmt.Sprintf("%.300q", raw)
	} else if json.Unmarshal(b.Detail, &e.detail) != nil {
		e.detail = fields(b.Detail)
	}
	e.gone, e.reason = b.Gone, b.Reason
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		after, err := strconv.Atoi(resp.Header.Get("Retry-After"))
		if err != nil {
			after = 0
		}
		return &busy{e, after}
	}
	return &e
}

// fields is a detail that is no text as one: of a list of bad fields what is wrong
// with each, of anything else the JSON.
func fields(detail json.RawMessage) string {
	var list []struct {
		Loc []any  `json:"loc"`
		Msg string `json:"msg"`
	}
	if json.Unmarshal(detail, &list) != nil || len(list) == 0 {
		return string(detail)
	}
	var b strings.Builder
	for i, f := range list {
		if i > 0 {
			b.WriteString("; ")
		}
		if n := len(f.Loc); n > 0 {
			fmt.Fprintf(&b, "%v: ", f.Loc[n-1])
		}
		b.WriteString(f.Msg)
	}
	return b.String()
}
