package metrics

import (
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
)

// Prefix begins the name of every metric.
const Prefix = "sluice_"

// Registry holds the metrics of one process or one test. Its methods are safe from any goroutine.
type Registry struct {
	registry *prometheus.Registry

	mu   sync.Mutex
	errs []error
}

// New returns an empty registry; it shares nothing with the client library's global one.
func New() *Registry { return &Registry{registry: prometheus.NewRegistry()} }

// Err joins the errors of all registrations so far: a name used twice, a bad name, label values that do not fit.
func (r *Registry) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return errors.Join(r.errs...)
}

// Handler serves the metrics in the text format.
func (r *Registry) Handler() http.Handler {
	return promhttp.HandlerFor(r.registry, promhttp.HandlerOpts{Registry: r.registry})
}

// Gather returns all metrics with their values, sorted by name.
func (r *Registry) Gather() ([]*dto.MetricFamily, error) { return r.registry.Gather() }

// Value is the value of a counter or a gauge, by its name without the prefix and its label values in the order of the
// label names' alphabet. ok is false where there is no such metric.
func (r *Registry) Value(name string, labels ...string) (value float64, ok bool) {
	families, err := r.registry.Gather()
	if err != nil {
		return 0, false
	}
	for _, family := range families {
		if family.GetName() != Prefix+name {
			continue
		}
		for _, m := range family.GetMetric() {
			if !labelled(m, labels) {
				continue
			}
			switch {
			case m.Counter != nil:
				return m.Counter.GetValue(), true
			case m.Gauge != nil:
				return m.Gauge.GetValue(), true
			}
		}
	}
	return 0, false
}

func labelled(m *dto.Metric, want []string) bool {
	if len(m.GetLabel()) != len(want) {
		return false
	}
	for i, label := range m.GetLabel() {
		if label.GetValue() != want[i] {
			return false
		}
	}
	return true
}

// Each makes the preset of a metric with one label from its values.
func Each(values ...string) [][]string {
	preset := make([][]string, len(values))
	for i, v := range values {
		preset[i] = []string{v}
	}
	return preset
}

// NewCounter registers a counter. The name comes without the prefix and, by convention, ends in _total.
func (r *Registry) NewCounter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: Prefix + name, Help: help})
	r.register(name, c)
	return c
}

// NewCounterFunc registers a counter whose value f reads at each scrape. f must be safe from any goroutine, and must
// never return less than before.
func (r *Registry) NewCounterFunc(name, help string, f func() float64) {
	r.register(name, prometheus.NewCounterFunc(prometheus.CounterOpts{Name: Prefix + name, Help: help}, f))
}

// NewGauge registers a gauge at 0.
func (r *Registry) NewGauge(name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: Prefix + name, Help: help})
	r.register(name, g)
	return g
}

// NewGaugeFunc registers a gauge whose value f reads at each scrape. f must be safe from any goroutine.
func (r *Registry) NewGaugeFunc(name, help string, f func() float64) {
	r.register(name, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: Prefix + name, Help: help}, f))
}

// NewHistogram registers a histogram with the given upper bounds, ascending, in the unit that the name ends in.
func (r *Registry) NewHistogram(name, help string, bounds []float64) prometheus.Histogram {
	if !ascending(bounds) {
		r.fail(name, fmt.Errorf("bounds %v are not ascending", bounds))
		bounds = nil
	}
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: Prefix + name, Help: help, Buckets: bounds})
	r.register(name, h)
	return h
}

// NewCounterVec registers a counter with labels; each row of preset is one set of label values that is present at 0.
func (r *Registry) NewCounterVec(name, help string, labels []string, preset [][]string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: Prefix + name, Help: help}, labels)
	r.register(name, v)
	r.preset(name, preset, func(row []string) error { _, err := v.GetMetricWithLabelValues(row...); return err })
	return v
}

// NewGaugeVec registers a gauge with labels; preset as in NewCounterVec.
func (r *Registry) NewGaugeVec(name, help string, labels []string, preset [][]string) *prometheus.GaugeVec {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: Prefix + name, Help: help}, labels)
	r.register(name, v)
	r.preset(name, preset, func(row []string) error { _, err := v.GetMetricWithLabelValues(row...); return err })
	return v
}

// NewHistogramVec registers a histogram with labels; bounds as in NewHistogram and preset as in NewCounterVec.
func (r *Registry) NewHistogramVec(name, help string, bounds []float64, labels []string, preset [][]string) *prometheus.HistogramVec {
	if !ascending(bounds) {
		r.fail(name, fmt.Errorf("bounds %v are not ascending", bounds))
		bounds = nil
	}
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: Prefix + name, Help: help, Buckets: bounds}, labels)
	r.register(name, v)
	r.preset(name, preset, func(row []string) error { _, err := v.GetMetricWithLabelValues(row...); return err })
	return v
}

// Register adds a collector that a part brings itself, such as device telemetry whose metrics come and go.
func (r *Registry) Register(name string, c prometheus.Collector) { r.register(name, c) }

func (r *Registry) register(name string, c prometheus.Collector) {
	if err := r.registry.Register(c); err != nil {
		r.fail(name, err)
	}
}

func (r *Registry) preset(name string, rows [][]string, touch func([]string) error) {
	for _, row := range rows {
		if err := touch(row); err != nil {
			r.fail(name, fmt.Errorf("label values %q: %w", row, err))
		}
	}
}

func (r *Registry) fail(name string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs = append(r.errs, fmt.Errorf("register metric %s%s: %w", Prefix, name, err))
}

// ascending reports whether the client library takes the bounds; it panics on others.
func ascending(bounds []float64) bool {
	for i := 1; i < len(bounds); i++ {
		if !(bounds[i-1] < bounds[i]) {
			return false
		}
	}
	return true
}
