package control

// view is a sandbox as clients see it; the fields after StatusMessage are our own.
type view struct {
	SandboxID     string            `json:"sandbox_id"`
	Namespace     string            `json:"namespace"`
	Image         string            `json:"image"`
	PodName       string            `json:"pod_name"`
	BlockNetwork  bool              `json:"block_network"`
	CPU           string            `json:"cpu"`
	Memory        string            `json:"memory"`
	CreatedAt     *float64          `json:"created_at"`
	Ready         bool              `json:"ready"`
	Status        string            `json:"status"`
	StatusMessage string            `json:"status_message"`
	Reason        string            `json:"reason,omitempty"`
	ReadyAt       *float64          `json:"ready_at,omitempty"`
	EndedAt       *float64          `json:"ended_at,omitempty"`
	ExpiresAt     *float64          `json:"expires_at,omitempty"`
	Lease         float64           `json:"lease_seconds,omitempty"`
	Lifetime      float64           `json:"lifetime_seconds,omitempty"`
	Workdir       string            `json:"workdir,omitempty"`
	Limits        string            `json:"limits,omitempty"`
	Host          string            `json:"host,omitempty"`
	Labels        map[string]string `json:"labels,omitempty"`
	Owner         string            `json:"owner"`
	CPURequest    string            `json:"cpu_request"`
	MemoryRequest string            `json:"memory_request"`
	Disk          string            `json:"disk,omitempty"`
	GPU           int               `json:"gpu,omitempty"`
	NodeSelector  map[string]string `json:"node_selector,omitempty"`
	Tolerations   []tolerationView  `json:"tolerations,omitempty"`
	RuntimeClass  string            `json:"runtime_class,omitempty"`
	PriorityClass string            `json:"priority_class,omitempty"`
	PullSecrets   []string          `json:"image_pull_secrets,omitempty"`
	Spot          bool              `json:"spot"`                // it may run on machines that are taken away
	OnSpot        bool              `json:"on_spot"`             // it does
	Retryable     *bool             `json:"retryable,omitempty"` // of one that ended: another try may do better
	Cost          *costAnswer       `json:"cost,omitempty"`
}

func (s *Service) view(st State) view {
	p := st.Spec.Placement
	v := view{
		SandboxID: st.Spec.ID, Namespace: s.set.Namespace, Image: st.Spec.Image, PodName: podName(st),
		BlockNetwork: !st.Spec.OpenNetwork, CPU: st.Spec.CPU, Memory: st.Spec.Memory,
		CreatedAt: epoch(st.Created), Ready: st.Phase == Ready, Status: statusOf(st), StatusMessage: st.Message,
		ReadyAt: epoch(st.Ready), EndedAt: epoch(st.Ended), ExpiresAt: epoch(st.ExpiresAt),
		Lease: st.Spec.Lease.Seconds(), Lifetime: st.Spec.Lifetime.Seconds(),
		Workdir: st.Spec.Workdir, Limits: st.Limits, Host: st.Host, Labels: st.Spec.Labels,
		Owner: ownerOf(st), CPURequest: st.Spec.CPU, MemoryRequest: st.Spec.Memory, Disk: st.Spec.Disk,
		GPU: p.GPU, NodeSelector: p.NodeSelector, RuntimeClass: p.RuntimeClass, PriorityClass: p.PriorityClass,
		PullSecrets: p.PullSecrets, Spot: p.Spot, OnSpot: st.Spot,
	}
	if st.Spec.Reserve.CPU != "" {
		v.CPURequest = st.Spec.Reserve.CPU
	}
	if st.Spec.Reserve.Memory != "" {
		v.MemoryRequest = st.Spec.Reserve.Memory
	}
	for _, t := range p.Tolerations {
		v.Tolerations = append(v.Tolerations, tolerationView(t))
	}
	if st.Phase == Ended {
		v.StatusMessage, v.Reason, v.Retryable = endText(st), st.Reason, ptr(Retryable(st.Reason))
	}
	return v
}

// statusOf is how far a sandbox is, in the original's words.
func statusOf(st State) string {
	if st.Phase == Ended {
		return statusFailed
	}
	return string(st.Phase)
}

// tolerationView is a toleration as requests have it.
type tolerationView struct {
	Key      string `json:"key"`
	Operator string `json:"operator"`
	Value    string `json:"value"`
	Effect   string `json:"effect"`
}
