package kube_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"testing"
	"time"

	"orchard/test/e2e/figures"
)

// A hundred sandboxes, made at once on one real machine, and a command in each.
func TestHundredRealSandboxes(t *testing.T) {
	if !soak {
		t.Skip("make soak runs this")
	}
	AllReady(t)
	service := Controller(t)
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Minute)
	defer stop()
	for _, width := range []string{"100", "10"} {
		cmd := exec.CommandContext(ctx, program(t, "orchard/cmd/envctl"), "bench", "--sandboxes", "100", "--execs", "1", "--concurrency", width,
			"--image", shImage, "--cpu", "1", "--cpu-request", "1m", "--memory", "64Mi", "--memory-request", "16Mi", "--label", "soak=hundred", "-o", "json")
		cmd.Env = append(os.Environ(), "SANDBOX_BASE_URL="+service.URL, "SANDBOX_API_KEY="+service.Key)
		var out, said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &said
		err := cmd.Run()
		var got struct {
			Success float64 `json:"success_share"`
			Seconds float64
			Create  map[string]float64 `json:"create_ms"`
			Exec    map[string]float64 `json:"exec_ms"`
		}
		if jsonErr := json.Unmarshal(out.Bytes(), &got); err != nil || jsonErr != nil || got.Success != 1 {
			t.Errorf("bench: %v, %v: %s%s", err, jsonErr, out.Bytes(), said.Bytes())
		}
		figures.Tell(t, "scale, 100 real Pods on one machine: envctl bench --sandboxes 100 --execs 1 --concurrency %s: success %.2f%%, %.1f s in all; create p50 %.1f s, p99 %.1f s; exec p50 %.0f ms, p99 %.0f ms",
			width, 100*got.Success, got.Seconds, got.Create["p50"]/1000, got.Create["p99"]/1000, got.Exec["p50"], got.Exec["p99"])
	}
	Eventually(t, "their end", func(ctx context.Context) string {
		for _, p := range podsOf(ctx, t, "") {
			if bytes.Contains([]byte(p.Annotations["orchard.dev/spec"]), []byte(`"hundred"`)) {
				return p.Name + " is there"
			}
		}
		return ""
	})
}
