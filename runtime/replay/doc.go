// Package replay runs a whole decode group in virtual time: real ranks, real pages, real ballots, with every
// delay drawn from one seeded source. A run is a function of its configuration, its requests and its seed.
//
// World is the driver that sluice repro, sluice replay and the random tests share. One goroutine runs all ranks
// in turn, so a run does the same on one core as on many. Trace reads the Mooncake format; Run replays one and
// reports.
//
// StageAt changes policies in the middle of a run: they are ready on each rank at a tick of the caller's choice, and Flips
// says when the ranks switched.
//
// A random run that fails prints its seed, and the seed alone repeats it:
//
//	go test ./runtime/replay -run TestRandomRuns -seed 950
//
// It may import every package but runtime/server and cmd. A World owns its ranks, devices and prefill peer.
package replay
