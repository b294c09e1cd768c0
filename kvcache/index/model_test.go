package index

import (
	"errors"
	"slices"
)

// model computes what Index computes from plain maps and slices, by scanning: lock counts from the receipts,
// victims from all nodes, books from all pages. It is the oracle of the random test.
type model struct {
	size   int
	total  [2]int
	usable [2]int
	free   [2][]Page
	out    [2]map[Page]State // held outside the tree; cutOff for free numbers at or above usable
	gen    [2]map[Page]uint32

	nodes    map[NodeID]*mNode
	spare    []NodeID
	next     NodeID
	roots    []NodeID
	receipts map[uint64]NodeID
	serial   uint64
	ops      map[OpID]*mOp
	lastOp   OpID
	scoring  bool
}

type mNode struct {
	parent     NodeID
	kids       []NodeID // newest first
	pages      [][]uint32
	l1, l2     []Page
	state      L1State
	load, save OpID
	doomed     bool
	clock      uint64
	hits       uint64
	class      uint8
	score      int64
}

type mOp struct {
	kind   OpKind
	tail   NodeID
	serial uint64
	ended  bool
}

func newModel(c Config) *model {
	m := &model{
		size: c.PageSize, total: [2]int{c.L1Pages, c.L2Pages}, usable: [2]int{c.L1Pages, c.L2Pages},
		nodes: map[NodeID]*mNode{}, next: 1, receipts: map[uint64]NodeID{}, ops: map[OpID]*mOp{},
	}
	for t := range m.total {
		m.out[t], m.gen[t] = map[Page]State{}, map[Page]uint32{}
		for p := range m.total[t] {
			m.free[t] = append(m.free[t], Page(p))
		}
	}
	return m
}

func (m *model) newID() NodeID {
	if k := len(m.spare); k > 0 {
		id := m.spare[k-1]
		m.spare = m.spare[:k-1]
		return id
	}
	m.next++
	return m.next - 1
}

func (m *model) space() {
	id := m.newID()
	m.nodes[id] = &mNode{}
	m.roots = append(m.roots, id)
}

func (m *model) start(id NodeID) int {
	n := 0
	for p := m.nodes[id].parent; p != 0; p = m.nodes[p].parent {
		n += len(m.nodes[p].pages)
	}
	return n
}

func (m *model) path(id NodeID) []NodeID { // root side first, root included
	var ids []NodeID
	for ; id != 0; id = m.nodes[id].parent {
		ids = append([]NodeID{id}, ids...)
	}
	return ids
}

func (m *model) locks(id NodeID) int {
	n := 0
	for _, at := range m.receipts {
		if slices.Contains(m.path(at), id) {
			n++
		}
	}
	return n
}

func (n *mNode) dead() bool      { return n.state == L1None && n.l2 == nil && len(n.pages) > 0 }
func (n *mNode) backed() bool    { return n.l2 != nil && n.save == 0 && !n.doomed }
func (n *mNode) matchable() bool { return n.state == L1Valid || n.backed() }

// give returns numbers that nobody holds any more.
func (m *model) give(t Tier, pages []Page) int {
	freed := 0
	for _, p := range pages {
		if int(p) >= m.usable[t] {
			m.out[t][p] = cutOff
			continue
		}
		delete(m.out[t], p)
		m.free[t] = append(m.free[t], p)
		freed++
	}
	return freed
}

func (m *model) take(t Tier, n int) []Page {
	pages := slices.Clone(m.free[t][:n])
	m.free[t] = m.free[t][n:]
	for _, p := range pages {
		m.gen[t][p]++
	}
	return pages
}

func (m *model) alloc(t Tier, n int, st State) ([]Page, error) {
	if n > len(m.free[t]) {
		return nil, ErrShort
	}
	pages := m.take(t, n)
	for _, p := range pages {
		m.out[t][p] = st
	}
	return pages, nil
}

func (m *model) claim(t Tier, pages []Page, st State) error {
	for i, p := range pages {
		if !slices.Contains(m.free[t], p) || slices.Contains(pages[:i], p) {
			return ErrPage
		}
	}
	for _, p := range pages {
		i := slices.Index(m.free[t], p)
		m.free[t] = slices.Delete(m.free[t], i, i+1)
		m.gen[t][p]++
		m.out[t][p] = st
	}
	return nil
}

func (m *model) move(t Tier, pages []Page, from, to State) error {
	for i, p := range pages {
		if st, ok := m.out[t][p]; !ok || st != from || slices.Contains(pages[:i], p) {
			return ErrPage
		}
	}
	for _, p := range pages {
		m.out[t][p] = to
	}
	if to == Free {
		m.give(t, pages)
	}
	return nil
}

func (m *model) setUsable(t Tier, n int) {
	m.usable[t] = min(max(n, 0), m.total[t])
	var kept []Page
	for _, p := range m.free[t] {
		if int(p) < m.usable[t] {
			kept = append(kept, p)
		} else {
			m.out[t][p] = cutOff
		}
	}
	for p := range m.usable[t] {
		if m.out[t][Page(p)] == cutOff {
			delete(m.out[t], Page(p))
			kept = append(kept, Page(p))
		}
	}
	m.free[t] = kept
}

func (m *model) books(t Tier) Books {
	b := Books{Free: len(m.free[t])}
	for _, st := range m.out[t] {
		switch st {
		case Private:
			b.Private++
		case Saving:
			b.Saving++
		case Loading:
			b.Loading++
		default:
			b.Quarantined++
		}
	}
	for id, n := range m.nodes {
		k := len(n.pages)
		switch {
		case t == L1 && n.state == L1None, t == L2 && n.l2 == nil:
		case t == L1 && n.state == L1Loading, t == L2 && n.save != 0:
			b.Loading += k
		case t == L1 && n.save != 0:
			b.Saving += k
		case t == L1 && m.locks(id) == 0, t == L2 && m.reachable(id):
			b.Evictable += k
		default:
			b.Locked += k
		}
	}
	return b
}

// reachable says whether L2 eviction can take id, after all below it.
func (m *model) reachable(id NodeID) bool {
	n := m.nodes[id]
	ok := m.locks(id) == 0 && n.state == L1None && n.l2 != nil
	for _, k := range n.kids {
		ok = ok && m.reachable(k)
	}
	return ok
}

func (m *model) available() int {
	n := len(m.free[L1])
	for id, v := range m.nodes {
		if v.state == L1Valid && m.locks(id) == 0 {
			n += m.below(v.l1)
		}
	}
	return n
}

func (m *model) below(pages []Page) int {
	n := 0
	for _, p := range pages {
		if int(p) < m.usable[L1] {
			n++
		}
	}
	return n
}

func (m *model) pagesOf(tokens []uint32) [][]uint32 {
	var out [][]uint32
	for ; len(tokens) >= m.size; tokens = tokens[m.size:] {
		out = append(out, tokens[:m.size])
	}
	return out
}

// step finds the child below id that starts like pages, and how many pages they share.
func (m *model) child(id NodeID, pages [][]uint32) (NodeID, int) {
	for _, kid := range m.nodes[id].kids {
		k := 0
		for _, p := range m.nodes[kid].pages {
			if k == len(pages) || !slices.Equal(p, pages[k]) {
				break
			}
			k++
		}
		if k > 0 {
			return kid, k
		}
	}
	return 0, 0
}

func (m *model) match(root NodeID, tokens []uint32) Match {
	r := Match{Node: root}
	rest, onL1 := m.pagesOf(tokens), true
	for cur := root; len(rest) > 0; {
		id, k := m.child(cur, rest)
		if id == 0 || !m.nodes[id].matchable() {
			break
		}
		n := m.nodes[id]
		r.Node, r.Pages = id, r.Pages+k
		onL1 = onL1 && n.state == L1Valid
		for i := range k {
			if onL1 {
				r.L1++
			}
			if n.state == L1None {
				r.Owed++
			}
			if n.state == L1Valid && m.locks(id) == 0 && int(n.l1[i]) < m.usable[L1] {
				r.Takes++
			}
		}
		if k < len(n.pages) {
			break
		}
		rest, cur = rest[k:], id
	}
	return r
}

func (m *model) split(id NodeID, k int) NodeID {
	up, n := m.newID(), m.nodes[id]
	u := *n
	u.kids = []NodeID{id}
	u.pages, n.pages = n.pages[:k:k], n.pages[k:]
	if n.l1 != nil {
		u.l1, n.l1 = n.l1[:k:k], n.l1[k:]
	}
	if n.l2 != nil {
		u.l2, n.l2 = n.l2[:k:k], n.l2[k:]
	}
	p := m.nodes[n.parent]
	p.kids[slices.Index(p.kids, id)] = up
	n.parent = up
	m.nodes[up] = &u
	return up
}

func (m *model) lock(id NodeID) uint64 {
	m.serial++
	m.receipts[m.serial] = id
	return m.serial
}

func (m *model) unlock(serial uint64) error {
	id, ok := m.receipts[serial]
	if !ok {
		return ErrReceipt
	}
	delete(m.receipts, serial)
	for _, at := range m.path(id) {
		if m.nodes[at].dead() && m.locks(at) == 0 {
			m.remove(at)
			break
		}
	}
	return nil
}

// remove deletes id and all below it, and returns the pages of each tier that became free.
func (m *model) remove(id NodeID) (freed [2]int) {
	n := m.nodes[id]
	for len(n.kids) > 0 {
		f := m.remove(n.kids[0])
		freed[0], freed[1] = freed[0]+f[0], freed[1]+f[1]
	}
	freed[0] += m.give(L1, n.l1)
	freed[1] += m.give(L2, n.l2)
	p := m.nodes[n.parent]
	i := slices.Index(p.kids, id)
	p.kids = slices.Delete(p.kids, i, i+1)
	delete(m.nodes, id)
	m.spare = append(m.spare, id)
	return freed
}

func (m *model) touch(id NodeID, clock uint64) {
	for _, at := range m.path(id) {
		n := m.nodes[at]
		n.hits++
		n.clock = max(n.clock, clock)
		if m.scoring && n.class == unasked {
			n.class = awaiting
		}
	}
}

func (m *model) pin(root NodeID, tokens []uint32, pages int, clock uint64) (uint64, NodeID, error) {
	if pages < 0 || pages > len(tokens)/m.size {
		return 0, 0, ErrRange
	}
	if m.match(root, tokens).Pages < pages {
		return 0, 0, ErrPath
	}
	cur, rest := root, m.pagesOf(tokens)[:pages]
	for len(rest) > 0 {
		id, k := m.child(cur, rest)
		if k < len(m.nodes[id].pages) {
			id = m.split(id, k)
		}
		cur, rest = id, rest[k:]
	}
	m.touch(cur, clock)
	return m.lock(cur), cur, nil
}

// sameKind reports whether two errors are both nil or wrap the same sentinel.
func sameKind(got, want error) bool {
	if want == nil {
		return got == nil
	}
	return errors.Is(got, want)
}
