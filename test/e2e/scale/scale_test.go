package scale_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"orchard/test/e2e/figures"
)

// outcome is what envctl bench prints.
type outcome struct {
	Sandboxes, Created, Execs int
	Succeeded                 int     `json:"execs_succeeded"`
	Success                   float64 `json:"success_share"`
	Seconds                   float64
	ExecSeconds               float64 `json:"exec_seconds"`
	PerSecond                 float64 `json:"commands_per_second"`
	Create                    spread  `json:"create_ms"`
	Exec                      spread  `json:"exec_ms"`
	Held                      int
	Errors                    map[string]int
	Left                      []string `json:"left_behind"`
}

type spread struct{ P50, P90, P99, Max float64 }

func (s spread) String() string {
	return fmt.Sprintf("p50 %.0f ms, p90 %.0f ms, p99 %.0f ms", s.P50, s.P90, s.P99)
}

// bench runs envctl bench; on is called when it says that all sandboxes are kept.
func (c controller) bench(t testing.TB, on func(), args ...string) (o outcome) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(c.bin, "envctl"), append([]string{"bench", "--image", "simulated", "-o", "json"}, args...)...)
	cmd.Env = append(os.Environ(), "SANDBOX_BASE_URL="+c.url, "SANDBOX_API_KEY="+c.key)
	var out bytes.Buffer
	said := &watcher{word: "are kept for", on: on}
	cmd.Stdout, cmd.Stderr = &out, said
	err := cmd.Run()
	if jsonErr := json.Unmarshal(out.Bytes(), &o); jsonErr != nil {
		t.Fatalf("envctl bench %v: %v: %s%s", args, err, out.Bytes(), said.all.Bytes())
	}
	if err != nil || o.Success != 1 || len(o.Left) > 0 {
		t.Errorf("envctl bench %v: %v: %d of %d made, %d of %d commands, %d held, errors %v, %d left behind",
			args, err, o.Created, o.Sandboxes, o.Succeeded, o.Execs, o.Held, o.Errors, len(o.Left))
	}
	return o
}

// watcher calls on when it reads word.
type watcher struct {
	word string
	on   func()
	all  bytes.Buffer
}

func (w *watcher) Write(b []byte) (int, error) {
	w.all.Write(b)
	if w.on != nil && bytes.Contains(w.all.Bytes(), []byte(w.word)) {
		w.on()
		w.on = nil
	}
	return len(b), nil
}

// many is how many sandboxes are held open, and ten times what is made at once; hold is for how
// long. Smaller ones are for trying these tests.
func many(t testing.TB) (n int, hold time.Duration) {
	t.Helper()
	n, hold = 10_000, 5*time.Minute
	var err error
	if text := os.Getenv("ORCHARD_SOAK_SANDBOXES"); text != "" {
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	if text := os.Getenv("ORCHARD_SOAK_HOLD"); text != "" {
		if hold, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	return n, hold
}

// scrape asks for the metrics as a Prometheus does, until ctx is done.
func (c controller) scrape(ctx context.Context) {
	tick := time.NewTicker(15 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+"/metrics", nil)
			if err != nil {
				continue
			}
			if resp, err := http.DefaultClient.Do(req); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		}
	}
}

// A thousand sandboxes at once, four commands in each: all succeed.
func TestThousandSandboxes(t *testing.T) {
	if !soaks {
		t.Skip("make soak runs this")
	}
	n, _ := many(t)
	n /= 10
	client := api(t)
	simulate(t, client)
	ns := namespace(t, client)
	c, f := serve(t, client, ns)
	before, err := usageOf(c.pid)
	if err != nil {
		t.Fatal(err)
	}
	o := c.bench(t, nil, "--sandboxes", fmt.Sprint(n), "--execs", "4")
	after, err := usageOf(c.pid)
	if err != nil {
		t.Fatal(err)
	}
	figures.Tell(t, "scale, simulated nodes: envctl bench --sandboxes %d --execs 4: success %.2f%%, %.0f commands/s over %.1f s, %.1f s in all",
		n, 100*o.Success, o.PerSecond, o.ExecSeconds, o.Seconds)
	figures.Tell(t, "  create %v; exec %v", o.Create, o.Exec)
	figures.Tell(t, "  controller: %.1f s of processor, resident %d MiB before, %d MiB at most, %d MiB after", (after.cpu - before.cpu).Seconds(), mib(before.rss), mib(after.peak), mib(after.rss))
	if ran := f.ran.Load(); ran != int64(4*n) {
		t.Errorf("%d commands ran, want %d", ran, 4*n)
	}
	until(t, "nothing left over", func() string { return left(client, ns) })

	o = c.bench(t, nil, "--sandboxes", fmt.Sprint(n), "--execs", "4", "--concurrency", "50")
	figures.Tell(t, "  the same, 50 requests at a time: success %.2f%%, %.0f commands/s; create %v; exec %v", 100*o.Success, o.PerSecond, o.Create, o.Exec)
	until(t, "nothing left over", func() string { return left(client, ns) })
}

// Ten thousand sandboxes held open, by heartbeats: none is lost, and the controller's memory is
// bounded and stays what it is.
func TestTenThousandHeldOpen(t *testing.T) {
	if !soaks {
		t.Skip("make soak runs this")
	}
	const lease = "3m"
	n, hold := many(t)
	client := api(t)
	simulate(t, client)
	ns := namespace(t, client)
	c, f := serve(t, client, ns)
	before, err := usageOf(c.pid)
	if err != nil {
		t.Fatal(err)
	}
	holding, stop := context.WithCancel(t.Context())
	defer stop()
	var memory *series
	var ready usage
	var since time.Time
	beats, expired := int64(0), int64(0)
	o := c.bench(t, func() {
		if ready, err = usageOf(c.pid); err != nil {
			t.Error(err)
		}
		memory, since, beats = sample(holding, c.pid), time.Now(), f.beats.Load()
		go c.scrape(holding)
		time.AfterFunc(hold, func() {
			stop()
			expired = f.expired.Load()
			now, err := usageOf(c.pid)
			if err != nil {
				return // the controller has gone, which the bench tells
			}
			figures.Tell(t, "  held: %d heartbeats, %.1f s of processor, in %v", f.beats.Load()-beats, (now.cpu - ready.cpu).Seconds(), time.Since(since).Round(time.Second))
		})
	}, "--sandboxes", fmt.Sprint(n), "--execs", "1", "--concurrency", "200", "--lease", lease, "--hold", (hold + 5*time.Second).String(), "--lifetime", "3h")
	if memory == nil {
		t.Fatal("the sandboxes were never held")
	}
	after, err := usageOf(c.pid)
	if err != nil {
		t.Fatal(err)
	}
	first, last, most := memory.thirds()
	figures.Tell(t, "scale, simulated nodes: %d held open for %v with leases of %s: success %.2f%%, %.0f creates/s, create %v; exec %v", n, hold, lease, 100*o.Success,
		float64(o.Created)/(o.Seconds-o.ExecSeconds), o.Create, o.Exec)
	figures.Tell(t, "  controller: %.1f s of processor until all were ready; resident %d MiB in the first third of the hold, %d MiB in the last, %d MiB at most, %d MiB after all had ended (peak of all %d MiB)",
		(ready.cpu - before.cpu).Seconds(), mib(first), mib(last), mib(most), mib(after.rss), mib(after.peak))
	if expired > 0 {
		t.Errorf("%d leases ran out while there were heartbeats", expired)
	}
	if most >= 1<<30 {
		t.Errorf("the controller took %d MiB, want less than 1024", mib(most))
	}
	if last > first+first/10 {
		t.Errorf("the controller's memory grew from %d to %d MiB while nothing happened", mib(first), mib(last))
	}
	until(t, "nothing left over", func() string { return left(client, ns) })
}
