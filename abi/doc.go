// Package abi is the contract between the host and a policy: what a batch looks like, byte by byte, and which answers
// are well-formed.
//
// abi.json is the one source. "go run ./abi/gen" writes layout_gen.go (records and their codec), guest/layout_gen.go
// (typed views for policies), the layouts of the C, Rust, AssemblyScript and Zig SDKs in the folders of those names, and
// README.md (every field in words).
//
// The package is pure: it imports nothing of this module, starts no goroutine, keeps no state and allocates nothing on
// the path of a tick. A Batch is a set of views into bytes that the caller owns: guest memory, or a buffer of the host.
// Who made the bytes decides how long the views live; after a guest ran they must be taken again, because its memory
// may have moved.
//
// The host's side of one call:
//
//	buf := make([]byte, abi.BatchSize(abi.Gate, n, n))
//	b, err := abi.Begin(buf, abi.Gate, tick, epoch, n, n)
//	b.PutGateGlobals(&abi.GateGlobals{TimeNS: now})
//	b.PutGate(0, &abi.GateRecord{ReqKey: 7, RawPoll: abi.PollSuccess, Restore: abi.RestoreReady})
//	// ... the policy runs over buf ...
//	if err := abi.CheckGateOut(b, n); err != nil { ... }
//	vote := b.GateOut(0).Vote
package abi
