// Package guest is the Go SDK for policies: typed views over a batch, the same natively and in WebAssembly.
//
// A policy is a function from a batch to a status. It reads records through views, writes its answers through views,
// and allocates nothing:
//
//	func gate(b guest.GateBatch) int32 {
//		for i := range b.Len() {
//			r := b.At(i)
//			vote := r.RawPoll()
//			if vote == abi.PollSuccess && r.Restore() == abi.RestorePending {
//				vote = abi.PollTransferring
//			}
//			b.SetVote(i, vote)
//		}
//		return int32(abi.StatusOK)
//	}
//
// Natively it is called with OpenGate over a host's buffer, so plain "go test" and a debugger work. Compiled to a module,
// it is registered with one of the packages below export, which hold the exported functions and the arenas.
//
// The package is pure and imports only abi. It owns nothing: a view aliases the bytes of its batch and is good for one
// call. A record index out of range panics, which in a module is a trap: the host then answers natively.
package guest
