package client

import (
	"time"

	"orchard/internal/sandbox/httpclient/rest"
)

// Spec is the sandbox to make. The zero value of a field is the service's default.
type Spec struct {
	ID           string            // up to 63 lower-case letters, digits and hyphens; "" lets the service choose
	Image        string            // required: "host", or an OCI image
	CPU, Memory  string            // limits, Kubernetes quantities: "500m", "2Gi"
	Env          map[string]string // of every command
	Workdir      string            // of every command; made when absent
	OpenNetwork  bool              // false: no network but loopback, and what Egress opens
	Egress       []EgressRule      // not nil: programs are told of the egress proxy, even when nothing is open yet
	ReadyTimeout time.Duration     // until it must be ready; 0 is an hour
	Lifetime     time.Duration     // it ends after this, whatever happens
	Lease        time.Duration     // it ends without a heartbeat for so long
	Labels       map[string]string

	CPURequest    string            // what a scheduler keeps free; "" is the limit
	MemoryRequest string            // likewise
	Disk          string            // limit of what it writes: "10Gi"
	GPU           int               // how many
	NodeSelector  map[string]string // labels that its machine must have
	Tolerations   []Toleration
	RuntimeClass  string // "gvisor", "kata"
	PriorityClass string
	PullSecrets   []string // names of Secrets with registry passwords
	Spot          bool     // it may run on machines that are taken away at short notice

	// Progress, when not nil, is told every other second how a slow start is.
	Progress func(Info)
}

// Toleration is Kubernetes': Operator is "Equal" or "Exists", Effect "" is every effect.
type Toleration = rest.Toleration

// body is the request.
func (s Spec) body() any {
	return rest.Create{
		ID: s.ID, Image: s.Image, BlockNetwork: !s.OpenNetwork, Egress: egressOf(s.Egress), Env: s.Env, Workdir: s.Workdir,
		Timeout: s.ReadyTimeout.Seconds(), Lifetime: s.Lifetime.Seconds(), Lease: s.Lease.Seconds(), Labels: s.Labels,
		Resources: rest.Resources{CPU: s.CPU, Memory: s.Memory, CPURequest: s.CPURequest, MemoryRequest: s.MemoryRequest, Disk: s.Disk, GPU: s.GPU},
		Placement: rest.Placement{
			NodeSelector: s.NodeSelector, Tolerations: s.Tolerations, RuntimeClass: s.RuntimeClass,
			PriorityClass: s.PriorityClass, PullSecrets: s.PullSecrets, Spot: s.Spot,
		},
	}
}
