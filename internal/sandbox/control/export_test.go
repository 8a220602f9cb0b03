package control

import (
	"regexp"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Table is the methods of each route, for the test that holds the document to it.
func (s *Service) Table() map[string][]string { return s.table }

// SetClock makes the service's time a test's. It is called before any request.
func (s *Service) SetClock(now func() time.Time) { s.now, s.keys.now, s.quotas.now = now, now, now }

// OpenAPI is the document.
func OpenAPI() ([]byte, error) { return openapiJSON() }

var fullName = regexp.MustCompile(`fqName: "([^"]+)"`)

// MetricNames is every metric that the service can have, whether there is a value yet or not.
func (s *Service) MetricNames() map[string]bool {
	ch, names := make(chan *prometheus.Desc, 100), map[string]bool{}
	for _, c := range s.metrics.all {
		c.Describe(ch)
	}
	close(ch)
	for d := range ch {
		names[fullName.FindStringSubmatch(d.String())[1]] = true
	}
	return names
}
