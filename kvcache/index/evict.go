package index

import (
	"fmt"
	"math"
)

// Evict frees pages of t leaf by leaf, whole nodes, in the eviction order, until n numbers have gone to the
// free list or no leaf is left. It returns how many have; numbers at or above the usable mark leave the tree
// too but do not count.
//
// An L1 leaf is unlocked, valid, and has no child on L1. With an L2 copy it stays as an L2-only node, else it
// is removed with all below it, L2 copies included, since they could no longer be reached. An L2 leaf is
// unlocked, not on L1 and has no children.
//
// The order: by clock, then id. Under a score policy (ResetScores), nodes never asked come first in that
// order, then scored ones by key, clock, id, then those used since and not yet scored.
func (x *Index) Evict(t Tier, n int) int {
	if t >= tiers {
		return 0
	}
	freed := 0
	for h := &x.heaps[t]; freed < n && len(h.e) > 0; {
		id := h.e[0].id
		v := &x.nodes[id]
		x.record(opEvict, uint64(t), uint64(id))
		x.structure++
		if t == L1 && v.backed() {
			x.stats.Evicted[L1] += uint64(v.pages)
			freed += x.dropL1(id)
			x.refresh(id)
			x.refresh(v.parent)
			continue
		}
		held := [tiers]int{x.books[L1].tree, x.books[L2].tree}
		gone := x.removeSubtree(id)
		for i := range held {
			x.stats.Evicted[i] += uint64(held[i] - x.books[i].tree)
		}
		freed += gone[t]
	}
	return freed
}

// ResetScores starts a policy epoch: every node is unasked again. With on, nodes used from now on wait for a
// score and are evicted last until they have one; without, the order is plain LRU.
func (x *Index) ResetScores(on bool) {
	x.scoring = on
	for i := range x.nodes {
		x.nodes[i].class, x.nodes[i].score = unasked, 0
	}
	for t := range x.heaps {
		h := &x.heaps[t]
		for i := range h.e {
			h.e[i].class, h.e[i].key = unasked, 0
		}
		// Sifting every inner place down from the last restores the order in one pass.
		for i := len(h.e)/2 - 1; i >= 0; i-- {
			x.heapDown(h, i, h.e[i])
		}
	}
	v := uint64(0)
	if on {
		v = 1
	}
	x.record(opEpoch, v, 0)
}

// SetScore gives node the key that the score policy answered; the smallest is evicted first. A later touch
// keeps the key, and a split copies it. The error is ErrNode, or ErrState when no score policy is on.
func (x *Index) SetScore(node NodeID, key int64) error {
	n, err := x.node(node)
	if err != nil {
		return err
	}
	if !x.scoring || n.isRoot() {
		return fmt.Errorf("score node %d: no score policy is on, or the node is a root: %w", node, ErrState)
	}
	n.class, n.score = scored, uint64(key)^1<<63
	if n.in != 0 {
		x.heapFix(&x.heaps[n.in-1], node)
	}
	x.record(opScore, uint64(node), uint64(key))
	return nil
}

// AppendUnscored appends, in order of id from the node first on, at most limit nodes that a score policy has to be
// asked about: those without a key of this epoch, and those used at or after the clock since. It walks the nodes, and
// returns where the next call goes on: 0 when all have been walked.
func (x *Index) AppendUnscored(dst []NodeID, first NodeID, since uint64, limit int) (nodes []NodeID, next NodeID) {
	for i := int(first); i < len(x.nodes); i++ {
		n := &x.nodes[i]
		if !n.live || n.pages == 0 || n.class == scored && n.clock < since {
			continue
		}
		if limit <= 0 {
			return dst, NodeID(i)
		}
		dst = append(dst, NodeID(i))
		limit--
	}
	return dst, 0
}

// Nodes returns how many nodes there are, roots not counted.
func (x *Index) Nodes() int { return x.stats.Nodes }

// NoteFound counts, on every node of the path to node, one more request that found it in the cache, for the score
// policy; a split copies the count. Hits counts every touch, several a request. The error is ErrNode.
func (x *Index) NoteFound(node NodeID) error {
	if _, err := x.node(node); err != nil {
		return err
	}
	for id := x.onPath(node); id != 0; id = x.onPath(x.nodes[id].parent) {
		if n := &x.nodes[id]; n.found < math.MaxUint32 {
			n.found++
		}
	}
	x.record(opFound, uint64(node), 0)
	return nil
}

// SetOwner notes whose request made the node, for the score policy; a split copies it. The error is ErrNode.
func (x *Index) SetOwner(node NodeID, owner uint16) error {
	n, err := x.node(node)
	if err != nil {
		return err
	}
	n.owner = owner
	x.record(opOwner, uint64(node), uint64(owner))
	return nil
}

// Reset empties the tree: it drops every node of both tiers (flush_cache). The error is ErrBusy while a lock,
// an operation or a page outside the tree exists; pages cut off by SetUsable do not count.
func (x *Index) Reset() error {
	if k := len(x.locks) - len(x.spareLocks); k > 0 {
		return fmt.Errorf("reset: %d locks are held: wait for requests and operations to end: %w", k, ErrBusy)
	}
	for t := range x.books {
		for st, k := range x.books[t].out {
			if k > 0 {
				return fmt.Errorf("reset: %d %s pages are %s: wait for requests to end: %w", k, Tier(t), State(st), ErrBusy)
			}
		}
	}
	x.DropUnlocked()
	return nil
}

// DropUnlocked removes every unlocked node of both tiers, whatever else is in use.
func (x *Index) DropUnlocked() {
	x.record(opReset, 0, 0)
	for _, root := range x.spaces {
		if root == 0 {
			continue
		}
		for id := x.nodes[root].first; id != 0; {
			n := &x.nodes[id]
			if n.locks > 0 && n.first != 0 {
				id = n.first
				continue
			}
			next := x.after(root, id)
			if n.locks == 0 {
				x.removeSubtree(id)
			}
			id = next
		}
	}
}

// after returns the node that follows id and all below it in a walk of the tree under top, 0 at the end.
func (x *Index) after(top, id NodeID) NodeID {
	for id != top {
		if next := x.nodes[id].next; next != 0 {
			return next
		}
		id = x.nodes[id].parent
	}
	return 0
}
