// Package httpclient is sandbox.Client over the sandbox service's REST API.
//
// It tries again where that can help: every request that makes or runs something
// carries an Idempotency-Key, so a repeat finds what the first one did and nothing
// runs twice. A service that does not know the key is refused. No request waits
// longer than about half a minute, so proxies with a limit do not matter.
//
// A command that failed is a Result; an error means that nobody here knows what the
// command did. The API key is sent to the given URL only and never shown.
package httpclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"orchard/internal/exit"
	"orchard/internal/sandbox"
	"orchard/internal/seal"
)

// Options say where the service is. HTTP nil is a client of our own.
type Options struct {
	URL  string // http://host:8000, a path prefix is kept
	Key  string // X-API-Key; "" sends none
	HTTP *http.Client
	// Patience is how long a request is tried again while the service is away; 0 is two
	// minutes.
	Patience time.Duration
}

// Client makes sandboxes through a service. Safe for concurrent use.
type Client struct {
	base     string
	key      string
	http     *http.Client
	patience time.Duration
	checked  sync.Mutex
	fits     bool // the service was asked and has what is needed; under checked
}

var _ sandbox.Client = (*Client)(nil)

// slice is how long one request waits for a sandbox or a job at most.
const slice = 25 * time.Second

// answerTime is how much longer than it waits a request may take to be answered.
const answerTime = 35 * time.Second

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

// Check asks the service once, before a run, whether it will answer: it is reachable,
// is the right kind of service and takes the key. The error is an exit.Retry when it
// may come up by itself, else an exit.Config.
func (c *Client) Check(ctx context.Context) error {
	once := &Client{base: c.base, key: c.key, http: c.http, patience: time.Nanosecond}
	err := once.check(ctx)
	if err == nil {
		err = once.call(ctx, request{method: http.MethodGet, path: "/resources", limit: answerTime})
	}
	var e *serviceError
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case errors.As(err, &e) && (e.status == http.StatusUnauthorized || e.status == http.StatusForbidden):
		return exit.Configf("check sandbox service %s: %w; check SANDBOX_API_KEY", c.base, err)
	case errors.Is(err, errOther), !transient(err):
		return exit.Configf("check sandbox service: %w; check --sandbox-url (SANDBOX_BASE_URL)", err)
	}
	return exit.Retryf("check sandbox service %s: %w; check that it runs, and --sandbox-url (SANDBOX_BASE_URL)", c.base, err)
}

// errOther is an answer of something that is no orchard-controller.
var errOther = errors.New("an orchard-controller is needed")

// check refuses a service that would run a repeated request twice.
func (c *Client) check(ctx context.Context) error {
	c.checked.Lock()
	defer c.checked.Unlock()
	if c.fits {
		return nil
	}
	var root struct {
		Extensions []string `json:"extensions"`
	}
	if err := c.call(ctx, request{method: http.MethodGet, path: "/", limit: answerTime, out: &root}); err != nil {
		return fmt.Errorf("ask %s what it is: %w", c.base, err)
	}
	for _, need := range []string{"argv", "base64-output", "idempotency-key", "raw-files", "stdin"} {
		if !slices.Contains(root.Extensions, need) {
			return fmt.Errorf("sandbox service at %s lacks %q: %w", c.base, need, errOther)
		}
	}
	c.fits = true
	return nil
}

// newKey is an Idempotency-Key of its own.
func newKey() string { return seal.Random(16) }

// state is a sandbox as the service tells it.
type state struct {
	SandboxID string `json:"sandbox_id"`
	Ready     bool   `json:"ready"`
	Status    string `json:"status"`
	Message   string `json:"status_message"`
	Reason    string `json:"reason"`
}

// Create implements sandbox.Client.
func (c *Client) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	if err := c.check(ctx); err != nil {
		return nil, err
	}
	if spec.ReadyTimeout == 0 {
		spec.ReadyTimeout = time.Hour
	}
	var st state
	err := c.call(ctx, request{
		method: http.MethodPost, path: "/sandboxes", key: newKey(), limit: answerTime, out: &st,
		body: map[string]any{
			"image": spec.Image, "sandbox_id": orNull(spec.ID), "cpu": orNull(spec.CPU), "memory": orNull(spec.Memory),
			"block_network": !spec.OpenNetwork, "timeout": spec.ReadyTimeout.Seconds(), "env": spec.Env,
			"workdir": orNull(spec.Workdir), "labels": spec.Labels,
			"lifetime_seconds": spec.Lifetime.Seconds(), "lease_seconds": spec.Lease.Seconds(),
		},
	})
	if err != nil {
		var e *serviceError
		if errors.As(err, &e) && e.status == http.StatusUnprocessableEntity {
			return nil, &sandbox.Refused{Image: spec.Image, Reason: e.detail}
		}
		return nil, fmt.Errorf("create sandbox of image %q: %w", spec.Image, err)
	}
	box := &box{client: c, id: st.SandboxID}
	if err := c.await(ctx, box.id, spec); err != nil {
		// Made, but of no use to anybody.
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		return nil, errors.Join(err, box.Close(end))
	}
	if spec.Lease > 0 {
		box.keep(ctx, spec.Lease)
	}
	return box, nil
}

// await returns when commands run in the sandbox.
func (c *Client) await(ctx context.Context, id string, spec sandbox.Spec) error {
	deadline := time.Now().Add(spec.ReadyTimeout)
	for {
		wait := max(min(time.Until(deadline), slice), time.Second)
		var st state
		err := c.call(ctx, request{
			method: http.MethodGet, path: "/sandboxes/" + id + "/wait", out: &st, limit: wait + answerTime,
			query: url.Values{"timeout": {strconv.FormatFloat(wait.Seconds(), 'f', 3, 64)}},
		})
		var e *serviceError
		switch {
		case errors.As(err, &e) && e.status == http.StatusRequestTimeout:
			if !time.Now().Before(deadline) {
				return fmt.Errorf("sandbox %s of image %q was not ready within %v", id, spec.Image, spec.ReadyTimeout)
			}
			continue
		case err != nil:
			return fmt.Errorf("wait for sandbox %s: %w", id, lost(id, err))
		case st.Ready:
			return nil
		}
		why := strings.TrimPrefix(st.Message, st.Reason+": ") // the service puts it in front
		if st.Reason == "refused" {
			return &sandbox.Refused{Image: spec.Image, Reason: why}
		}
		return fmt.Errorf("sandbox %s of image %q did not start: %s: %s", id, spec.Image, st.Status, why)
	}
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}
