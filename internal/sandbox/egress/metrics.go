package egress

import "github.com/prometheus/client_golang/prometheus"

// metrics count without naming a host or a sandbox.
type metrics struct {
	requests    *prometheus.CounterVec
	bytes       *prometheus.CounterVec
	connections prometheus.Gauge
}

func newMetrics() *metrics {
	return &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "orchard_egress_requests_total",
			Help: "Requests to the egress proxy that ended, by result."}, []string{"result"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "orchard_egress_bytes_total",
			Help: "Bytes through tunnels of the egress proxy, by direction seen from the sandbox."}, []string{"direction"}),
		connections: prometheus.NewGauge(prometheus.GaugeOpts{Name: "orchard_egress_connections",
			Help: "Connections through the egress proxy that are open."}),
	}
}

// Collectors are the proxy's metrics, to be registered.
func (p *Proxy) Collectors() []prometheus.Collector {
	return []prometheus.Collector{p.requests, p.bytes, p.connections}
}
