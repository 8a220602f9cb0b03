package control

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"orchard/agent/wire"
)

// metrics are the service's own. No label holds a sandbox, a job, a path or a key; an
// owner is the name of a key.
type metrics struct {
	all      []prometheus.Collector
	handler  http.Handler
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	inFlight *prometheus.GaugeVec
	execs    *prometheus.HistogramVec
	agents   *prometheus.CounterVec
	refusals *prometheus.CounterVec
	shed     *prometheus.CounterVec
}

// newMetrics are the service's, with those that the runtime has itself (Collectors).
func newMetrics(rt any, sandboxes prometheus.Collector) *metrics {
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
		execs: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "orchard_exec_seconds", Help: "Run time of commands whose clients waited for their end, by how they ended.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600},
		}, []string{"outcome"}),
		agents: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "orchard_agent_errors_total", Help: "Requests to agents that went wrong: unreachable, unsigned or failed.",
		}, []string{"kind"}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "orchard_quota_refusals_total", Help: "Requests refused for a key's quota, by owner.",
		}, []string{"owner", "quota"}),
		shed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "orchard_shed_requests_total", Help: "Requests turned away since too many of their kind were in flight.",
		}, []string{"what"}),
	}
	reg := prometheus.NewRegistry()
	m.all = []prometheus.Collector{m.requests, m.seconds, m.inFlight, m.execs, m.agents, m.refusals, m.shed, sandboxes}
	if own, ok := rt.(interface{ Collectors() []prometheus.Collector }); ok {
		m.all = append(m.all, own.Collectors()...)
	}
	reg.MustRegister(m.all...)
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

// ran counts a job that was waited for, should it have ended.
func (m *metrics) ran(j wire.Job) {
	outcome := ""
	switch {
	case j.Reason == reasonLost, j.Reason == wire.ReasonTimeout, j.Reason == wire.ReasonIdleTimeout, j.Reason == wire.ReasonKilled, j.Reason == wire.ReasonSpawn:
		outcome = j.Reason
	case j.State == wire.Done && j.ExitCode != nil && *j.ExitCode == 0:
		outcome = statusSucceeded
	case j.State == wire.Done || j.State == wire.Failed:
		outcome = statusFailed
	default:
		return
	}
	took := time.Duration(0)
	if j.StartedUS > 0 && j.EndedUS > j.StartedUS {
		took = time.Duration(j.EndedUS-j.StartedUS) * time.Microsecond
	}
	m.execs.WithLabelValues(outcome).Observe(took.Seconds())
}

// watched counts what goes wrong on the way to an agent.
type watched struct {
	http.RoundTripper
	metrics *metrics
}

// RoundTrip implements http.RoundTripper.
func (t watched) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.RoundTripper.RoundTrip(r)
	kind := ""
	switch {
	case err != nil && errors.Is(r.Context().Err(), context.Canceled): // the client left
	case err != nil:
		kind = "unreachable"
	case resp.StatusCode == http.StatusUnauthorized:
		kind = "unsigned"
	case resp.StatusCode >= 500 && resp.StatusCode != http.StatusInsufficientStorage:
		kind = "failed"
	}
	if kind != "" {
		t.metrics.agents.WithLabelValues(kind).Inc()
	}
	return resp, err
}

func (m *metrics) serve(w http.ResponseWriter, r *http.Request) error {
	m.handler.ServeHTTP(w, r)
	return nil
}
