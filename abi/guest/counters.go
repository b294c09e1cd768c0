package guest

import (
	"encoding/binary"

	"sluice/abi"
)

// CountersBytes is the size of a COUNTERS arena.
const CountersBytes = abi.Counters * counterSize

const counterSize = 8

// Counters is a view of a COUNTERS arena. It is for one goroutine, as a module instance has one thread.
type Counters struct{ p *[CountersBytes]byte }

// OpenCounters takes the view of the COUNTERS arena at the start of buf; false for fewer bytes than it has.
func OpenCounters(buf []byte) (Counters, bool) {
	if len(buf) < CountersBytes {
		return Counters{}, false
	}
	return Counters{(*[CountersBytes]byte)(buf)}, true
}

func (c Counters) at(i int) []byte { return c.p[i*counterSize:][:counterSize] }

// Add raises counter i, 0 <= i < abi.Counters, by n. It wraps after 2^64.
func (c Counters) Add(i int, n uint64) { binary.LittleEndian.PutUint64(c.at(i), c.Get(i)+n) }

// Get reads counter i, 0 <= i < abi.Counters.
func (c Counters) Get(i int) uint64 { return binary.LittleEndian.Uint64(c.at(i)) }
