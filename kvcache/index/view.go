package index

import "slices"

// Node describes node; ok is false when there is no such node.
func (x *Index) Node(id NodeID) (info NodeInfo, ok bool) {
	n, err := x.node(id)
	if err != nil {
		return NodeInfo{}, false
	}
	info = NodeInfo{
		Parent: n.parent, Start: int(n.start), Pages: int(n.pages),
		L1: n.state, L2: n.backed(), Load: n.load, Save: n.save,
		Locks: int(n.locks), Clock: n.clock, Hits: n.hits, Scored: n.class == scored,
		Awaits: n.class == awaiting, Owner: n.owner, Found: n.found,
	}
	if x.ops[n.load].ended {
		info.Load = 0
	}
	return info, true
}

// AppendPath appends the nodes from below the root to node, root side first. An unknown node or a root adds
// nothing.
func (x *Index) AppendPath(dst []NodeID, node NodeID) []NodeID {
	was := len(dst)
	for id := x.onPath(node); id != 0; id = x.onPath(x.nodes[id].parent) {
		dst = append(dst, id)
	}
	slices.Reverse(dst[was:])
	return dst
}

// onPath returns id when it is a node with pages, else 0.
func (x *Index) onPath(id NodeID) NodeID {
	if n, err := x.node(id); err != nil || n.isRoot() {
		return 0
	}
	return id
}

// AppendPages appends one number for each page of the path to node: the node's number in t, whether valid or
// loading on L1, or NoPage where it has none in t. The L2 numbers of a running backup are not yet a copy, so
// they are NoPage; AppendOp has them.
func (x *Index) AppendPages(dst []Page, t Tier, node NodeID) []Page {
	id := x.onPath(node)
	if id == 0 || t >= tiers {
		return dst
	}
	was, total := len(dst), int(x.nodes[id].start+x.nodes[id].pages)
	for range total {
		dst = append(dst, NoPage)
	}
	for ; id != 0; id = x.onPath(x.nodes[id].parent) {
		n := &x.nodes[id]
		switch {
		case t == L1:
			copy(dst[was+int(n.start):], n.l1)
		case n.backed():
			copy(dst[was+int(n.start):], n.l2)
		}
	}
	return dst
}

// AppendTokens appends the tokens of the path to node.
func (x *Index) AppendTokens(dst []uint32, node NodeID) []uint32 {
	id := x.onPath(node)
	if id == 0 {
		return dst
	}
	was, total := len(dst), int(x.nodes[id].start+x.nodes[id].pages)*x.pageSize
	dst = append(dst, make([]uint32, total)...)
	for ; id != 0; id = x.onPath(x.nodes[id].parent) {
		n := &x.nodes[id]
		copy(dst[was+int(n.start)*x.pageSize:], n.tokens)
	}
	return dst
}

// Owed returns the pages on the path to node without an L1 number.
func (x *Index) Owed(node NodeID) int {
	owed := 0
	for id := x.onPath(node); id != 0; id = x.onPath(x.nodes[id].parent) {
		if n := &x.nodes[id]; n.state == L1None {
			owed += int(n.pages)
		}
	}
	return owed
}

// AppendUnbacked appends the nodes of the path to node that are valid on L1 and neither in L2 nor under
// backup, root side first.
func (x *Index) AppendUnbacked(dst []NodeID, node NodeID) []NodeID {
	was := len(dst)
	for id := x.onPath(node); id != 0; id = x.onPath(x.nodes[id].parent) {
		if n := &x.nodes[id]; n.state == L1Valid && n.l2 == nil {
			dst = append(dst, id)
		}
	}
	slices.Reverse(dst[was:])
	return dst
}

// AppendRest appends the nodes of the rest that ends in node, root side first; nothing when node is no rest.
func (x *Index) AppendRest(dst []NodeID, node NodeID) []NodeID {
	op, rec, err := x.restOf(node)
	if err != nil {
		return dst
	}
	return append(dst, x.chain(op, rec)...)
}
