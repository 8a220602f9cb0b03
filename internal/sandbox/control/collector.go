package control

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// collector tells of the runtime's sandboxes when it is asked, so that there is nothing
// to keep in step. What only grows is summed up from one time it is asked to the next: what
// a sandbox held before the service began is not counted, and every replica counts
// every sandbox, so take the largest of them, not their sum.
type collector struct {
	list   func(context.Context) ([]State, error)
	prices prices
	now    func() time.Time
	begin  time.Time

	mu      sync.Mutex
	known   map[string]counted // by UID
	totals  map[string]usage   // by owner
	toReady prometheus.Histogram
}

// counted is what of one sandbox is in the sums.
type counted struct {
	usage usage
	ready bool
}

var _ prometheus.Collector = (*collector)(nil)

var (
	phaseDesc = prometheus.NewDesc("orchard_sandboxes", "Sandboxes by phase.", []string{"phase"}, nil)
	ownedDesc = prometheus.NewDesc("orchard_sandboxes_live", "Sandboxes that have not ended, by owner.", []string{"owner"}, nil)
	endedDesc = prometheus.NewDesc("orchard_sandboxes_ended", "Sandboxes that ended lately, by reason.", []string{"reason"}, nil)
	cpuDesc   = prometheus.NewDesc("orchard_sandbox_cpu_seconds_total", "Processor seconds that sandboxes held, by owner.", []string{"owner"}, nil)
	memDesc   = prometheus.NewDesc("orchard_sandbox_memory_byte_seconds_total", "Byte seconds of memory that sandboxes held, by owner.", []string{"owner"}, nil)
	gpuDesc   = prometheus.NewDesc("orchard_sandbox_gpu_seconds_total", "GPU seconds that sandboxes held, by owner.", []string{"owner"}, nil)
	costDesc  = prometheus.NewDesc("orchard_sandbox_cost_total", "What priced sandboxes cost, by owner, in units of the currency.", []string{"owner", "currency"}, nil)
)

func newCollector(list func(context.Context) ([]State, error), p prices, now func() time.Time) *collector {
	return &collector{
		list: list, prices: p, now: now, begin: now(), known: map[string]counted{}, totals: map[string]usage{},
		toReady: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "orchard_sandbox_ready_seconds", Help: "Time from a sandbox's acceptance until commands run.",
			Buckets: []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600},
		}),
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{phaseDesc, ownedDesc, endedDesc, cpuDesc, memDesc, gpuDesc, costDesc} {
		ch <- d
	}
	c.toReady.Describe(ch)
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	states, err := c.list(ctx)
	if err != nil {
		ch <- prometheus.NewInvalidMetric(phaseDesc, err)
		return
	}
	phases, owners, reasons := map[string]int{string(Pending): 0, string(Ready): 0, string(Ended): 0}, map[string]int{}, map[string]int{}
	for _, st := range states {
		phases[string(st.Phase)]++
		if st.Phase == Ended {
			reasons[reasonLabel(st.Reason)]++
		} else {
			owners[ownerOf(st)]++
		}
	}
	gauge := func(d *prometheus.Desc, m map[string]int) {
		for label, n := range m {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), label)
		}
	}
	gauge(phaseDesc, phases)
	gauge(ownedDesc, owners)
	gauge(endedDesc, reasons)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sum(states)
	counter := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	for owner, u := range c.totals {
		counter(cpuDesc, u.cpu, owner)
		counter(memDesc, u.memory, owner)
		counter(gpuDesc, u.gpu, owner)
		if c.prices.currency != "" {
			counter(costDesc, float64(u.micros)/1e6, owner, c.prices.currency)
		}
	}
	c.toReady.Collect(ch)
}

// sum counts what states held since they were counted last, and forgets those that the
// runtime has forgotten. The caller holds mu.
func (c *collector) sum(states []State) {
	now := c.now()
	known := make(map[string]counted, len(states))
	for _, st := range states {
		last := c.known[st.UID]
		// A clock that is set back takes nothing away.
		next := counted{c.prices.usage(st, c.begin, now), last.ready || !st.Ready.IsZero()}
		if next.usage.cpu < last.usage.cpu || next.usage.memory < last.usage.memory {
			next.usage = last.usage
		}
		total := c.totals[ownerOf(st)]
		total.add(next.usage.minus(last.usage))
		c.totals[ownerOf(st)] = total
		if next.ready && !last.ready && st.Ready.After(c.begin) {
			c.toReady.Observe(st.Ready.Sub(st.Created).Seconds())
		}
		known[st.UID] = next
	}
	c.known = known
}

// reasons are those that a metric may name; a runtime's others are "other".
var reasons = []string{
	ReasonDeleted, ReasonLifetime, ReasonLease, ReasonShutdown, ReasonNotReady, ReasonRefused, ReasonOOMKilled, ReasonImagePull,
	ReasonStart, ReasonEvicted, ReasonPreempted, ReasonNodeLost, ReasonAgent, ReasonReplaced, ReasonLost,
}

func reasonLabel(reason string) string {
	if slices.Contains(reasons, reason) {
		return reason
	}
	return "other"
}
