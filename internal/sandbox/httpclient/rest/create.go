package rest

// Create is the request for a sandbox. What is not set is not in it, so services that do not know
// a field are not asked for it.
type Create struct {
	ID           string            `json:"sandbox_id,omitempty"`
	Image        string            `json:"image"`
	BlockNetwork bool              `json:"block_network"`
	Egress       *[]Egress         `json:"egress,omitempty"` // nil and an empty list are not the same
	Env          map[string]string `json:"env,omitempty"`
	Workdir      string            `json:"workdir,omitempty"`
	Timeout      float64           `json:"timeout,omitempty"`          // seconds
	Lifetime     float64           `json:"lifetime_seconds,omitempty"` // seconds
	Lease        float64           `json:"lease_seconds,omitempty"`    // seconds
	Labels       map[string]string `json:"labels,omitempty"`
	Resources
	Placement
}

// Resources are what a sandbox, or one of a pool, may use and what is kept free for it.
type Resources struct {
	CPU           string `json:"cpu,omitempty"`
	Memory        string `json:"memory,omitempty"`
	CPURequest    string `json:"cpu_request,omitempty"`
	MemoryRequest string `json:"memory_request,omitempty"`
	Disk          string `json:"disk,omitempty"`
	GPU           int    `json:"gpu,omitempty"`
}

// Placement is which machines of a cluster, for a sandbox, a pool or a pre-pull.
type Placement struct {
	NodeSelector  map[string]string `json:"node_selector,omitempty"`
	Tolerations   []Toleration      `json:"tolerations,omitempty"`
	RuntimeClass  string            `json:"runtime_class,omitempty"`
	PriorityClass string            `json:"priority_class,omitempty"`
	PullSecrets   []string          `json:"image_pull_secrets,omitempty"`
	Spot          bool              `json:"spot,omitempty"`
}

// Egress is a rule of what is open to a sandbox.
type Egress struct {
	Domain  string   `json:"domain,omitempty"`
	CIDR    string   `json:"cidr,omitempty"`
	Ports   []uint16 `json:"ports,omitempty"`
	Seconds float64  `json:"seconds,omitempty"`
}

// Toleration is Kubernetes': Operator is "Equal" or "Exists", Effect "" is every effect.
type Toleration struct {
	Key      string `json:"key,omitempty"`
	Operator string `json:"operator,omitempty"`
	Value    string `json:"value,omitempty"`
	Effect   string `json:"effect,omitempty"`
}
