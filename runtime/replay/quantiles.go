package replay

import "slices"

// Quantiles are nearest-rank quantiles: P99 is the smallest value that at least 99 in 100 of the values do not exceed. All
// are 0 where there is no value.
type Quantiles struct {
	P50 uint64 `json:"p50"`
	P95 uint64 `json:"p95"`
	P99 uint64 `json:"p99"`
	Max uint64 `json:"max"`
}

// quantilesOf sorts values in place.
func quantilesOf(values []uint64) Quantiles {
	n := len(values)
	if n == 0 {
		return Quantiles{}
	}
	slices.Sort(values)
	at := func(percent int) uint64 { return values[(n*percent+99)/100-1] }
	return Quantiles{P50: at(50), P95: at(95), P99: at(99), Max: values[n-1]}
}

// uncached are the prompt tokens of each admitted request that no tier held, so that the prefill peer computed them.
func (w *World) uncached() []uint64 {
	var values []uint64
	for id := uint64(1); id <= w.nextID; id++ {
		if o := w.out[id]; o.Prompt > 0 {
			values = append(values, uint64(o.Prompt-o.Promise))
		}
	}
	return values
}
