package metrics

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func scrape(t *testing.T, r *Registry) string {
	t.Helper()
	w := httptest.NewRecorder()
	r.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func TestEverythingIsPresentAtZero(t *testing.T) {
	r := New()
	r.NewCounter("ticks_total", "Ticks.")
	r.NewGauge("queue", "Queue.")
	r.NewCounterFunc("reads_total", "Reads.", func() float64 { return 0 })
	r.NewGaugeFunc("pages", "Pages.", func() float64 { return 0 })
	r.NewCounterVec("rails_total", "Rails.", []string{"rail"}, Each("hold_limit", "starved"))
	r.NewGaugeVec("booked", "Booked.", []string{"tier", "state"}, [][]string{{"l1", "free"}, {"l2", "free"}})
	r.NewHistogram("tick_seconds", "Tick.", []float64{0.001, 0.01})
	r.NewHistogramVec("hook_seconds", "Hook.", []float64{0.001}, []string{"hook"}, Each("gate"))
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	text := scrape(t, r)
	for _, want := range []string{
		"sluice_ticks_total 0", "sluice_queue 0", "sluice_reads_total 0", "sluice_pages 0",
		`sluice_rails_total{rail="hold_limit"} 0`, `sluice_rails_total{rail="starved"} 0`,
		`sluice_booked{state="free",tier="l1"} 0`, `sluice_booked{state="free",tier="l2"} 0`,
		"sluice_tick_seconds_count 0", `sluice_hook_seconds_count{hook="gate"} 0`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("missing: %s\n%s", want, text)
		}
	}
}

func TestValue(t *testing.T) {
	r := New()
	r.NewCounter("ticks_total", "Ticks.").Add(3)
	r.NewGaugeVec("booked", "Booked.", []string{"tier", "state"}, nil).WithLabelValues("l1", "free").Set(7)
	cases := []struct {
		name   string
		labels []string
		want   float64
		ok     bool
	}{
		{"ticks_total", nil, 3, true},
		{"booked", []string{"free", "l1"}, 7, true},
		{"booked", []string{"free", "l2"}, 0, false},
		{"booked", nil, 0, false},
		{"absent", nil, 0, false},
	}
	for _, c := range cases {
		if got, ok := r.Value(c.name, c.labels...); got != c.want || ok != c.ok {
			t.Errorf("%s%v: got %v, %v, want %v, %v", c.name, c.labels, got, ok, c.want, c.ok)
		}
	}
}

// A faulty registration is reported by Err, and the metric it returns still counts.
func TestRegistrationErrors(t *testing.T) {
	cases := []struct {
		name string
		do   func(*Registry) prometheus.Counter
		want string
	}{
		{"name used twice", func(r *Registry) prometheus.Counter {
			r.NewCounter("a_total", "A.")
			return r.NewCounter("a_total", "A.")
		}, "register metric sluice_a_total: "},
		{"bad name", func(r *Registry) prometheus.Counter { return r.NewCounter("\xff", "A.") }, "register metric sluice_"},
		{"too few label values", func(r *Registry) prometheus.Counter {
			return r.NewCounterVec("b_total", "B.", []string{"x"}, [][]string{{}}).WithLabelValues("y")
		}, "register metric sluice_b_total: label values []"},
		{"bounds out of order", func(r *Registry) prometheus.Counter {
			r.NewHistogram("c", "C.", []float64{2, 1})
			return r.NewCounter("d_total", "D.")
		}, "register metric sluice_c: bounds [2 1] are not ascending"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := New()
			c.do(r).Inc()
			if err := r.Err(); err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got %v, want an error that begins with %s", err, c.want)
			}
		})
	}
}

func TestRegistriesShareNothing(t *testing.T) {
	a, b := New(), New()
	a.NewCounter("x_total", "X.").Inc()
	b.NewCounter("x_total", "X.")
	if err := b.Err(); err != nil {
		t.Fatal(err)
	}
	if got, _ := b.Value("x_total"); got != 0 {
		t.Errorf("got %v in the second registry, want 0", got)
	}
}

func TestResolvedCountersAllocateNothing(t *testing.T) {
	c := New().NewCounterVec("x_total", "X.", []string{"l"}, Each("v")).WithLabelValues("v")
	if n := testing.AllocsPerRun(100, c.Inc); n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
}
