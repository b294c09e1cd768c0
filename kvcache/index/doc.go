// Package index is the replicated part of the cache, as pure data: a radix tree over tokens at page
// granularity, the page numbers of the device tier (L1) and the host tier (L2) with their booked states, the
// books, locks with receipts, and leaf-first eviction by a logical clock or by score keys.
//
// It knows nothing of bytes. Every rank keeps an Index of its own and makes the same calls in the same order
// (inside apply), so every rank hands out the same numbers and picks the same victims, whatever happened to
// the bytes of a page there; Digest proves it at O(1).
//
// It imports the pure set's part of the standard library only and nothing of this module, starts no
// goroutine, and hands out no pointer, slice or function into its state. An Index has one owner, the
// scheduler of one rank, and no lock of its own.
//
// # Pages
//
// A number is always in exactly one place: on the free list, held by a caller (Private, Loading, Saving,
// Quarantined: Alloc and Move), or held by one node. The booked state of a node's number follows from the
// node: under a backup it is Saving on L1 and Loading on L2, under a load Loading on L1, else Evictable when
// no lock is on the node, else Locked.
//
//	Alloc -> Private -> Insert -> node -> Evict -> free list
//	              \-> Move(Quarantined) -> Move(Free) -> free list
//
// # Nodes
//
// A node is a run of pages. It is valid on L1, loading on L1, or not on L1; and in L2 or not. A node with
// neither is dead: it matches nothing and goes with its last lock. A lock on a node locks its path to the
// root, and a locked node loses neither tier's copy (but for DropCopies). A split gives the upper half a new
// id, so a held id, receipt or operation stays good and means the same path as before.
//
// # A request's way through the index
//
//	x, _ := index.New(index.Config{PageSize: 4, L1Pages: 16, L2Pages: 16})
//	s := x.Space(index.Key{Namespace: "t", Fingerprint: "m", Layout: "p4"}.AppendCanonical(nil))
//	m := x.Match(s, tokens)                                 // 3 pages, 2 of them on L1, so Owed is 1
//	lock, node, _ := x.Pin(s, tokens, m.Pages, clock)       // promised: nothing of it can go now
//	for _, id := range x.AppendPath(nil, node) {            // restore, root side first
//		if n, _ := x.Node(id); n.L1 == index.L1None {
//			op, err := x.StartLoad(id)                      // ErrShort: Evict first
//		}
//	}
//	rest, _ := x.EndLoad(op, good)                          // the outcome all ranks agreed on
//	table := x.AppendPages(nil, index.L1, node)             // the prefix is the tree's
//	table, _ = x.Alloc(index.L1, suffix, index.Private, table)
//	res, _ := x.Insert(s, tokens, table, m.Pages, clock)    // finished: publish, duplicates re-pointed
//	_ = x.Move(index.L1, table[max(res.Published, m.Pages):], index.Private, index.Free)
//	_ = x.Unpin(lock)
package index
