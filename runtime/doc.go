// Package runtime is the table of contents of what runs:
//
//   - schedule: the replicated state of a decode group, the layout of its ballot, apply. Pure: it cannot see a
//     local fact. A rank's tick loop owns one Scheduler.
//   - rank: one decode rank. It turns local facts into lanes of the ballot and carries apply's effects out.
//   - transfer: prefill to decode in one process: peers, receivers, staging ring, metadata slots, drain acks.
//   - model: the stand-in for the engine. Its tokens depend on every KV byte it reads.
//   - decode: a live instance, its ranks as goroutines. router: prefill and decode behind one engine, with retries.
//   - server: HTTP over one engine interface.
//   - replay: the same ranks in virtual time; the driver of sluice repro, sluice replay and the random tests.
//
// schedule imports abi, plugins/standard and kvcache/index alone; the others may import what their own package
// comment says. No package outside this folder but cmd/sluice and plugins/kit imports one of them.
//
// One tick, from schedule's side:
//
//	v, err := rank.Prepare(now)   // observe, ask the policies, fill the ballot
//	err = exchange.Min(ctx, v)    // the one exchange
//	err = rank.Commit()           // apply, effects
package runtime
