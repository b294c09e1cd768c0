package index

// Classes of the eviction order. Without a score policy every node is unasked, so the order is plain LRU.
const (
	unasked  = iota // not shown to the score policy of this epoch, nor used since it began: first, by clock
	scored          // has a key of this epoch: by key, then clock
	awaiting        // used in this epoch and not yet scored: last
)

// rank is the place of a node in the eviction order; the smallest goes first. Ids make it total.
type rank struct {
	key   uint64 // score key with its sign bit flipped; 0 unless class is scored
	clock uint64
	class uint32
	id    NodeID
}

func (a *rank) less(b *rank) bool {
	if a.class != b.class {
		return a.class < b.class
	}
	if a.key != b.key {
		return a.key < b.key
	}
	if a.clock != b.clock {
		return a.clock < b.clock
	}
	return a.id < b.id
}

func (x *Index) rankOf(id NodeID) rank {
	n := &x.nodes[id]
	return rank{key: n.score, clock: n.clock, class: uint32(n.class), id: id}
}

// leafHeap is an indexed binary heap of the nodes that eviction of one tier may take now. A node is in at
// most one heap, and node.heap holds its place there plus one.
type leafHeap struct{ e []rank }

func (x *Index) heapPush(h *leafHeap, id NodeID) {
	h.e = append(h.e, rank{})
	x.heapUp(h, len(h.e)-1, x.rankOf(id))
}

// heapFix moves id to its place after its rank has changed.
func (x *Index) heapFix(h *leafHeap, id NodeID) {
	i, r := int(x.nodes[id].heap-1), x.rankOf(id)
	if i > 0 && r.less(&h.e[(i-1)/2]) {
		x.heapUp(h, i, r)
		return
	}
	x.heapDown(h, i, r)
}

func (x *Index) heapRemove(h *leafHeap, id NodeID) {
	i, last := int(x.nodes[id].heap-1), len(h.e)-1
	r := h.e[last]
	h.e = h.e[:last]
	x.nodes[id].heap = 0
	if i == last {
		return
	}
	if i > 0 && r.less(&h.e[(i-1)/2]) {
		x.heapUp(h, i, r)
		return
	}
	x.heapDown(h, i, r)
}

// heapUp places r at i or above it; the entry at i is free to be overwritten.
func (x *Index) heapUp(h *leafHeap, i int, r rank) {
	for i > 0 {
		p := (i - 1) / 2
		if !r.less(&h.e[p]) {
			break
		}
		x.heapPut(h, i, h.e[p])
		i = p
	}
	x.heapPut(h, i, r)
}

func (x *Index) heapDown(h *leafHeap, i int, r rank) {
	for {
		c := 2*i + 1
		if c >= len(h.e) {
			break
		}
		if c+1 < len(h.e) && h.e[c+1].less(&h.e[c]) {
			c++
		}
		if !h.e[c].less(&r) {
			break
		}
		x.heapPut(h, i, h.e[c])
		i = c
	}
	x.heapPut(h, i, r)
}

func (x *Index) heapPut(h *leafHeap, i int, r rank) {
	h.e[i] = r
	x.nodes[r.id].heap = int32(i + 1)
}
