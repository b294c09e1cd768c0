package server

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Outcomes of POST /generate, the values of the label of
// sluice_generate_requests_total: one per HTTP request, whatever its samples.
const (
	outcomeStop         = "stop"         // ended by a stop token
	outcomeLength       = "length"       // ended by its length
	outcomeAborted      = "aborted"      // the engine ended it early, or a client asked it to
	outcomeDisconnected = "disconnected" // the client left
	outcomeStalled      = "stalled"      // the client stopped reading and was cut
	outcomeInvalid      = "invalid"      // refused: malformed, or it can never fit
	outcomeDuplicate    = "duplicate"    // refused: id or room in use
	outcomeQueueFull    = "queue_full"   // refused for now
	outcomeStopping     = "stopping"     // refused or cut because the server stops
	outcomeFailed       = "failed"       // anything else
)

func outcomes() []string {
	return []string{
		outcomeStop, outcomeLength, outcomeAborted, outcomeDisconnected, outcomeStalled,
		outcomeInvalid, outcomeDuplicate, outcomeQueueFull, outcomeStopping, outcomeFailed,
	}
}

// otherPath is the path label of whatever is served by no route.
const otherPath = "other"

type serverMetrics struct {
	requests *prometheus.CounterVec
	inFlight prometheus.Gauge
	generate *prometheus.CounterVec
	paths    map[string]struct{}
}

// newMetrics registers the server's metrics, every series at 0.
func newMetrics(reg prometheus.Registerer, paths []string) (*serverMetrics, error) {
	m := &serverMetrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_http_requests_total",
			Help: "HTTP requests answered, by route and class of status code.",
		}, []string{"path", "code"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sluice_http_in_flight",
			Help: "HTTP requests being served now.",
		}),
		generate: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_generate_requests_total",
			Help: "Requests of /generate that ended, by how they ended.",
		}, []string{"outcome"}),
		paths: make(map[string]struct{}, len(paths)),
	}
	for _, path := range paths {
		m.paths[path] = struct{}{}
	}
	for _, path := range append([]string{otherPath}, paths...) {
		for _, code := range []string{"2xx", "3xx", "4xx", "5xx"} {
			m.requests.WithLabelValues(path, code)
		}
	}
	for _, outcome := range outcomes() {
		m.generate.WithLabelValues(outcome)
	}
	for _, c := range []prometheus.Collector{m.requests, m.inFlight, m.generate} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register the http metrics: %w; give each server a registry of its own", err)
		}
	}
	return m, nil
}

// answered counts one answer. It runs when the status is known, so that a client
// that has read its answer finds it counted.
func (m *serverMetrics) answered(r *http.Request, code int) {
	path := r.Pattern
	if _, after, hasMethod := strings.Cut(path, " "); hasMethod {
		path = after
	}
	if _, known := m.paths[path]; !known {
		path = otherPath
	}
	class := "5xx"
	switch {
	case code < 300:
		class = "2xx"
	case code < 400:
		class = "3xx"
	case code < 500:
		class = "4xx"
	}
	m.requests.WithLabelValues(path, class).Inc()
}

func (m *serverMetrics) ended(outcome string) { m.generate.WithLabelValues(outcome).Inc() }
