package index

import "fmt"

// child finds the child of parent whose first page is the first page of rest, and returns it with the whole
// pages that its edge and rest share, at least one. len(rest) is at least a page. No child is 0, 0.
func (x *Index) child(parent NodeID, rest []uint32) (NodeID, int) {
	if x.nodes[parent].first == 0 {
		return 0, 0
	}
	key := childKey(x.hashPage(rest[:x.pageSize]), parent)
	t := &x.table
	for i := key & t.mask(); t.slots[i].id != 0; i = (i + 1) & t.mask() {
		s := &t.slots[i]
		if s.key != key {
			continue
		}
		n := &x.nodes[s.id]
		if n.parent != parent {
			continue
		}
		common := commonPrefix(n.tokens, rest)
		if common >= len(n.tokens) {
			return s.id, int(n.pages)
		}
		if common >= x.pageSize {
			return s.id, common / x.pageSize
		}
		x.stats.Collisions++
	}
	return 0, 0
}

// Match returns what space s holds of the leading floor(len(tokens)/PageSize) pages of tokens. It changes
// nothing (but the collision counter of Stats), not even the clocks, and allocates nothing. The walk stops at
// a page that neither is on L1 nor has an L2 copy, and at set-aside pages whose copy was dropped. An unknown
// space is the zero Match.
func (x *Index) Match(s SpaceID, tokens []uint32) Match {
	cur, err := x.root(s)
	if err != nil {
		return Match{}
	}
	m := Match{Node: cur}
	onL1 := true
	for rest := tokens; len(rest) >= x.pageSize; {
		id, k := x.child(cur, rest)
		if id == 0 {
			break
		}
		n := &x.nodes[id]
		if !n.matchable() {
			break
		}
		m.Node = id
		m.Pages += k
		if n.state == L1None {
			m.Owed += k
		}
		if onL1 = onL1 && n.state == L1Valid; onL1 {
			m.L1 += k
		}
		if n.state == L1Valid && n.locks == 0 {
			m.Takes += k
			if n.cut > 0 {
				m.Takes -= x.books[L1].above(n.l1[:k])
			}
		}
		if k < int(n.pages) {
			break
		}
		rest = rest[k*x.pageSize:]
		cur = id
	}
	return m
}

// Pin locks the path that holds the first pages pages of tokens, splitting its last node when the pages end
// inside it, and touches the path with clock. It returns the receipt and the node that ends the path. Zero
// pages lock the root, which holds nothing in place but is a lock like any other. The error is ErrPath when
// the tree does not match that many pages, ErrRange when tokens are fewer, ErrSpace for an unknown space.
func (x *Index) Pin(s SpaceID, tokens []uint32, pages int, clock uint64) (Receipt, NodeID, error) {
	cur, err := x.root(s)
	if err != nil {
		return Receipt{}, 0, err
	}
	if pages < 0 || pages > len(tokens)/x.pageSize {
		return Receipt{}, 0, fmt.Errorf("pin %d pages of %d tokens: want 0 to %d: %w", pages, len(tokens), len(tokens)/x.pageSize, ErrRange)
	}
	for at := 0; at < pages; {
		id, k := x.child(cur, tokens[at*x.pageSize:pages*x.pageSize])
		if id == 0 || !x.nodes[id].matchable() {
			k = 0
		}
		if at+k < pages && k < int(x.nodes[id].pages) || k == 0 {
			return Receipt{}, 0, fmt.Errorf("pin %d pages: the tree matches only %d: match again: %w", pages, at+k, ErrPath)
		}
		if k < int(x.nodes[id].pages) {
			id = x.split(id, k)
		}
		at += k
		cur = id
	}
	x.touchPath(cur, clock)
	return x.lock(cur), cur, nil
}

// PinNode locks the path to node, for example the one that Insert returned, and touches it with clock.
func (x *Index) PinNode(node NodeID, clock uint64) (Receipt, error) {
	if _, err := x.node(node); err != nil {
		return Receipt{}, err
	}
	x.touchPath(node, clock)
	return x.lock(node), nil
}

// Touch sets the clock of node and of its path, never backwards. An unknown node is ignored.
func (x *Index) Touch(node NodeID, clock uint64) {
	if _, err := x.node(node); err == nil {
		x.touchPath(node, clock)
	}
}

func (x *Index) touchPath(id NodeID, clock uint64) {
	x.record(opTouch, uint64(id), clock)
	for ; id != 0; id = x.nodes[id].parent {
		n := &x.nodes[id]
		n.hits++
		moved := clock > n.clock
		if moved {
			n.clock = clock
		}
		if x.scoring && n.class == unasked {
			n.class, moved = awaiting, true
		}
		if moved && n.in != 0 {
			x.heapFix(&x.heaps[n.in-1], id)
		}
	}
}
