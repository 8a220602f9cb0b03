package client

import "time"

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
type Toleration struct {
	Key      string `json:"key,omitempty"`
	Operator string `json:"operator,omitempty"`
	Value    string `json:"value,omitempty"`
	Effect   string `json:"effect,omitempty"`
}

// body is the request; what is not set is not in it, so services that do not know a field
// are not asked for it.
func (s Spec) body() any {
	return struct {
		ID            string            `json:"sandbox_id,omitempty"`
		Image         string            `json:"image"`
		BlockNetwork  bool              `json:"block_network"`
		Egress        *[]egress         `json:"egress,omitempty"`
		CPU           string            `json:"cpu,omitempty"`
		Memory        string            `json:"memory,omitempty"`
		Env           map[string]string `json:"env,omitempty"`
		Workdir       string            `json:"workdir,omitempty"`
		Timeout       float64           `json:"timeout,omitempty"`
		Lifetime      float64           `json:"lifetime_seconds,omitempty"`
		Lease         float64           `json:"lease_seconds,omitempty"`
		Labels        map[string]string `json:"labels,omitempty"`
		CPURequest    string            `json:"cpu_request,omitempty"`
		MemoryRequest string            `json:"memory_request,omitempty"`
		Disk          string            `json:"disk,omitempty"`
		GPU           int               `json:"gpu,omitempty"`
		NodeSelector  map[string]string `json:"node_selector,omitempty"`
		Tolerations   []Toleration      `json:"tolerations,omitempty"`
		RuntimeClass  string            `json:"runtime_class,omitempty"`
		PriorityClass string            `json:"priority_class,omitempty"`
		PullSecrets   []string          `json:"image_pull_secrets,omitempty"`
		Spot          bool              `json:"spot,omitempty"`
	}{
		s.ID, s.Image, !s.OpenNetwork, egressOf(s.Egress), s.CPU, s.Memory, s.Env, s.Workdir, s.ReadyTimeout.Seconds(), s.Lifetime.Seconds(),
		s.Lease.Seconds(), s.Labels, s.CPURequest, s.MemoryRequest, s.Disk, s.GPU, s.NodeSelector, s.Tolerations,
		s.RuntimeClass, s.PriorityClass, s.PullSecrets, s.Spot,
	}
}
