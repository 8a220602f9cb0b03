package agent_test

import (
	"fmt"
	"os/exec"
	"testing"
	"time"

	"orchard/agent/wire"
)

// BenchmarkExecTrue is a command through the agent's Unix socket, beside a bare fork
// and exec of the same one in the same run.
func BenchmarkExecTrue(b *testing.B) {
	b.Run("bare", func(b *testing.B) {
		for b.Loop() {
			if err := exec.Command("/bin/true").Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("agent", func(b *testing.B) {
		box := startProgram(b, binary(b), nil)
		for b.Loop() {
			box.run(wire.ExecRequest{Argv: []string{"/bin/true"}})
		}
	})
	b.Run("agent-shell", func(b *testing.B) {
		box := startProgram(b, binary(b), nil)
		for b.Loop() {
			box.run(wire.ExecRequest{Shell: "true"})
		}
	})
	b.Run("agent-16-parallel", func(b *testing.B) {
		box := startProgram(b, binary(b), nil)
		b.SetParallelism(8)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				box.run(wire.ExecRequest{Argv: []string{"/bin/true"}, Concurrent: true})
			}
		})
	})
}

// BenchmarkStartToHealthy is from fork to the first answer, and reports the memory
// that the idle agent has then.
func BenchmarkStartToHealthy(b *testing.B) {
	program := binary(b)
	var resident int64
	for b.Loop() {
		box := startProgram(b, program, nil)
		b.StopTimer()
		resident = memory(b, box.cmd.Process.Pid, "VmRSS")
		box.cmd.Process.Kill()
		box.exitCode()
		b.StartTimer()
	}
	b.ReportMetric(float64(resident), "RSS-bytes")
}

// BenchmarkOutput is how fast a command's output goes through, and reports the agent's peak.
func BenchmarkOutput(b *testing.B) {
	box := startProgram(b, binary(b), nil)
	const size = 500_000_000
	b.SetBytes(size)
	for b.Loop() {
		j := box.run(wire.ExecRequest{Shell: fmt.Sprintf("head -c %d /dev/zero", size), TimeoutMS: time.Hour.Milliseconds()})
		if j.Stdout.Bytes != size {
			b.Fatalf("got %d bytes", j.Stdout.Bytes)
		}
	}
	b.ReportMetric(float64(memory(b, box.cmd.Process.Pid, "VmHWM")), "peak-RSS-bytes")
}
