package standard

import (
	"math"

	"sluice/abi/guest"
)

// clockBits is how many low bits of an lfu key hold the last use; the hits lie above them and stay positive.
const clockBits = 40

// lru evicts what was used longest ago: the key is the clock of the last use.
func lru(b guest.ScoreBatch) int32 {
	for i := range b.Len() {
		b.Set(i, int64(min(b.At(i).LastUse(), math.MaxInt64)))
	}
	return ok
}

// lfu evicts what the fewest requests found, and of those what was used longest ago. Bits 40 to 62 of a key are the hits, up
// to 2^23-1; bits 0 to 39 are the clock of the last use, up to 2^40-1. Beyond
// either keys are equal, and the host orders those by the clock itself.
func lfu(b guest.ScoreBatch) int32 {
	for i := range b.Len() {
		r := b.At(i)
		hits := min(uint64(r.Hits()), 1<<(63-clockBits)-1)
		b.Set(i, int64(hits<<clockBits|min(r.LastUse(), 1<<clockBits-1)))
	}
	return ok
}
