// Package client is the Go SDK of the sandbox service: make sandboxes, run commands in
// them, move files, end them. Its types are its own, so programs outside of this module
// can use it.
//
// Whatever makes or runs something carries an Idempotency-Key and is sent again when a
// connection breaks or the service is away for a moment, and happens once all the same.
// A command that failed is a Result; an error means that nobody here knows what the command
// did. Errors of the service have types: see NotFound, Gone, Refused, Denied, Conflict,
// QuotaExceeded and Unavailable. The key is sent to the given URL only and never shown.
package client

import (
	"context"
	"net/http"
	"os"
	"time"

	"orchard/internal/sandbox/httpclient/rest"
)

// The environment that FromEnv reads.
const (
	EnvURL = "SANDBOX_BASE_URL"
	EnvKey = "SANDBOX_API_KEY"
)

// Options say where the service is.
type Options struct {
	URL  string // http://host:8000; a path prefix is kept
	Key  string // the API key; "" sends none
	HTTP *http.Client
	// Patience is how long a request is tried again while the service is away; 0 is two
	// minutes.
	Patience time.Duration
}

// FromEnv is the service that SANDBOX_BASE_URL and SANDBOX_API_KEY name; without a URL
// it is the original SDK's, http://localhost:8000.
func FromEnv() Options {
	o := Options{URL: os.Getenv(EnvURL), Key: os.Getenv(EnvKey)}
	if o.URL == "" {
		o.URL = "http://localhost:8000"
	}
	return o
}

// String shows everything but the key.
func (o Options) String() string { return "sandbox service at " + o.URL }

// GoString shows everything but the key.
func (o Options) GoString() string { return o.String() }

// Client is a connection to a service. Safe for concurrent use.
type Client struct{ rest *rest.Client }

// New is a client; nothing is asked of the service yet.
func New(o Options) (*Client, error) {
	r, err := rest.New(rest.Options{URL: o.URL, Key: o.Key, HTTP: o.HTTP, Patience: o.Patience})
	if err != nil {
		return nil, err
	}
	return &Client{r}, nil
}

// URL is the service's.
func (c *Client) URL() string { return c.rest.URL() }

// Extensions are the names of what the service does beyond the original's API. It is
// asked once.
func (c *Client) Extensions(ctx context.Context) ([]string, error) {
	e, err := c.rest.Extensions(ctx)
	return append([]string(nil), e...), explain("ask for extensions", err)
}

// call makes a request with a JSON answer; doing is for its error.
func (c *Client) call(ctx context.Context, doing string, r rest.Request) error {
	return explain(doing, c.rest.Call(ctx, r))
}

// Sandbox is a handle of the sandbox with this id; nothing is asked, and it need not be
// there.
func (c *Client) Sandbox(id string) *Sandbox { return &Sandbox{client: c, id: id} }

// Sandbox is one sandbox. Safe for concurrent use.
type Sandbox struct {
	client *Client
	id     string
}

// ID is the sandbox's.
func (s *Sandbox) ID() string { return s.id }

func (s *Sandbox) path(rest string) string { return "/sandboxes/" + escape(s.id) + rest }
