// Package internal is the table of contents of what every folder but the pure set may import: config (one
// validation for file, flags and environment), clock (real and virtual time), metrics (one registry, passed in),
// log (slog), text (what others wrote, made fit to be shown), files, and archtest (the import rules of DESIGN
// section 4 as a test). None holds global state; whoever makes a clock, a logger or a registry owns it and passes
// it on:
//
//	reg := metrics.New()
//	hits := reg.NewCounterVec("hit_tokens_total", "...", []string{"tier"}, metrics.Each("l1", "l2"))
package internal
