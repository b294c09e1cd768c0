package index

import "slices"

// Checksum hashes the complete present state: free lists in order, states and generations of pages, the spare
// ids, every node with its tokens, numbers, links, clocks and operations, and every lock. Two instances with
// equal checksums answer any further calls alike. It costs a walk of everything.
func (x *Index) Checksum() uint64 {
	h := step(mulA, uint64(x.pageSize), uint64(len(x.nodes)))
	for t := range x.books {
		b := &x.books[t]
		h = step(h, uint64(b.usable), uint64(b.free))
		for i := range b.free {
			h = step(h, uint64(b.ring[(b.head+i)%len(b.ring)]), 0)
		}
		for p, st := range b.state {
			h = step(h, uint64(st), uint64(b.gen[p]))
		}
	}
	for s, root := range x.spaces {
		h = step(h, uint64(s), uint64(root))
	}
	h = step(h, hashWords(x.spare), hashWords(x.spareLocks))
	for id := range x.nodes {
		if n := &x.nodes[id]; n.live {
			h = step(n.sum(h), uint64(id), 0)
		}
	}
	for _, l := range x.locks {
		h = step(h, l.serial, uint64(l.node))
	}
	ops := make([]OpID, 0, len(x.ops))
	for id := range x.ops {
		ops = append(ops, id)
	}
	slices.Sort(ops)
	for _, id := range ops {
		rec := x.ops[id]
		h = step(h, uint64(id), uint64(rec.kind)<<1|bit(rec.ended))
		h = step(h, uint64(rec.tail)<<32|uint64(rec.pages), rec.lock.serial)
	}
	return step(step(h, x.lockSerial, uint64(x.lastOp)), bit(x.scoring), 0)
}

func (n *node) sum(h uint64) uint64 {
	h = step(h, hashWords(n.tokens), hashText([]byte(n.name)))
	h = step(h, hashWords(n.l1), hashWords(n.l2))
	h = step(h, uint64(n.parent)<<32|uint64(n.first), uint64(n.next)<<32|uint64(n.prev))
	h = step(h, uint64(n.start)<<32|uint64(n.pages), uint64(n.locks))
	h = step(h, n.clock, n.hits)
	h = step(h, uint64(n.load)<<32|uint64(n.save), n.score)
	h = step(h, uint64(n.owner), uint64(n.found))
	return step(h, uint64(n.state)<<16|uint64(n.class)<<8|bit(n.doomed)<<1|bit(n.l2 != nil), 0)
}

func bit(v bool) uint64 {
	if v {
		return 1
	}
	return 0
}
