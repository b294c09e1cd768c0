package counters

import (
	"sluice/abi"
	"sluice/abi/guest"
	"sluice/abi/guest/export"
)

var all, _ = guest.OpenCounters(export.Offer(abi.ArenaCounters, guest.CountersBytes))

// Add raises counter i, 0 <= i < abi.Counters, by n. Another i panics, which in a module is a trap.
func Add(i int, n uint64) { all.Add(i, n) }

// Get reads counter i, 0 <= i < abi.Counters.
func Get(i int) uint64 { return all.Get(i) }
