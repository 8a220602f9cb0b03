//go:build linux

package local

import (
	"testing"
	"time"

	"orchard/agent/wire"
	"orchard/internal/sandbox"
	"orchard/internal/sandbox/control"
)

// BenchmarkSandbox is a sandbox's whole life: made, one command, ended.
func BenchmarkSandbox(b *testing.B) {
	r := open(b)
	begin(b, r, sandbox.Spec{ID: "first"})
	var ready, command, stop time.Duration
	for b.Loop() {
		at := time.Now()
		st := begin(b, r, sandbox.Spec{Memory: "512Mi", CPU: "2"})
		ready += time.Since(at)
		at = time.Now()
		if _, err := run(b.Context(), r, st.Spec.ID, wire.ExecRequest{Argv: []string{"/bin/true"}}); err != nil {
			b.Fatal(err)
		}
		command += time.Since(at)
		at = time.Now()
		if err := r.Stop(b.Context(), st.Spec.ID, control.ReasonDeleted); err != nil {
			b.Fatal(err)
		}
		stop += time.Since(at)
	}
	for name, d := range map[string]time.Duration{"ready-ms": ready, "exec-ms": command, "stop-ms": stop} {
		b.ReportMetric(float64(d.Microseconds())/1000/float64(b.N), name)
	}
}

// BenchmarkExec is one command in a sandbox that stands.
func BenchmarkExec(b *testing.B) {
	r := open(b)
	st := begin(b, r, sandbox.Spec{})
	for b.Loop() {
		if _, err := run(b.Context(), r, st.Spec.ID, wire.ExecRequest{Argv: []string{"/bin/true"}}); err != nil {
			b.Fatal(err)
		}
	}
}
