package client

import (
	"context"
	"net/http"
	"time"

	"orchard/internal/sandbox/httpclient/rest"
)

// Port is a grant: whoever has its URL reaches a port of a sandbox, over HTTP and
// WebSocket, until it expires or is revoked.
type Port struct {
	ID      string `json:"id"`
	Port    int    `json:"port"`
	URL     string `json:"url,omitempty"`   // a secret; in the answer of Expose only
	Token   string `json:"token,omitempty"` // likewise: the part of URL that is secret
	Expires Time   `json:"expires_at"`
	Open    int    `json:"open"` // connections through it now
}

// Expose makes a URL of a port of the sandbox that is good for so long; 0 is an hour.
func (s *Sandbox) Expose(ctx context.Context, port int, good time.Duration) (p Port, err error) {
	body := map[string]any{"port": port}
	if good > 0 {
		body["ttl_seconds"] = good.Seconds()
	}
	err = s.client.call(ctx, "expose a port of sandbox "+s.id, rest.Request{Method: http.MethodPost, Path: s.path("/ports"), Body: body, Out: &p})
	return p, err
}

// Ports are the grants that are good.
func (s *Sandbox) Ports(ctx context.Context) ([]Port, error) {
	var a struct {
		Ports []Port `json:"ports"`
	}
	err := s.client.call(ctx, "ports of sandbox "+s.id, rest.Request{Method: http.MethodGet, Path: s.path("/ports"), Out: &a})
	return a.Ports, err
}

// Revoke ends a grant and cuts the connections through it.
func (s *Sandbox) Revoke(ctx context.Context, id string) error {
	return s.client.call(ctx, "revoke a port of sandbox "+s.id, rest.Request{Method: http.MethodDelete, Path: s.path("/ports/" + escape(id))})
}
