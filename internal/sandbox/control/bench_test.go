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
)

// The benchmarks run /bin/true bare and through service and agent, in the same run, and
// report how much the latter adds.

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

// BenchmarkExecOverhead is one command after the other in one sandbox, each next to a
// bare fork and exec of the same program.
func BenchmarkExecOverhead(b *testing.B) {
	r := newRig(b, nil)
	url := r.url + "/sandboxes/" + r.box() + "/exec"
	body, err := json.Marshal(obj{"argv": []string{"/bin/true"}, "wait": true})
	if err != nil {
		b.Fatal(err)
	}
	var bare, through []time.Duration
	for b.Loop() {
		began := time.Now()
		if err := exec.Command("/bin/true").Run(); err != nil {
			b.Fatal(err)
		}
		middle := time.Now()
		post(b, http.DefaultClient, url, body)
		bare, through = append(bare, middle.Sub(began)), append(through, time.Since(middle))
	}
	x, y := median(bare), median(through)
	b.ReportMetric(float64(x.Microseconds())/1000, "bare-ms")
	b.ReportMetric(float64(y.Microseconds())/1000, "exec-ms")
	b.ReportMetric(float64((y-x).Microseconds())/1000, "added-ms")
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
