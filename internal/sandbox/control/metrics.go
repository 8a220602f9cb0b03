package control

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics are the service's own. No label holds a sandbox, a job, a path or a key.
type metrics struct {
	handler  http.Handler
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	inFlight *prometheus.GaugeVec
}

func newMetrics(rt Runtime) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "orchard_http_requests_total", Help: "Requests answered, by route, method and status.",
		}, []string{"route", "method", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "orchard_http_request_seconds", Help: "Time to answer, waiting for commands included.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800},
		}, []string{"route"}),
		inFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "orchard_http_requests_in_flight", Help: "Requests being answered, by route.",
		}, []string{"route"}),
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(m.requests, m.seconds, m.inFlight, sandboxes{rt})
	m.handler = promhttp.HandlerFor(reg, promhttp.HandlerOpts{})
	return m
}

// knownMethod keeps what a client can invent out of a label.
func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodHead:
		return method
	}
	return "other"
}

func (m *metrics) observe(route, method string, status int, took time.Duration) {
	m.requests.WithLabelValues(route, knownMethod(method), strconv.Itoa(status)).Inc()
	m.seconds.WithLabelValues(route).Observe(took.Seconds())
}

func (m *metrics) serve(w http.ResponseWriter, r *http.Request) error {
	m.handler.ServeHTTP(w, r)
	return nil
}

// sandboxes counts the runtime's sandboxes when it is asked, so that there is nothing
// to keep in step.
type sandboxes struct{ rt Runtime }

var (
	_             prometheus.Collector = sandboxes{}
	sandboxesDesc                      = prometheus.NewDesc("orchard_sandboxes", "Sandboxes by phase.", []string{"phase"}, nil)
)

func (c sandboxes) Describe(ch chan<- *prometheus.Desc) { ch <- sandboxesDesc }

func (c sandboxes) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	states, err := c.rt.List(ctx)
	if err != nil {
		ch <- prometheus.NewInvalidMetric(sandboxesDesc, err)
		return
	}
	count := map[Phase]int{Pending: 0, Ready: 0, Ended: 0}
	for _, st := range states {
		count[st.Phase]++
	}
	for phase, n := range count {
		ch <- prometheus.MustNewConstMetric(sandboxesDesc, prometheus.GaugeValue, float64(n), string(phase))
	}
}
