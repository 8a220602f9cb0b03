package agent_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

// BenchmarkSize is the program, which is all that its image holds, against the least that
// serves HTTP, built in the same way.
func BenchmarkSize(b *testing.B) {
	source, least := filepath.Join(b.TempDir(), "hello.go"), filepath.Join(b.TempDir(), "hello")
	hello := `package main

import "net/http"

func main() {
	http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("hello")) })
	panic(http.ListenAndServe(":8080", nil))
}
`
	if err := os.WriteFile(source, []byte(hello), 0o644); err != nil {
		b.Fatal(err)
	}
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", least, source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, text)
	}
	size := func(path string) float64 {
		info, err := os.Stat(path)
		if err != nil {
			b.Fatal(err)
		}
		return float64(info.Size())
	}
	for b.Loop() { // nothing is timed
	}
	b.ReportMetric(0, "ns/op") // so it is not printed
	b.ReportMetric(size(binary(b)), "bytes")
	b.ReportMetric(size(binary(b))/size(least), "x-hello")
}
