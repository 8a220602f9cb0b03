// Package rest speaks the sandbox service's REST API: requests that are tried again
// where that can help, its errors, and what waits for a sandbox or a job. Both the
// client inside Orchard and the public one stand on it; neither type of theirs is here.
//
// Every request that makes or runs something carries an Idempotency-Key, so a repeat
// finds what the first one did and nothing runs twice. No request waits longer than about
// half a minute, so proxies with a limit do not matter. The API key is sent to the given
// URL only and is in no error.
package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"orchard/internal/seal"
)

// Options say where the service is.
type Options struct {
	URL      string        // http://host:8000, a path prefix is kept
	Key      string        // X-API-Key; "" sends none
	HTTP     *http.Client  // nil is a client of our own
	Patience time.Duration // how long a request is tried again while the service is away; 0 is two minutes
}

// Client is a connection to a service. Safe for concurrent use.
type Client struct {
	base     string
	key      string
	http     *http.Client
	patience time.Duration

	asked      sync.Mutex
	extensions []string // nil until the service was asked; under asked
}

// Slice is how long one request waits for a sandbox or a job at most.
const Slice = 25 * time.Second

// AnswerTime is how much longer than it waits a request may take to be answered.
const AnswerTime = 35 * time.Second

// New is a client; nothing is asked of the service yet.
func New(o Options) (*Client, error) {
	u, err := url.Parse(o.URL)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.RawQuery != "" || u.User != nil {
		return nil, fmt.Errorf("sandbox service URL %q must look like http://host:8000", o.URL)
	}
	c := &Client{base: strings.TrimRight(o.URL, "/"), key: o.Key, http: o.HTTP, patience: o.Patience}
	if c.http == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.MaxIdleConns, t.MaxIdleConnsPerHost = 0, 256
		c.http = &http.Client{
			Transport: t,
			// A followed redirect would carry the key to another address.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	if c.patience == 0 {
		c.patience = 2 * time.Minute
	}
	return c, nil
}

// Impatient is c for requests of which one answer is enough, whatever it is.
func (c *Client) Impatient() *Client {
	return &Client{base: c.base, key: c.key, http: c.http, patience: time.Nanosecond}
}

// URL is the service's, without a slash at the end.
func (c *Client) URL() string { return c.base }

// ErrOther is an answer of something that is no orchard-controller.
var ErrOther = errors.New("an orchard-controller is needed")

// Check refuses a service that would run a repeated request twice.
func (c *Client) Check(ctx context.Context) error {
	have, err := c.Extensions(ctx)
	if err != nil {
		return err
	}
	for _, need := range []string{"argv", "base64-output", "idempotency-key", "raw-files", "stdin"} {
		if !slices.Contains(have, need) {
			return fmt.Errorf("sandbox service at %s lacks %q: %w", c.base, need, ErrOther)
		}
	}
	return nil
}

// Extensions are the names of what the service does beyond the original's API.
func (c *Client) Extensions(ctx context.Context) ([]string, error) {
	c.asked.Lock()
	defer c.asked.Unlock()
	if c.extensions != nil {
		return c.extensions, nil
	}
	var root struct {
		Extensions []string `json:"extensions"`
	}
	if err := c.Call(ctx, Request{Method: http.MethodGet, Path: "/", Out: &root}); err != nil {
		return nil, fmt.Errorf("ask %s what it is: %w", c.base, err)
	}
	c.extensions = append([]string{}, root.Extensions...)
	return c.extensions, nil
}

// NewKey is an Idempotency-Key of its own.
func NewKey() string { return seal.Random(16) }
