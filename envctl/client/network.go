package client

import (
	"context"
	"net/http"
	"time"

	"orchard/internal/sandbox/httpclient/rest"
)

// EgressRule opens one thing to a sandbox whose network is closed otherwise. Exactly one
// of Domain and CIDR is set.
type EgressRule struct {
	Domain string        // "pypi.org", or "*.pypi.org" for every name below it
	CIDR   string        // "203.0.113.0/24", or one address
	Ports  []uint16      // none means 80 and 443 for a domain, every port for a CIDR
	For    time.Duration // it closes by itself so long after it was granted; 0 is never
}

// egressOf is nil for nil: that and an empty list are not the same.
func egressOf(rules []EgressRule) *[]rest.Egress {
	if rules == nil {
		return nil
	}
	out := []rest.Egress{}
	for _, r := range rules {
		out = append(out, rest.Egress{Domain: r.Domain, CIDR: r.CIDR, Ports: r.Ports, Seconds: r.For.Seconds()})
	}
	return &out
}

// Network is what is open to a sandbox.
type Network struct {
	BlockNetwork bool         `json:"block_network"` // false: everything but private networks, whatever Egress says
	Proxy        bool         `json:"proxy"`         // its programs were told of the egress proxy
	Generation   int64        `json:"generation"`    // of two the higher is the later
	Egress       []OpenEgress `json:"egress"`
}

// OpenEgress is a rule that was granted.
type OpenEgress struct {
	Domain  string   `json:"domain,omitempty"`
	CIDR    string   `json:"cidr,omitempty"`
	Ports   []uint16 `json:"ports,omitempty"`
	Expires Time     `json:"expires_at"` // zero is never
	Open    bool     `json:"open"`       // false: its time is over
}

// Network is what is open to the sandbox now.
func (s *Sandbox) Network(ctx context.Context) (n Network, err error) {
	err = s.client.call(ctx, "network of sandbox "+s.id, rest.Request{Method: http.MethodGet, Path: s.path("/network"), Out: &n})
	return n, err
}

// SetNetwork makes rules all that the sandbox may reach; none closes everything.
func (s *Sandbox) SetNetwork(ctx context.Context, rules []EgressRule) (n Network, err error) {
	if rules == nil {
		rules = []EgressRule{}
	}
	body := map[string]any{"egress": egressOf(rules)}
	err = s.client.call(ctx, "change the network of sandbox "+s.id, rest.Request{Method: http.MethodPut, Path: s.path("/network"), Body: body, Out: &n})
	return n, err
}
