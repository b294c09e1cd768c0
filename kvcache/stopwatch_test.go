package kvcache

import (
	"slices"
	"time"
)

// stopwatch keeps the last times of one of the things that a benchmark compares.
type stopwatch struct {
	times [4096]time.Duration
	n     int
}

func (s *stopwatch) time(f func()) {
	start := time.Now()
	f()
	s.times[s.n%len(s.times)] = time.Since(start)
	s.n++
}

// median is in seconds.
func (s *stopwatch) median() float64 {
	kept := s.times[:min(s.n, len(s.times))]
	slices.Sort(kept)
	return kept[len(kept)/2].Seconds()
}
