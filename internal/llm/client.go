package llm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"net/url"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Client talks to one model on one server. Safe for concurrent use.
type Client struct {
	base  *url.URL
	model string
	key   Secret
	o     Options
	http  *http.Client
}

var _ Model = (*Client)(nil)

// New makes a client; it does not contact the server (Check does).
func New(o Options) (*Client, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	base, err := endpoint(o.URL)
	if err != nil {
		return nil, err
	}
	if o.KeyFile != "" {
		if o.Key, err = readKey(o.KeyFile); err != nil {
			return nil, err
		}
	}
	t, err := o.transport()
	if err != nil {
		return nil, err
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.MaxWait == 0 {
		o.MaxWait = DefaultMaxWait
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	return &Client{base: base, model: o.Model, key: o.Key, o: o, http: &http.Client{
		Transport: t,
		// A followed redirect would turn POST into GET or carry the prompt elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Chat asks for one completion and tries again while that may help. It fails with
// *Error, or with the context's error when the caller gave up.
func (c *Client) Chat(ctx context.Context, r Request) (Response, error) {
	r.Stream = r.Stream || c.o.Stream
	body, err := encode(c.model, r)
	if err != nil {
		return Response{}, fmt.Errorf("encode request for model %s: %w", c.model, err)
	}
	var last error
	resp, err := backoff.Retry(ctx, func() (Response, error) {
		var resp Response
		if resp, last = c.once(ctx, body, r.Stream); last != nil {
			return resp, c.pace(ctx, last)
		}
		return resp, nil
	}, backoff.WithBackOff(c.backoff()), backoff.WithMaxTries(uint(c.o.MaxRetries)+1), backoff.WithMaxElapsedTime(0))
	switch {
	case err == nil:
		c.charge(&resp)
		return resp, nil
	case ctx.Err() != nil:
		return Response{}, fmt.Errorf("ask model %s: %w", c.model, ctx.Err())
	}
	return Response{}, last
}

func (c *Client) backoff() backoff.BackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval = min(time.Second, c.o.MaxWait)
	b.Multiplier = 2
	b.MaxInterval = c.o.MaxWait
	return b
}

// pace tells the retry loop what to do about err: stop, wait as asked, or back off.
func (c *Client) pace(ctx context.Context, err error) error {
	var e *Error
	if ctx.Err() != nil || !errors.As(err, &e) || !e.again() || e.RetryAfter > c.o.MaxWait {
		return backoff.Permanent(err)
	}
	if e.RetryAfter > 0 {
		// A tenth more at random, so that those told the same do not come back at once.
		return &backoff.RetryAfterError{Duration: e.RetryAfter + rand.N(e.RetryAfter/10+1)}
	}
	return err
}

// charge sets what the call cost.
func (c *Client) charge(r *Response) {
	if r.Usage == nil || (c.o.PriceIn == 0 && c.o.PriceOut == 0) {
		return
	}
	usd := (float64(r.Usage.PromptTokens)*c.o.PriceIn + float64(r.Usage.CompletionTokens)*c.o.PriceOut) / 1e6
	r.CostUSD = &usd
}

// once is one try.
func (c *Client) once(ctx context.Context, body []byte, stream bool) (Response, error) {
	var out Response
	err := c.do(ctx, http.MethodPost, "/chat/completions", body, func(r *http.Response, from io.Reader) (err error) {
		kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if stream && kind != "application/json" { // some servers ignore the wish to stream
			out, err = readStream(from)
		} else {
			out, err = readWhole(from)
		}
		return err
	})
	return out, err
}

// do sends one request and hands the body of a 200 answer to read. Every error is
// *Error, with the key taken out of what the server wrote.
func (c *Client) do(ctx context.Context, method, route string, body []byte, read func(*http.Response, io.Reader) error) error {
	u := *c.base
	u.Path += route
	tctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(tctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+string(c.key))
	}
	resp, err := c.http.Do(req)
	if err == nil {
		defer resp.Body.Close()
		limited := &limitReader{r: resp.Body, left: c.o.MaxBytes}
		if resp.StatusCode == http.StatusOK {
			err = read(resp, limited)
		} else {
			err = refusal(resp, limited)
		}
	}
	if err == nil {
		return nil
	}
	e := classify(err)
	if tctx.Err() != nil && ctx.Err() == nil {
		e = &Error{Class: Transient, Detail: fmt.Sprintf("no complete answer within %s (--llm-timeout)", c.o.Timeout)}
	}
	e.URL = shown(&u)
	e.Detail = c.key.redact(e.Detail)
	return e
}

// shown is u without what may be secret.
func shown(u *url.URL) string {
	v := *u
	v.User, v.RawQuery, v.Fragment = nil, "", ""
	return v.String()
}

// errTooLong says that an answer is over Options.MaxBytes.
var errTooLong = errors.New("the answer is longer than allowed")

// limitReader fails, instead of ending, when more than left bytes come.
type limitReader struct {
	r    io.Reader
	left int64
}

func (l *limitReader) Read(p []byte) (int, error) {
	if l.left < 0 {
		return 0, errTooLong
	}
	if int64(len(p)) > l.left+1 {
		p = p[:l.left+1]
	}
	n, err := l.r.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return n, errTooLong
	}
	return n, err
}
