// Package decode is one live decode instance: the ranks of a group as goroutines of this process, and the
// engine that the HTTP server sees of them.
//
// A rank's goroutine repeats one tick: prepare the ballot, one exchange, commit, this rank's share of the model
// step, the model's own reduction, its tokens. Rank 0 paces the group: while there is something to do a tick
// starts at least Pace after the one before, an idle group waits for work or for IdleTick. The other ranks meet
// it at the exchange.
//
// # The way in
//
// A request is written down as a message of the ingress stream on its client's goroutine, and only numbered and handed
// to rank 0's leader under the mutex, which the tick needs too. Until a ballot has carried, or been promised, a byte of
// the message, an abort or a closed stream takes it back: the request ends here, and the group never hears of it. What
// waits in the stream is bounded in bytes, by Options.StreamBytes; beyond that requests are refused as a full queue is.
//
// # Failure
//
// Ranks that disagree (a bug, a flipped bit) are found by the next exchange before anything of it is used, and made
// equal again by a resync: a request stays where its record is equal on all ranks, the others are answered with 503
// (reason "dropped by resync"), and pages that any rank named for them are held until every rank has drained them.
//
// A rank that does not come to the exchange in time, a rank whose code panics, and ranks that a resync cannot make
// equal or that part too often end the group: readiness goes down with the reason, what was in flight is answered
// with 503, and once every rank's goroutine is back the group forms again under the next epoch from empty state (new
// arenas, new transfer ends under a new incarnation, fresh policy instances, an empty cache), so that nothing of the
// old one can be written by, or read as, the new. A rank that never comes back keeps readiness down, and the reason
// names it. A group that ends too often stays down and says so.
//
// # Policies
//
// With Options.Policies the instance makes its policies itself, one plugins.Set a rank, and changes them while it runs:
// Stage builds a set beside the one in use, off the tick, and refuses what is wrong with it; Activate offers it to the
// ranks, which report it in their ballots and switch in one tick; Rollback does the same with the set before, whose
// instances are kept as they were left. A staged set may have a shadow run first: instances of its own answer copies of
// the batches that the ranks' policies answer, on a goroutine of its own, and what differs is counted; no tick waits for
// it. At most four sets are staged; what is older than the predecessor is closed. A
// rank that does not take a set in by the deadline is named, and the change is withdrawn on all. A set stands for its own
// hooks: the others follow what is active when it is activated. A group that forms again gets fresh instances of the
// active policies. What answers in a faulty policy's place, and when nothing runs for long, stays the shipped policies
// that the group was configured with.
//
// # Imports and owners
//
// The package may import runtime/rank, schedule, server, transfer and model, kvcache, collective, gpu, plugins
// and internal. [Instance] owns the table of live requests under one mutex; a [Formation] and everything in it
// belong to the rank goroutines of its epoch, and its Close runs after they have ended. A rank publishes what
// metrics and probes read as one copied struct a tick. Policy sets are owned as the comment of type policies says.
//
// # Example
//
//	in, err := decode.New(decode.Options{
//		Schedule: cfg, Form: form, Clock: clk, Logger: log, Registry: reg,
//		IdleTick: 20 * time.Millisecond, Deadline: 2 * time.Second, Pace: time.Millisecond,
//	})
//	if err != nil {
//		return err
//	}
//	defer in.Close(ctx)
//	stream, err := in.Submit(ctx, server.Request{RID: "x", Tokens: prompt, MaxNewTokens: 16})
package decode
