package client

import (
	"context"
	"net/http"

	"orchard/internal/sandbox/httpclient/rest"
)

// PoolSpec is sandboxes that are started before anybody asks for them. The zero value of a
// field is the service's default.
type PoolSpec struct {
	Image         string // required
	Size          int    // how many are kept ready
	Shared        bool   // sandboxes of every owner come from it; for admin keys
	CPU, Memory   string // as in Spec, and so on
	CPURequest    string
	MemoryRequest string
	Disk          string
	GPU           int
	NodeSelector  map[string]string
	Tolerations   []Toleration
	RuntimeClass  string
	PriorityClass string
	PullSecrets   []string
	Spot          bool
}

func (s PoolSpec) body() any {
	return struct {
		Image  string `json:"image"`
		Size   int    `json:"size"`
		Shared bool   `json:"shared,omitempty"`
		rest.Resources
		rest.Placement
	}{
		s.Image, s.Size, s.Shared,
		rest.Resources{CPU: s.CPU, Memory: s.Memory, CPURequest: s.CPURequest, MemoryRequest: s.MemoryRequest, Disk: s.Disk, GPU: s.GPU},
		rest.Placement{
			NodeSelector: s.NodeSelector, Tolerations: s.Tolerations, RuntimeClass: s.RuntimeClass,
			PriorityClass: s.PriorityClass, PullSecrets: s.PullSecrets, Spot: s.Spot,
		},
	}
}

// Pool is a pool of ready sandboxes.
type Pool struct {
	Name     string `json:"name"`
	Owner    string `json:"owner"`
	Shared   bool   `json:"shared"`
	Image    string `json:"image"`
	CPU      string `json:"cpu"`
	Memory   string `json:"memory"`
	Size     int    `json:"size"`
	Ready    int    `json:"ready"`
	Starting int    `json:"starting"`
	Claimed  int    `json:"claimed"`            // sandboxes from it that have not ended
	Message  string `json:"message,omitempty"`  // why the last one did not start, or what they wait for
	Failures int    `json:"failures,omitempty"` // how many in a row did not start
	RetryAt  Time   `json:"retry_at"`           // none is started before; zero is that nothing is wrong
}

func poolPath(name string) string { return "/pools/" + escape(name) }

// SetPool makes the pool of this name, or changes it: idle sandboxes that are not as it
// says are replaced.
func (c *Client) SetPool(ctx context.Context, name string, s PoolSpec) (p Pool, err error) {
	err = c.call(ctx, "make pool "+name, rest.Request{Method: http.MethodPut, Path: poolPath(name), Body: s.body(), Out: &p})
	return p, err
}

// Pool is one pool; NotFound when there is none of this name.
func (c *Client) Pool(ctx context.Context, name string) (p Pool, err error) {
	err = c.call(ctx, "look at pool "+name, rest.Request{Method: http.MethodGet, Path: poolPath(name), Out: &p})
	return p, err
}

// Pools is every pool of the key's owner, and for an admin all, by name.
func (c *Client) Pools(ctx context.Context) ([]Pool, error) {
	var a struct {
		Pools []Pool `json:"pools"`
	}
	err := c.call(ctx, "list pools", rest.Request{Method: http.MethodGet, Path: "/pools", Out: &a})
	return a.Pools, err
}

// DeletePool ends a pool and its idle sandboxes. Calling it twice is fine.
func (c *Client) DeletePool(ctx context.Context, name string) error {
	return c.call(ctx, "delete pool "+name, rest.Request{Method: http.MethodDelete, Path: poolPath(name)})
}
