// Package rank is one decode rank: it observes its local facts, asks the policies, fills its ballot, and after
// the exchange lets schedule decide and carries the effects out.
//
// The rank holds everything local: page bytes, copies in flight, the receiving end of transfers, the model's
// shard, policy instances. It hands schedule lanes, never facts, and acts on nothing but the effects it gets
// back. A rank is owned by the one goroutine that runs its tick:
//
//	v, err := r.Prepare(now)     // observe, ask, fill
//	err = exchange.Min(ctx, v)   // one exchange
//	err = r.Commit()             // apply, effects
//	err = r.StepModel()          // this rank's share of the step
//	r.SetTokens(tokens)          // what the model's own reduction made of the shares
//
// Policies change between ticks: Stage hands the rank the hooks of the next policy epoch, every ballot reports the highest
// epoch that is ready, and in the tick in which all ranks report one they switch. TakeRetired tells who staged them which
// hooks are out of use.
//
// It may import runtime/schedule, runtime/transfer, runtime/model, kvcache, gpu, collective, abi and internal.
package rank
