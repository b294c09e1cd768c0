package index

import (
	"fmt"
	"slices"
)

// Insert publishes the leading floor(len(tokens)/PageSize) pages of a finished or checkpointed request.
// pages is the caller's table, one number a page; pages[:from] are the tree's own (the prefix it locked),
// pages[from:] are Private. By position:
//
//   - valid on L1 in the tree: the caller's number is a duplicate; it is freed and the table is re-pointed in
//     place, so that no table ever names a page that belongs to nobody;
//   - in a node that has only an L2 copy, or is dead: the node adopts the caller's numbers, up to a split;
//   - in a node that is loading: publishing stops before the node and the rest stays private;
//   - beyond the tree: one new leaf adopts the numbers, with a copy of the tokens.
//
// The path is touched with clock, not locked. The errors are ErrPath when pages[:from] are not what the tree
// holds there, ErrPage when a number to be published is not Private or listed twice, ErrRange and ErrSpace;
// after an error nothing has changed.
func (x *Index) Insert(s SpaceID, tokens []uint32, pages []Page, from int, clock uint64) (InsertResult, error) {
	root, err := x.root(s)
	if err != nil {
		return InsertResult{}, err
	}
	size := x.pageSize
	full := len(tokens) / size
	if len(pages) < full || from < 0 || from > len(pages) {
		return InsertResult{}, fmt.Errorf("insert %d pages with a table of %d, %d of them the tree's: %w", full, len(pages), from, ErrRange)
	}
	from = min(from, full)
	at, end, err := x.walkInsert(root, tokens[:full*size], pages, from)
	if err != nil {
		return InsertResult{}, err
	}

	r := InsertResult{Node: root, Published: end}
	if mine := end - from; mine > 0 {
		b := &x.books[L1]
		if err := b.relabel(pages[from:end], Private, inTree); err != nil {
			return InsertResult{}, fmt.Errorf("insert: %w", err)
		}
		b.out[Private] -= mine
		b.tree += mine
	}
	for _, id := range x.path {
		r.Node = x.insertOver(id, pages, from, at, &r)
	}
	if at < end {
		leaf := tokens[at*size : end*size]
		r.Node = x.newLeaf(r.Node, leaf, pages[at:end])
		r.NewNodes = 1
		x.structure++
		x.record(opLeaf, uint64(r.Node), hashWords(leaf))
	}
	x.touchPath(r.Node, clock)
	x.stats.Inserts++
	x.stats.Published += uint64(end)
	x.stats.Duplicates += uint64(r.Duplicates)
	x.record(opInsert, uint64(r.Node)<<32|uint64(end), uint64(r.Duplicates)<<32|uint64(from))
	if from < end {
		x.record(opTable, 0, hashWords(pages[from:end]))
	}
	return r, nil
}

// walkInsert finds the nodes that an insertion runs over, into x.path, root side first, and changes nothing
// else. at is the pages they cover, end the pages that can be published.
func (x *Index) walkInsert(root NodeID, tokens []uint32, pages []Page, from int) (at, end int, err error) {
	x.path = x.path[:0]
	end = len(tokens) / x.pageSize
	for cur := root; at < end; {
		id, k := x.child(cur, tokens[at*x.pageSize:])
		if id == 0 {
			break
		}
		n := &x.nodes[id]
		if n.state == L1Loading {
			return at, at, nil
		}
		if own := min(k, from-at); own > 0 && (n.state != L1Valid || !equalWords(n.l1[:own], pages[at:at+own])) {
			return 0, 0, fmt.Errorf("insert: table pages %d to %d are not the tree's: lock the prefix and take its numbers first: %w", at, at+own-1, ErrPath)
		}
		x.path = append(x.path, id)
		at += k
		cur = id
		if k < int(n.pages) {
			break
		}
	}
	if at < from {
		return 0, 0, fmt.Errorf("insert: the tree holds %d pages of the %d that the table says it owns: lock the prefix first: %w", at, from, ErrPath)
	}
	return at, end, nil
}

// insertOver publishes the part of the table that lies over node id, cut to the reach of the walk, and
// returns the node that ends there.
func (x *Index) insertOver(id NodeID, pages []Page, from, reach int, r *InsertResult) NodeID {
	start := int(x.nodes[id].start)
	k := min(int(x.nodes[id].pages), reach-start)
	if k < int(x.nodes[id].pages) {
		id = x.split(id, k)
	}
	n := &x.nodes[id]
	if n.state != L1Valid {
		x.setL1(id, slices.Clone(pages[start:start+k]), L1Valid)
		x.structure++
		return id
	}
	if lo := max(from, start); lo < start+k {
		dup := pages[lo : start+k]
		x.giveTree(L1, dup)
		copy(dup, n.l1[lo-start:])
		r.Duplicates += len(dup)
	}
	return id
}
