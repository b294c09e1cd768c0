package index

import "fmt"

// Check walks everything and returns the first broken invariant: one holder for each page number, books that
// sum to the tier, lock counts equal to receipts, heaps that hold exactly the leaves, links, the child table
// and the running counters. It is for tests; it costs a walk of all nodes and pages.
func (x *Index) Check() error {
	c := checker{x: x, locks: make([]int32, len(x.nodes)), ops: make(map[OpID]int)}
	for t := range c.held {
		c.held[t] = make([]NodeID, len(x.books[t].state))
	}
	if err := c.lockCounts(); err != nil {
		return err
	}
	live := 0
	for s, root := range x.spaces {
		if root == 0 {
			continue
		}
		live++
		if x.names[x.nodes[root].name] != SpaceID(s) || x.nodes[root].pages != 0 || x.nodes[root].parent != 0 {
			return fmt.Errorf("space %d: root %d is not its root", s, root)
		}
		if err := c.tree(root); err != nil {
			return fmt.Errorf("space %d: %w", s, err)
		}
	}
	if live != x.stats.Spaces || live != len(x.names) {
		return fmt.Errorf("%d spaces, %d counted, %d named", live, x.stats.Spaces, len(x.names))
	}
	if c.nodes != x.stats.Nodes || c.nodes != x.table.used || c.nodes+live+len(x.spare)+1 != len(x.nodes) {
		return fmt.Errorf("%d nodes and %d roots found; counted %d, in the table %d, spare %d of %d", c.nodes, live, x.stats.Nodes, x.table.used, len(x.spare), len(x.nodes))
	}
	if c.evictable != x.evictable || c.cut != x.evictableCut || c.loading != x.treeLoading || c.saving != x.treeSaving {
		return fmt.Errorf("evictable %d, of it cut %d, loading %d, saving %d; counted %d, %d, %d, %d",
			c.evictable, c.cut, c.loading, c.saving, x.evictable, x.evictableCut, x.treeLoading, x.treeSaving)
	}
	for id, rec := range x.ops {
		if c.ops[id] != rec.pages {
			return fmt.Errorf("operation %d has %d pages, its nodes %d", id, rec.pages, c.ops[id])
		}
	}
	if err := c.heapOrder(); err != nil {
		return err
	}
	for t := range tiers {
		if err := c.pages(t); err != nil {
			return err
		}
	}
	return nil
}

type checker struct {
	x     *Index
	locks []int32 // by node, from the receipts
	held  [tiers][]NodeID
	ops   map[OpID]int

	nodes, evictable, cut, loading, saving int
	inHeap                                 [tiers]int
}

func (c *checker) lockCounts() error {
	live := 0
	for slot, l := range c.x.locks {
		if l.serial == 0 {
			continue
		}
		live++
		if _, err := c.x.node(l.node); err != nil {
			return fmt.Errorf("lock in slot %d: %w", slot, err)
		}
		for id := l.node; id != 0; id = c.x.nodes[id].parent {
			c.locks[id]++
		}
	}
	if live+len(c.x.spareLocks) != len(c.x.locks) {
		return fmt.Errorf("%d live locks and %d spare of %d", live, len(c.x.spareLocks), len(c.x.locks))
	}
	return nil
}

// tree checks id and all below it.
func (c *checker) tree(id NodeID) error {
	x := c.x
	n := &x.nodes[id]
	if !n.live {
		return fmt.Errorf("node %d is linked and not live", id)
	}
	if n.locks != c.locks[id] {
		return fmt.Errorf("node %d has %d locks, receipts make %d", id, n.locks, c.locks[id])
	}
	if n.pages > 0 {
		if err := c.edge(id, n); err != nil {
			return fmt.Errorf("node %d: %w", id, err)
		}
	}
	kids1, prev := int32(0), NodeID(0)
	firsts := make(map[string]NodeID)
	for k := n.first; k != 0; k = x.nodes[k].next {
		m := &x.nodes[k]
		if m.parent != id || m.prev != prev || m.start != n.start+n.pages {
			return fmt.Errorf("node %d: parent %d, previous %d, start %d do not fit below node %d", k, m.parent, m.prev, m.start, id)
		}
		if m.state != L1None {
			kids1++
		}
		prev = k
		if err := c.tree(k); err != nil {
			return err
		}
		first := string(asBytes(m.tokens[:x.pageSize]))
		if other := firsts[first]; other != 0 {
			return fmt.Errorf("nodes %d and %d below %d have the same first page", k, other, id)
		}
		firsts[first] = k
	}
	if kids1 != n.kids1 {
		return fmt.Errorf("node %d counts %d children on L1, has %d", id, n.kids1, kids1)
	}
	return nil
}

func (c *checker) edge(id NodeID, n *node) error {
	x := c.x
	c.nodes++
	pages := int(n.pages)
	switch {
	case len(n.tokens) != pages*x.pageSize:
		return fmt.Errorf("%d tokens for %d pages", len(n.tokens), pages)
	case (n.state == L1None) != (n.l1 == nil) || n.l1 != nil && len(n.l1) != pages:
		return fmt.Errorf("%d L1 numbers, state %s, for %d pages", len(n.l1), n.state, pages)
	case n.l2 != nil && len(n.l2) != pages:
		return fmt.Errorf("%d L2 numbers for %d pages", len(n.l2), pages)
	case n.dead() && n.locks == 0:
		return fmt.Errorf("dead and not locked")
	case (n.load != 0) != (n.state == L1Loading):
		return fmt.Errorf("load %d in state %s", n.load, n.state)
	case n.load != 0 && n.save != 0, n.save != 0 && n.l2 == nil:
		return fmt.Errorf("load %d, save %d, L2 numbers %t", n.load, n.save, n.l2 != nil)
	case n.doomed && !x.busyL2(n):
		return fmt.Errorf("doomed without an operation")
	case n.page != x.hashPage(n.tokens[:x.pageSize]) || n.key != childKey(n.page, n.parent):
		return fmt.Errorf("stale key")
	case 4*n.pages < n.back:
		return fmt.Errorf("%d pages keep an array of %d alive", n.pages, n.back)
	case int(n.cut) != x.books[L1].above(n.l1):
		return fmt.Errorf("%d numbers at or above the usable mark, counted %d", x.books[L1].above(n.l1), n.cut)
	}
	if got, k := x.child(n.parent, n.tokens); got != id || k != pages {
		return fmt.Errorf("the table finds node %d, %d pages", got, k)
	}
	for _, op := range [...]OpID{n.load, n.save} {
		if op == 0 {
			continue
		}
		rec, ok := x.ops[op]
		if !ok || n.locks == 0 {
			return fmt.Errorf("operation %d is unknown or has no lock", op)
		}
		if at, ok := x.Pinned(rec.lock); !ok || at != rec.tail {
			return fmt.Errorf("operation %d: lock at %d, tail %d", op, at, rec.tail)
		}
		c.ops[op] += pages
	}
	want := uint8(0)
	switch {
	case n.state == L1Loading:
		c.loading += pages
	case n.save != 0:
		c.saving += pages
	case n.state == L1Valid && n.locks == 0:
		c.evictable += pages
		c.cut += int(n.cut)
		if n.kids1 == 0 {
			want = 1
		}
	case n.l2 != nil && n.locks == 0 && n.first == 0:
		want = 2
	}
	if n.in != want || (n.heap > 0) != (want > 0) {
		return fmt.Errorf("in heap %d at %d, belongs in %d", n.in, n.heap, want)
	}
	if want > 0 {
		c.inHeap[want-1]++
		if h := &x.heaps[want-1]; int(n.heap) > len(h.e) || h.e[n.heap-1] != x.rankOf(id) {
			return fmt.Errorf("its heap entry is not its own or has another rank")
		}
	}
	for t, numbers := range [...][]Page{n.l1, n.l2} {
		for _, p := range numbers {
			if int(p) >= len(c.held[t]) || c.held[t][p] != 0 {
				return fmt.Errorf("%s page %d is out of range or held twice", Tier(t), p)
			}
			c.held[t][p] = id
		}
	}
	return nil
}

func (c *checker) heapOrder() error {
	for t := range c.x.heaps {
		h := &c.x.heaps[t]
		if len(h.e) != c.inHeap[t] {
			return fmt.Errorf("%s heap holds %d nodes, %d are leaves", Tier(t), len(h.e), c.inHeap[t])
		}
		for i := 1; i < len(h.e); i++ {
			if h.e[i].less(&h.e[(i-1)/2]) {
				return fmt.Errorf("%s heap is out of order at %d", Tier(t), i)
			}
		}
	}
	return nil
}

func (c *checker) pages(t Tier) error {
	b := &c.x.books[t]
	onList := make([]bool, len(b.state))
	for i := range b.free {
		p := b.ring[(b.head+i)%len(b.ring)]
		if onList[p] || b.state[p] != Free {
			return fmt.Errorf("%s page %d is on the free list twice or as %s", t, p, b.state[p])
		}
		onList[p] = true
	}
	var out [Quarantined + 1]int
	cut, tree := 0, 0
	for p, st := range b.state {
		if (st == Free) != onList[p] || (st == inTree) != (c.held[t][p] != 0) {
			return fmt.Errorf("%s page %d is %s, on the free list %t, held by node %d", t, p, st, onList[p], c.held[t][p])
		}
		switch {
		case st == Free && p >= b.usable, st == cutOff && p < b.usable, st == Evictable, st == Locked:
			return fmt.Errorf("%s page %d is %s with usable %d", t, p, st, b.usable)
		case st == cutOff:
			cut++
		case st == inTree:
			tree++
		case st.outside():
			out[st]++
		}
	}
	if out != b.out || cut != b.cut || tree != b.tree {
		return fmt.Errorf("%s holds %v outside, %d cut off, %d in the tree; counted %v, %d, %d", t, out, cut, tree, b.out, b.cut, b.tree)
	}
	k := c.x.Books(t)
	if k.Total() != len(b.state) || min(k.Free, k.Evictable, k.Locked, k.Private, k.Saving, k.Loading, k.Quarantined) < 0 {
		return fmt.Errorf("%s books %+v do not sum to %d", t, k, len(b.state))
	}
	return nil
}
