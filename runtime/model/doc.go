// Package model is the stand-in for the engine: who makes tokens while no real model is there.
//
// Its next token is a function of every KV byte the request reads on every rank. A page that is
// wrong on one rank changes that rank's partial sum, so it shows as the same wrong token on all
// ranks, never as ranks that disagree. [Oracle] gives the token that right bytes make, without any
// page, so a test or a replay can tell at once that a byte was wrong.
//
// KV bytes are a function of (namespace, tokens so far, layer, position) alone: prefill writes them
// with [FillPage], decode with [WriteToken], and both give the same bytes. They are cut by shard:
// the bytes of all shards, joined, are the same whatever the number of shards, and so are the
// tokens.
//
// Two layouts share one interface. The full layout keeps Layers x PageSize x BytesPerTokenLayer
// bytes a page, divided by the shards. The stamp layout ([Shape].Stamp) keeps 16 bytes a page,
// whatever the page size: a replay of an hour of traffic then moves real pages at the speed of its
// trace, and a page with another owner, place or length is still seen.
//
// The sum is taken modulo the prime 2^61-1, each 8-byte word times a weight that depends on its
// place (multilinear hashing: Carter and Wegman, 1979). No change of a single byte can leave it as
// it was, and any other change does so once in about 2^61. The token is one of 95 printable ids
// drawn from the sum, so a wrong sum makes the right token by chance once in 95 times, at each
// token anew: a wrong page shows within a token or two.
//
// The package may import gpu and internal/clock. A [Shard] is owned by its rank's goroutine, an
// [Oracle] by its caller; a [Group] is shared by the ranks and locks itself. Pages belong to the
// device.
//
//	shape := model.Shape{Layers: 2, BytesPerTokenLayer: 16, PageSize: 4, Shards: 2}
//	shard, _ := model.NewShard(dev, l1, shape, rank)
//	items := []model.Item{{Request: 7, Row: row, Len: 9, Token: 'x', Prefix: prefix.Next('x')}}
//	_ = shard.Step(items, partial)                // on every rank
//	model.Join([][]uint64{p0, p1}, tokens, 0)     // the model's own reduction
package model
