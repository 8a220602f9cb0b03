package wire

// TunnelProtocol is the Upgrade of GET /v1/tunnel: after the 101 the connection is one to
// the port.
const TunnelProtocol = "orchard-tunnel"

// Port is a grant: who has the token reaches a port of the sandbox, until it ends.
type Port struct {
	ID        string  `json:"id"`
	Port      int     `json:"port"`
	Token     string  `json:"token,omitempty"`   // in the answer that makes it only; the agent keeps a hash
	Seconds   float64 `json:"seconds,omitempty"` // of a request: how long it is good
	ExpiresUS int64   `json:"expires_us,omitempty"`
	Open      int     `json:"open"` // connections through it now
}
