package control

import "net/http"

// resources adds up what the runtime's machines have and what its sandboxes hold.
func (s *Service) resources(w http.ResponseWriter, r *http.Request) error {
	res, err := s.runtime.Resources(r.Context())
	if err != nil {
		return fail(http.StatusInternalServerError, "Failed to fetch cluster resources: %v", err)
	}
	answer := struct {
		Status      string    `json:"status"`
		Nodes       []Node    `json:"nodes"`
		Capacity    Amount    `json:"total_capacity"`
		Allocatable Amount    `json:"total_allocatable"`
		Requested   Amount    `json:"total_requested"`
		Available   Amount    `json:"available"`
		Sandboxes   []Request `json:"sandbox_pods"`
	}{Status: "ok", Nodes: append([]Node{}, res.Nodes...), Sandboxes: []Request{}}
	for _, n := range res.Nodes {
		answer.Capacity.add(n.Capacity)
		answer.Allocatable.add(n.Allocatable)
	}
	for _, q := range res.Sandboxes {
		answer.Requested.add(Amount{q.CPU, q.MemoryRequest})
		if q.Name != "" { // else it is another owner's
			answer.Sandboxes = append(answer.Sandboxes, q)
		}
	}
	answer.Available = Amount{
		CPU:         max(answer.Allocatable.CPU-answer.Requested.CPU, 0),
		MemoryBytes: max(answer.Allocatable.MemoryBytes-answer.Requested.MemoryBytes, 0),
	}
	writeJSON(w, http.StatusOK, answer)
	return nil
}

func (a *Amount) add(b Amount) {
	a.CPU += b.CPU
	a.MemoryBytes += b.MemoryBytes
}
