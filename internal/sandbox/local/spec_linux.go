package local

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"orchard/internal/quantity"
	"orchard/internal/sandbox"
)

// leastMemory is what an agent with a small command needs.
const leastMemory = 32 << 20

// sandboxID is what a host name and a folder may be called.
var sandboxID = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// limitsOf reads and checks a spec.
func (r *Runtime) limitsOf(spec sandbox.Spec) (limits, error) {
	l := limits{processes: r.opts.Processes}
	refuse := func(format string, a ...any) (limits, error) {
		return l, &sandbox.Refused{Image: spec.Image, Reason: fmt.Sprintf(format, a...)}
	}
	switch {
	case !sandboxID.MatchString(spec.ID):
		return refuse("id %q is not 1 to 63 lower-case letters, digits and hyphens", spec.ID)
	case spec.Image == "":
		return refuse("it names no image: %q is this machine's own programs", HostImage)
	case spec.OpenNetwork:
		return refuse("the local runtime has no network to open: leave block_network true")
	case spec.Workdir != "" && (!filepath.IsAbs(spec.Workdir) || filepath.Clean(spec.Workdir) != spec.Workdir):
		return refuse("workdir %q is not a clean absolute path", spec.Workdir)
	}
	if field := unservable(spec); field != "" {
		return refuse("%s: the local runtime has one machine and no scheduler; leave it out", field)
	}
	for key, value := range spec.Env {
		if key == "" || strings.ContainsAny(key, "=\x00") || strings.Contains(value, "\x00") {
			return refuse("env: %q is not a variable's name, or its value has a zero byte", key)
		}
	}
	if spec.CPU != "" {
		cpu, err := quantity.Parse(spec.CPU)
		if err != nil {
			return refuse("cpu: %v", err)
		}
		l.cpu = cpu
	}
	if spec.Memory != "" {
		memory, err := quantity.Parse(spec.Memory)
		if err != nil {
			return refuse("memory: %v", err)
		}
		if memory < leastMemory || memory >= 1<<62 {
			return refuse("memory: %s is not between 32Mi and 4Ei", spec.Memory)
		}
		l.memory = int64(memory)
	}
	return l, nil
}

// unservable is the field of spec that only a cluster can serve, "" for none. Reserve is no
// such field: it is below the limits, and there is nobody to keep it free from.
func unservable(spec sandbox.Spec) string {
	p := spec.Placement
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"disk", spec.Disk != ""}, {"gpu", p.GPU != 0}, {"node_selector", len(p.NodeSelector) > 0}, {"tolerations", len(p.Tolerations) > 0},
		{"runtime_class", p.RuntimeClass != ""}, {"priority_class", p.PriorityClass != ""}, {"image_pull_secrets", len(p.PullSecrets) > 0}, {"spot", p.Spot},
	} {
		if f.set {
			return f.name
		}
	}
	return ""
}
