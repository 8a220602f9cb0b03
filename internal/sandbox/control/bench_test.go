package control_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"orchard/agent/wire"
	"orchard/internal/seal"
)

// The benchmarks run /bin/true bare, by an agent, and through service and agent, in the same
// run, and report how much each adds.

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// post sends a prepared exec and drops the answer.
func post(b *testing.B, c *http.Client, url string, body []byte) {
	req, err := http.NewRequest("POST", url, bytes.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("X-API-Key", testKey)
	resp, err := c.Do(req)
	if err != nil {
		b.Error(err)
		return
	}
	raw, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || resp.StatusCode != 200 || !strings.Contains(string(raw), `"succeeded"`) {
		b.Errorf("exec: %v, %d %s", err, resp.StatusCode, raw)
	}
}

// askAgent runs a command as the service does, without the service.
func askAgent(b *testing.B, c *http.Client, url string, req wire.ExecRequest) {
	req.ID, req.TimeoutMS = seal.Random(8), time.Minute.Milliseconds()
	body, err := json.Marshal(req)
	if err != nil {
		b.Fatal(err)
	}
	resp, err := c.Post(url+"/v1/jobs?wait=30", "application/json", bytes.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	var job wire.Job
	if err := json.NewDecoder(resp.Body).Decode(&job); err != nil || job.State != wire.Done {
		b.Errorf("the agent: %v, %s: %+v", err, resp.Status, job)
	}
}

// BenchmarkExecOverhead is one command after the other in one sandbox: as a bare fork and
// exec, by its agent alone, and by service and agent.
func BenchmarkExecOverhead(b *testing.B) {
	r := newRig(b, nil)
	id := r.box()
	url := r.url + "/sandboxes/" + id + "/exec"
	trip, agent, err := r.rt.Agent(b.Context(), id)
	if err != nil {
		b.Fatal(err)
	}
	alone := &http.Client{Transport: trip}
	body, err := json.Marshal(obj{"argv": []string{"/bin/true"}, "wait": true})
	if err != nil {
		b.Fatal(err)
	}
	var bare, inside, through []time.Duration
	took := func(into *[]time.Duration, do func()) {
		began := time.Now()
		do()
		*into = append(*into, time.Since(began))
	}
	for b.Loop() {
		took(&bare, func() {
			if err := exec.Command("/bin/true").Run(); err != nil {
				b.Fatal(err)
			}
		})
		took(&inside, func() { askAgent(b, alone, agent, wire.ExecRequest{Argv: []string{"/bin/true"}}) })
		took(&through, func() { post(b, http.DefaultClient, url, body) })
	}
	x, y, z := median(bare), median(inside), median(through)
	b.ReportMetric(float64(x.Microseconds())/1000, "bare-ms")
	b.ReportMetric(float64(y.Microseconds())/1000, "agent-ms")
	b.ReportMetric(float64(z.Microseconds())/1000, "exec-ms")
	b.ReportMetric(float64((z-y).Microseconds())/1000, "added-ms")
	b.ReportMetric(float64(y)/float64(x), "agent-x-bare")
	b.ReportMetric(float64(z)/float64(y), "exec-x-agent")
}

// BenchmarkExecThroughput is 16 sandboxes at once, and for comparison 16 loops of bare
// fork and exec.
func BenchmarkExecThroughput(b *testing.B) {
	const boxes = 16
	r := newRig(b, nil)
	body, err := json.Marshal(obj{"argv": []string{"/bin/true"}, "wait": true})
	if err != nil {
		b.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: boxes}}
	urls := make([]string, boxes)
	for i := range urls {
		urls[i] = r.url + "/sandboxes/" + r.box() + "/exec"
	}
	spread := func(n int, do func(i int)) time.Duration {
		var wg sync.WaitGroup
		var next atomic.Int64
		began := time.Now()
		for i := range boxes {
			wg.Go(func() {
				for next.Add(1) <= int64(n) {
					do(i)
				}
			})
		}
		wg.Wait()
		return time.Since(began)
	}
	b.ResetTimer()
	took := spread(b.N, func(i int) { post(b, client, urls[i], body) })
	b.StopTimer()
	bare := spread(b.N, func(int) {
		if err := exec.Command("/bin/true").Run(); err != nil {
			b.Error(err)
		}
	})
	b.ReportMetric(float64(b.N)/took.Seconds(), "exec/s")
	b.ReportMetric(float64(b.N)/bare.Seconds(), "bare/s")
	b.ReportMetric(took.Seconds()/bare.Seconds(), "x-bare")
}
