// Package transfer moves the KV of a prompt's suffix from a prefill peer to the decode ranks, in one
// process: handshake, promise of a prefix, chunks, a metadata slot whose stamp is written last, and
// drain acks that are separate from the data.
//
// A [Prefill] is one peer, a [Receiver] one decode rank's end. Both are state machines: nothing
// happens but in Pump, which a driver in virtual time calls once a tick and Run calls on messages
// and timers. No call blocks on the other side, and each may come from any goroutine.
//
// What a receiver can be asked about a request is local: its raw poll, whether it is drained, which
// pages the peer may still write. A raw poll of Success is formed here, before any gate: the data
// has all arrived, the peer declares exactly the tokens it was asked for, the stamp is the room, and
// no staged chunk waits to be scattered.
//
// Two ways lead into the pages. Where prefill and decode have as many shards, the peer writes a
// chunk straight into the request's pages (direct). Where they differ it writes into a region of
// the receiver's ring that it was granted, and the receiver scatters that to the pages on a stream
// (staged); a full ring makes the chunk wait.
//
// Every message names the peer's incarnation and the attempt, a number that a receiver gives to a
// request once: what comes late, for a request that was forgotten or from a peer that was fenced, is
// refused, and a page number that has a new owner is protected by its generation besides. A page
// leaves quarantine only when the peer has acknowledged that no write of it is under way, or when
// its right to write was revoked and that has completed.
//
// How fast chunks land and what goes wrong is a [Script]: fixed or seeded pace, delays, losses,
// duplicates, wrong declarations, a peer that dies.
//
// The package may import abi, gpu, internal/clock and runtime/model. A Prefill owns its rooms, a
// Receiver its ring, its slots and its requests' state; pages belong to the device and their numbers
// to the replicated index.
//
//	peer, _ := transfer.NewPrefill(transfer.PrefillOptions{ID: 1, Shape: shape, Ranks: 2, ChunkPages: 4})
//	_ = peer.Connect(rank0, rank1)
//	_ = peer.Submit(transfer.Request{Room: 7, Namespace: "n", Tokens: prompt})
//	rank0.Handshake(7, 1)                          // Bootstrapping
//	peer.Pump(now)                                 // now the rank knows the room
//	rank0.Send(transfer.Info{Request: 1, Room: 7, Peer: 1, Incarnation: 1, PromiseTokens: 8, PromptTokens: 40, Dst: pages})
//	// rank1 likewise; then tick after tick:
//	peer.Pump(now)
//	rank0.Pump(now)
//	rank0.Poll(1) // Transferring ... Success
package transfer
