// Package standard holds the shipped policies, in plain Go over the guest SDK's views.
//
// The same functions run natively, as the reference and as the fallback when a policy faults, and in the one module
// built from the folder wasm. They keep no state and allocate nothing. The package is pure and imports only abi and
// abi/guest; a function's only state is the batch it is given, which its caller owns.
//
//	gate, ok := standard.Gate("restore-gated")
//	status := guest.RunGate(gate, buf)
//
// Gates: restore-gated (a failed restore fails the request once its transfer is done), pending-only (a failed restore
// counts as done, as before the fix), ungated (the raw poll).
// Reserves: until-retired (every promised restore that is not set aside, failed ones included), pending-only (failed
// ones left out, as before the fix), none.
// Admits: fifo-headroom (in order, with head-room for what is admitted; stops at the first that does not fit), greedy
// (everything that is ready).
// Scores: lru (the longest unused goes first), lfu (what the fewest requests found goes first).
package standard
