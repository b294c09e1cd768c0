// Package kvcache is the part of the cache that is local to a rank: the bytes of the pages, the
// copies between tiers, and the checksums that say whether a copy is what it was.
//
// # Local and replicated
//
// Which pages exist, what they hold, who may use them and which go next are questions for every
// rank at once; package index answers them, as pure data, with the same page numbers on every rank.
// Whether a copy worked is a question for one rank, and is answered here. The two meet only by way
// of the ballot: apply hands out page numbers and orders an operation, each rank carries it out in
// its [Store], the [Result] goes into that rank's next ballot, and the minimum over ranks of the
// leading good pages is what apply believes. So nothing here decides anything. In particular a load
// that fails frees no page and forgets no copy; that is apply's to do, on all ranks in one tick.
//
// For the same reason an operation that cannot even start still ends with a Result, of no good
// page: its place in the order of operations is agreed, and a rank that left it out would answer
// for the wrong one from then on.
//
// # Tiers
//
// L1 is the device arena that the model reads, L2 a pinned host arena, L3 storage. A page that
// leaves L1 (a backup, or a save when a request is retracted) is summed as it is copied, and the
// sum is kept beside its L2 page; a load back sums it again and stops at the first page that
// differs. [Storage] is L3: keyed pages in a store that may be slow, absent or wrong; [NoStorage]
// is the one that holds nothing.
//
// # Who owns what
//
// The device owns memory and the generations of pages; the caller sets them (gpu.Device.Assign)
// before it names a page in an operation. A Store owns the sums of its L2 arena, its two streams and
// its operations in flight, and belongs to the goroutine of its rank's tick. It may be asked for its
// counters by anyone.
//
// The package may import the standard library, gpu and its own index; never runtime.
//
// A page out and back:
//
//	s, err := kvcache.New(kvcache.Options{Device: dev, L1: l1, L2: l2, PageTokens: 64})
//	if err != nil {
//		return err
//	}
//	s.StartBackup(1, []gpu.Ref{inL1}, []gpu.Ref{inL2})
//	// a later tick:
//	results = s.Poll(results[:0]) // {Op: 1, Kind: Backup, Good: 1}
//	s.StartLoad(2, []gpu.Ref{inL2}, []gpu.Ref{elsewhereInL1})
package kvcache
