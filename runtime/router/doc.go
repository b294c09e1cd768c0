// Package router stands in front of one prefill and one decode instance of the same process: it gives each
// request a room, hands it to both, and sends it again where an attempt failed through no fault of its own.
//
// A [Router] is the server.Engine of the whole: an id and a room are unique among its live requests. The room
// that travels is one of its own numbers, a new one for every attempt, so that what comes late for one attempt
// cannot be taken for another's. A failed attempt is repeated, up to a limit, while its client has no token and has
// not asked for an abort: at once, or, where the decode group has ended, as soon as it has formed again, for which
// a call waits a bounded time. The reader of the stream drives that, so a router has no goroutine. Prefill is told of
// every room that ends without being done, so that it keeps no prompt for a client that has left.
//
// [NewLocal] builds everything that `sluice serve` runs from a configuration: devices, tiers, policies, the
// transfer between the two instances, the decode group and the router.
//
// The package may import runtime/decode, transfer, model, rank, schedule and server, kvcache, gpu, plugins and
// internal. A Router owns its table of live requests under one mutex; a [Local] owns what it has built and ends
// it with Close.
//
//	local, err := router.NewLocal(ctx, router.LocalOptions{Config: cfg, Clock: clk, Logger: log, Registry: reg, Plugins: host})
//	if err != nil {
//		return err
//	}
//	defer local.Close(ctx)
//	stream, err := local.Submit(ctx, server.Request{RID: "x", Namespace: "default", Tokens: prompt, MaxNewTokens: 16})
package router
