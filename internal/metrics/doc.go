// Package metrics is the one registry of a process.
//
// Every metric is named with the prefix sluice_ and is present from the start: plain ones at 0, labelled ones at 0 for
// each set of label values that is declared with them. A metric belongs to the part that makes it; this package only
// registers and exposes. It may import the standard library and the Prometheus client.
//
// Registering never panics and never returns an error at each call: what went wrong is kept, and Err reports it once,
// when all parts are built. The metric returned works either way.
//
//	r := metrics.New()
//	rails := r.NewCounterVec("rails_total", "Rails tripped, by name.", []string{"rail"},
//		metrics.Each("vote_above_poll", "hold_limit"))
//	holds := rails.WithLabelValues("hold_limit") // once, at the start: resolving labels allocates
//	holds.Inc()
//	err := r.Err()
package metrics
