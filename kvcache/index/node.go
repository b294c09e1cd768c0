package index

import (
	"hash/maphash"
	"slices"
)

// node is an edge of the tree: a run of pages below parent. Its tokens, L1 and L2 numbers are slices that
// only nodes share, and only as disjoint halves of what was one node.
type node struct {
	tokens []uint32
	l1, l2 []Page // nil = none; l2 is the destination of a copy while save != 0
	key    uint64 // of the child table: page hash and parent
	page   uint64 // hash of the first page alone
	clock  uint64
	hits   uint64
	score  uint64 // see rank.key
	name   string // canonical key; roots only

	parent, first, next, prev NodeID

	start int32 // pages before this edge
	pages int32
	locks int32 // receipts at this node or below
	kids1 int32 // children that are on L1, valid or loading
	heap  int32 // place in its heap plus one
	cut   int32 // L1 numbers at or above the usable mark
	back  int32 // pages of the array behind tokens

	load, save OpID // load stays set on the rest of an ended load
	state      L1State
	in         uint8 // 0 = in no heap, else its tier plus one
	class      uint8 // of the eviction order
	doomed     bool  // the L2 numbers go when the operation that uses them ends
	live       bool
	owner      uint16 // see SetOwner
	found      uint32 // see NoteFound
}

func (n *node) isRoot() bool { return n.pages == 0 }

// backed reports whether the node has an L2 copy that may be used.
func (n *node) backed() bool { return n.l2 != nil && n.save == 0 && !n.doomed }

// dead reports whether the node has no numbers in either tier.
func (n *node) dead() bool { return n.state == L1None && n.l2 == nil && n.pages > 0 }

// matchable reports whether a match may go through the node. Set-aside numbers whose copy was dropped can
// never become valid, so nobody may join them.
func (n *node) matchable() bool { return n.state == L1Valid || n.backed() }

func (x *Index) node(id NodeID) (*node, error) {
	if int(id) >= len(x.nodes) || !x.nodes[id].live {
		return nil, errNode(id)
	}
	return &x.nodes[id], nil
}

func (x *Index) newNode() NodeID {
	if k := len(x.spare); k > 0 {
		id := x.spare[k-1]
		x.spare = x.spare[:k-1]
		x.nodes[id] = node{live: true}
		return id
	}
	x.nodes = append(x.nodes, node{live: true})
	return NodeID(len(x.nodes) - 1)
}

func (x *Index) freeNode(id NodeID) {
	x.nodes[id] = node{}
	x.spare = append(x.spare, id)
}

func (x *Index) hashPage(page []uint32) uint64 {
	if x.pageHash != nil {
		return x.pageHash(page)
	}
	return maphash.Bytes(x.seed, asBytes(page))
}

func childKey(page uint64, parent NodeID) uint64 { return fold(page^mulC, mulA) ^ uint64(parent)*mulB }

// newLeaf adds a child of parent that holds copies of tokens and of the L1 numbers.
func (x *Index) newLeaf(parent NodeID, tokens []uint32, pages []Page) NodeID {
	id := x.newNode()
	n, p := &x.nodes[id], &x.nodes[parent]
	n.tokens = slices.Clone(tokens)
	n.parent = parent
	n.start = p.start + p.pages
	n.pages = int32(len(pages))
	n.back = n.pages
	n.page = x.hashPage(n.tokens[:x.pageSize])
	n.key = childKey(n.page, parent)
	n.next = p.first
	if p.first != 0 {
		x.nodes[p.first].prev = id
	}
	p.first = id
	x.table.add(n.key, id)
	x.stats.Nodes++
	x.setL1(id, slices.Clone(pages), L1Valid)
	x.refresh(parent)
	return id
}

// split cuts the edge of id after k pages, 0 < k < pages. The upper half is a new node, which it returns;
// the lower half keeps the id, so receipts, operation tails and held ids stay good. Both halves have the
// locks, and an operation on the node now runs over both.
func (x *Index) split(id NodeID, k int) NodeID {
	up := x.newNode()
	u, n := &x.nodes[up], &x.nodes[id]
	*u = *n
	cut := k * x.pageSize
	u.tokens, n.tokens = n.tokens[:cut:cut], n.tokens[cut:]
	if n.l1 != nil {
		u.l1, n.l1 = n.l1[:k:k], n.l1[k:]
	}
	if n.l2 != nil {
		u.l2, n.l2 = n.l2[:k:k], n.l2[k:]
	}
	u.pages, n.pages = int32(k), n.pages-int32(k)
	n.start += int32(k)
	if n.cut > 0 {
		u.cut = int32(x.books[L1].above(u.l1))
		n.cut -= u.cut
	}

	// A node with a child on the same tier is no leaf, so the upper half is in no heap, and the lower half
	// is in one if the whole was.
	u.in, u.heap = 0, 0
	u.first, u.kids1 = id, 0
	if n.state != L1None {
		u.kids1 = 1
	}
	if u.prev != 0 {
		x.nodes[u.prev].next = up
	} else {
		x.nodes[u.parent].first = up
	}
	if u.next != 0 {
		x.nodes[u.next].prev = up
	}
	n.parent, n.prev, n.next = up, 0, 0
	x.table.swap(u.key, id, up)
	n.page = x.hashPage(n.tokens[:x.pageSize])
	n.key = childKey(n.page, up)
	x.table.add(n.key, id)

	u.shrink()
	n.shrink()
	x.stats.Nodes++
	x.stats.Splits++
	x.structure++
	x.record(opSplit, uint64(up)<<32|uint64(id), uint64(k))
	return up
}

// shrink copies what the node holds once it is a small part of the array behind it, so that a short node
// does not keep a long array alive: at most four times what is in use is held.
func (n *node) shrink() {
	if 4*n.pages >= n.back {
		return
	}
	n.tokens = slices.Clone(n.tokens)
	n.l1 = slices.Clone(n.l1)
	n.l2 = slices.Clone(n.l2)
	n.back = n.pages
}

// setL1 gives a node without L1 numbers the numbers pages, which the tier already books as in the tree.
func (x *Index) setL1(id NodeID, pages []Page, st L1State) {
	n := &x.nodes[id]
	n.l1, n.state = pages, st
	n.cut = int32(x.books[L1].above(pages))
	x.nodes[n.parent].kids1++
	if st == L1Loading {
		x.treeLoading += len(pages)
	} else if n.locks == 0 {
		x.evictable += len(pages)
		x.evictableCut += int(n.cut)
	}
	x.refresh(id)
	x.refresh(n.parent)
}

// dropL1 takes the L1 numbers off a node and returns how many went to the free list.
func (x *Index) dropL1(id NodeID) int {
	n := &x.nodes[id]
	if n.state == L1Loading {
		x.treeLoading -= len(n.l1)
	} else if n.locks == 0 {
		x.evictable -= len(n.l1)
		x.evictableCut -= int(n.cut)
	}
	freed := x.giveTree(L1, n.l1)
	n.l1, n.state, n.cut = nil, L1None, 0
	x.nodes[n.parent].kids1--
	return freed
}

func (x *Index) dropL2(id NodeID) int {
	n := &x.nodes[id]
	freed := x.giveTree(L2, n.l2)
	n.l2, n.doomed = nil, false
	return freed
}

func (x *Index) giveTree(t Tier, pages []Page) int {
	b := &x.books[t]
	b.tree -= len(pages)
	return b.give(pages)
}

// refresh puts a node into the heap it belongs to now, or takes it out.
func (x *Index) refresh(id NodeID) {
	n := &x.nodes[id]
	want := uint8(0)
	if n.locks == 0 && n.pages > 0 {
		switch {
		case n.state == L1Valid && n.kids1 == 0:
			want = 1 + uint8(L1)
		case n.state == L1None && n.l2 != nil && n.first == 0:
			want = 1 + uint8(L2)
		}
	}
	if n.in == want {
		return
	}
	if n.in != 0 {
		x.heapRemove(&x.heaps[n.in-1], id)
	}
	if n.in = want; want != 0 {
		x.heapPush(&x.heaps[want-1], id)
	}
}

// removeSubtree removes an unlocked node and all below it, and returns the pages of each tier that left the
// tree for the free list. Deepest nodes go first, siblings in list order.
func (x *Index) removeSubtree(top NodeID) (freed [tiers]int) {
	x.record(opRemove, uint64(top), 0)
	t := &x.nodes[top]
	parent := t.parent
	if t.prev != 0 {
		x.nodes[t.prev].next = t.next
	} else {
		x.nodes[parent].first = t.next
	}
	if t.next != 0 {
		x.nodes[t.next].prev = t.prev
	}
	for cur := top; ; {
		for x.nodes[cur].first != 0 {
			cur = x.nodes[cur].first
		}
		up, next := x.nodes[cur].parent, x.nodes[cur].next
		x.removeNode(cur, &freed)
		if cur == top {
			break
		}
		x.nodes[up].first = next
		if cur = next; cur == 0 {
			cur = up
		}
	}
	x.structure++
	x.refresh(parent)
	return freed
}

func (x *Index) removeNode(id NodeID, freed *[tiers]int) {
	n := &x.nodes[id]
	if n.in != 0 {
		x.heapRemove(&x.heaps[n.in-1], id)
	}
	if n.l1 != nil {
		freed[L1] += x.dropL1(id)
	}
	if n.l2 != nil {
		freed[L2] += x.dropL2(id)
	}
	x.table.remove(n.key, id)
	x.freeNode(id)
	x.stats.Nodes--
	x.stats.Removed++
}

// recut counts the L1 numbers at or above the usable mark again, after it has moved.
func (x *Index) recut() {
	x.evictableCut = 0
	for i := range x.nodes {
		n := &x.nodes[i]
		n.cut = int32(x.books[L1].above(n.l1))
		if n.state == L1Valid && n.locks == 0 {
			x.evictableCut += int(n.cut)
		}
	}
}

// reachableL2 counts the L2 numbers that Evict(L2) can free now: those of unlocked nodes that are not on L1
// and have nothing else below them.
func (x *Index) reachableL2() int {
	blocked := make([]bool, len(x.nodes))
	for i := range x.nodes {
		n := &x.nodes[i]
		if !n.live || n.locks == 0 && n.state == L1None && n.l2 != nil {
			continue
		}
		for id := NodeID(i); id != 0 && !blocked[id]; id = x.nodes[id].parent {
			blocked[id] = true
		}
	}
	pages := 0
	for i := range x.nodes {
		if n := &x.nodes[i]; n.live && !blocked[i] {
			pages += len(n.l2)
		}
	}
	return pages
}
