package local

import (
	"context"
	"runtime"

	"golang.org/x/sys/unix"

	"orchard/internal/sandbox/control"
)

// Resources implements control.Resourcer: this machine is the only node.
func (r *Runtime) Resources(ctx context.Context) (control.Resources, error) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return control.Resources{}, err
	}
	machine := control.Amount{CPU: float64(runtime.NumCPU()), MemoryBytes: int64(uint64(info.Totalram) * uint64(info.Unit))}
	res := control.Resources{Nodes: []control.Node{{Name: r.hostname, Capacity: machine, Allocatable: machine}}}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range r.sorted() {
		st := b.snapshot()
		if st.Phase == control.Ended {
			continue
		}
		res.Sandboxes = append(res.Sandboxes, control.Request{
			Name: st.Spec.ID, Phase: string(st.Phase), CPU: b.limits.cpu, MemoryRequest: b.limits.memory,
		})
	}
	return res, nil
}
