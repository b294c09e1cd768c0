// Package schedule is the replicated decision maker of a decode group: the queues, the layout of the
// ballot, and apply, a pure function of the reduced ballot.
//
// Every rank owns one Scheduler and feeds it the same bytes: the ballot after the MIN exchange, and its own
// proposals, which count only where every rank's were equal. The package imports nothing that could know a
// local fact (a clock, a device, a transport), so two ranks given the same ballots cannot decide differently.
// Local facts enter only as lanes of the ballot, and a transfer poll only as a Vote, which Gate alone can make.
//
// A tick, seen from here:
//
//	shape := s.Shape()                  // same on every rank, a function of replicated state
//	s.FillHeader(&ballot, rank, ready)  // and the rank fills its lanes through the Set methods
//	// ... one exchange ...
//	err := s.Apply(&ballot, proposals, &effects)
//
// State is owned by the tick loop of one rank; nothing here is safe for concurrent use. Nothing exported
// points into the state: inputs are bytes or values, outputs are values or are appended to the caller's slices.
//
// The package may import abi, plugins/standard and kvcache/index, and from the standard library only what
// DESIGN section 4 lists for the pure set.
package schedule
