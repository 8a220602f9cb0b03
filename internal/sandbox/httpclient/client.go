// Package httpclient is sandbox.Client over the sandbox service's REST API, which rest
// speaks.
//
// A service that would run a repeated request twice is refused. A command that failed is
// a Result; an error means that nobody here knows what the command did.
package httpclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"orchard/internal/exit"
	"orchard/internal/sandbox"
	"orchard/internal/sandbox/httpclient/rest"
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
type Client struct{ rest *rest.Client }

var _ sandbox.Client = (*Client)(nil)

// New is a client; nothing is asked of the service yet.
func New(o Options) (*Client, error) {
	c, err := rest.New(rest.Options{URL: o.URL, Key: o.Key, HTTP: o.HTTP, Patience: o.Patience})
	if err != nil {
		return nil, err
	}
	return &Client{c}, nil
}

// Check asks the service once, before a run, whether it will answer: it is reachable,
// is the right kind of service and takes the key. The error is an exit.Retry when it
// may come up by itself, else an exit.Config.
func (c *Client) Check(ctx context.Context) error {
	once, base := c.rest.Impatient(), c.rest.URL()
	err := once.Check(ctx)
	if err == nil {
		err = once.Call(ctx, rest.Request{Method: http.MethodGet, Path: "/resources"})
	}
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case rest.IsStatus(err, http.StatusUnauthorized) || rest.IsStatus(err, http.StatusForbidden):
		return exit.Configf("check sandbox service %s: %w; check SANDBOX_API_KEY", base, err)
	case errors.Is(err, rest.ErrOther), !rest.Transient(err):
		return exit.Configf("check sandbox service: %w; check --sandbox-url (SANDBOX_BASE_URL)", err)
	}
	return exit.Retryf("check sandbox service %s: %w; check that it runs, and --sandbox-url (SANDBOX_BASE_URL)", base, err)
}

// Create implements sandbox.Client.
func (c *Client) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	if err := c.rest.Check(ctx); err != nil {
		return nil, err
	}
	if spec.ReadyTimeout == 0 {
		spec.ReadyTimeout = time.Hour
	}
	var st rest.State
	err := c.rest.Call(ctx, rest.Request{
		Method: http.MethodPost, Path: "/sandboxes", Key: rest.NewKey(), Out: &st,
		Body: body(spec),
	})
	if err != nil {
		var e *rest.Error
		if errors.As(err, &e) && e.Status == http.StatusUnprocessableEntity {
			return nil, &sandbox.Refused{Image: spec.Image, Reason: e.Detail}
		}
		return nil, fmt.Errorf("create sandbox of image %q: %w", spec.Image, err)
	}
	box := &box{client: c.rest, id: st.ID}
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
	st, err := c.rest.Await(ctx, id, spec.ReadyTimeout, nil)
	switch {
	case rest.IsStatus(err, http.StatusRequestTimeout):
		return fmt.Errorf("sandbox %s of image %q was not ready within %v", id, spec.Image, spec.ReadyTimeout)
	case err != nil:
		return fmt.Errorf("wait for sandbox %s: %w", id, lost(id, err))
	case st.Ready:
		return nil
	case st.Reason == "refused":
		return &sandbox.Refused{Image: spec.Image, Reason: st.Why()}
	}
	return fmt.Errorf("sandbox %s of image %q did not start: %s: %s", id, spec.Image, st.Status, st.Why())
}

// lost is err as *sandbox.Lost when the service says that the sandbox is gone.
func lost(id string, err error) error {
	var e *rest.Error
	if !errors.As(err, &e) || !e.Gone {
		return err
	}
	if e.Reason == "" {
		return &sandbox.Lost{ID: id, Reason: "the service does not know it"}
	}
	return &sandbox.Lost{ID: id, Reason: e.Reason}
}

// body is the whole of spec, but for whose it is, which the service knows by the key.
func body(spec sandbox.Spec) rest.Create {
	at := spec.Placement
	r := rest.Create{
		ID: spec.ID, Image: spec.Image, BlockNetwork: !spec.OpenNetwork, Env: spec.Env, Workdir: spec.Workdir,
		Timeout: spec.ReadyTimeout.Seconds(), Lifetime: spec.Lifetime.Seconds(), Lease: spec.Lease.Seconds(), Labels: spec.Labels,
		Resources: rest.Resources{
			CPU: spec.CPU, Memory: spec.Memory, CPURequest: spec.Reserve.CPU, MemoryRequest: spec.Reserve.Memory, Disk: spec.Disk, GPU: at.GPU,
		},
		Placement: rest.Placement{
			NodeSelector: at.NodeSelector, RuntimeClass: at.RuntimeClass, PriorityClass: at.PriorityClass, PullSecrets: at.PullSecrets, Spot: at.Spot,
		},
	}
	for _, t := range at.Tolerations {
		r.Tolerations = append(r.Tolerations, rest.Toleration(t))
	}
	if spec.Egress != nil {
		r.Egress = &[]rest.Egress{}
		for _, e := range spec.Egress {
			*r.Egress = append(*r.Egress, rest.Egress{Domain: e.Domain, CIDR: e.CIDR, Ports: e.Ports, Seconds: e.For.Seconds()})
		}
	}
	return r
}
