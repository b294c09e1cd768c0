package index

import "slices"

func (m *model) insert(root NodeID, tokens []uint32, table []Page, from int, clock uint64) (InsertResult, error) {
	all := m.pagesOf(tokens)
	if len(table) < len(all) || from < 0 || from > len(table) {
		return InsertResult{}, ErrRange
	}
	from = min(from, len(all))
	// Where does publishing end, and is everything before it as the caller says?
	end, stopped := len(all), false
	type span struct {
		id    NodeID
		at, k int
	}
	var over []span
	at := 0
	for cur := root; at < len(all); {
		id, k := m.child(cur, all[at:])
		if id == 0 {
			break
		}
		n := m.nodes[id]
		if n.state == L1Loading {
			end, stopped = at, true
			break
		}
		for i := at; i < min(at+k, from); i++ {
			if n.state != L1Valid || n.l1[i-at] != table[i] {
				return InsertResult{}, ErrPath
			}
		}
		over = append(over, span{id, at, k})
		at, cur = at+k, id
		if k < len(n.pages) {
			break
		}
	}
	if at < from && !stopped {
		return InsertResult{}, ErrPath
	}
	for i := from; i < end; i++ {
		if m.out[L1][table[i]] != Private || slices.Contains(table[from:i], table[i]) {
			return InsertResult{}, ErrPage
		}
	}
	r := InsertResult{Node: root, Published: end}
	for i := from; i < end; i++ {
		delete(m.out[L1], table[i])
	}
	for _, s := range over {
		if s.k < len(m.nodes[s.id].pages) {
			s.id = m.split(s.id, s.k)
		}
		n := m.nodes[s.id]
		r.Node = s.id
		if n.state != L1Valid {
			n.state, n.l1 = L1Valid, slices.Clone(table[s.at:s.at+s.k])
			continue
		}
		for i := max(from, s.at); i < s.at+s.k; i++ {
			m.give(L1, table[i:i+1])
			table[i] = n.l1[i-s.at]
			r.Duplicates++
		}
	}
	if at < end {
		id := m.newID()
		leaf := &mNode{parent: r.Node, state: L1Valid, l1: slices.Clone(table[at:end])}
		for _, p := range all[at:end] {
			leaf.pages = append(leaf.pages, slices.Clone(p))
		}
		m.nodes[id] = leaf
		p := m.nodes[r.Node]
		p.kids = append([]NodeID{id}, p.kids...)
		r.Node, r.NewNodes = id, 1
	}
	m.touch(r.Node, clock)
	return r, nil
}

// evict takes the smallest leaf by (class, score, clock, id), looking at every node each time.
func (m *model) evict(t Tier, n int) int {
	freed := 0
	for freed < n {
		best := NodeID(0)
		for id, v := range m.nodes {
			if m.leaf(t, id, v) && (best == 0 || m.before(id, best)) {
				best = id
			}
		}
		if best == 0 {
			break
		}
		v := m.nodes[best]
		if t == L1 && v.l2 != nil {
			freed += m.give(L1, v.l1)
			v.l1, v.state = nil, L1None
			continue
		}
		freed += m.remove(best)[t]
	}
	return freed
}

func (m *model) leaf(t Tier, id NodeID, v *mNode) bool {
	if len(v.pages) == 0 || m.locks(id) > 0 {
		return false
	}
	if t == L2 {
		return v.l2 != nil && v.state == L1None && len(v.kids) == 0
	}
	for _, k := range v.kids {
		if m.nodes[k].state != L1None {
			return false
		}
	}
	return v.state == L1Valid
}

func (m *model) before(a, b NodeID) bool {
	x, y := m.nodes[a], m.nodes[b]
	switch {
	case x.class != y.class:
		return x.class < y.class
	case x.score != y.score:
		return x.score < y.score
	case x.clock != y.clock:
		return x.clock < y.clock
	}
	return a < b
}

// opNodes are the nodes of op, root side first.
func (m *model) opNodes(op OpID) []NodeID {
	var ids []NodeID
	for _, id := range m.path(m.ops[op].tail) {
		if n := m.nodes[id]; n.load == op || n.save == op {
			ids = append(ids, id)
		}
	}
	return ids
}

func (m *model) opPages(op OpID) int {
	n := 0
	for _, id := range m.opNodes(op) {
		n += len(m.nodes[id].pages)
	}
	return n
}

func (m *model) startLoad(id NodeID) (OpID, error) {
	n := m.nodes[id]
	if n == nil {
		return 0, ErrNode
	}
	if n.state != L1None || !n.backed() {
		return 0, ErrState
	}
	if len(n.pages) > len(m.free[L1]) {
		return 0, ErrShort
	}
	n.l1, n.state = m.take(L1, len(n.pages)), L1Loading
	m.lastOp++
	n.load = m.lastOp
	m.ops[m.lastOp] = &mOp{kind: OpLoad, tail: id, serial: m.lock(id)}
	return m.lastOp, nil
}

func (m *model) startBackup(id NodeID) (OpID, error) {
	n := m.nodes[id]
	if n == nil {
		return 0, ErrNode
	}
	if n.state != L1Valid || n.l2 != nil {
		return 0, ErrState
	}
	if len(n.pages) > len(m.free[L2]) {
		return 0, ErrShort
	}
	n.l2 = m.take(L2, len(n.pages))
	m.lastOp++
	n.save = m.lastOp
	m.ops[m.lastOp] = &mOp{kind: OpBackup, tail: id, serial: m.lock(id)}
	return m.lastOp, nil
}

// cut splits the operation's nodes so that one ends after good pages, and returns the two parts.
func (m *model) cut(op OpID, good int) (done, rest []NodeID) {
	for _, id := range m.opNodes(op) {
		k := len(m.nodes[id].pages)
		switch {
		case good >= k:
			done = append(done, id)
			good -= k
		case good > 0:
			done = append(done, m.split(id, good))
			rest = append(rest, id)
			good = 0
		default:
			rest = append(rest, id)
		}
	}
	return done, rest
}

func (m *model) end(op OpID, kind OpKind, good int) (NodeID, error) {
	rec := m.ops[op]
	if rec == nil || rec.ended || rec.kind != kind {
		return 0, ErrOp
	}
	if good < 0 || good > m.opPages(op) {
		return 0, ErrRange
	}
	done, rest := m.cut(op, good)
	for i, id := range append(slices.Clone(done), rest...) {
		n := m.nodes[id]
		lost := n.doomed
		if kind == OpBackup {
			n.save = 0
			lost = lost || i >= len(done)
		} else if i < len(done) {
			n.state, n.load = L1Valid, 0
		}
		if lost {
			m.give(L2, n.l2)
			n.l2, n.doomed = nil, false
		}
	}
	if kind == OpLoad && len(rest) > 0 {
		rec.ended = true
		return rec.tail, nil
	}
	delete(m.ops, op)
	return 0, m.unlock(rec.serial)
}

func (m *model) restOf(id NodeID) (OpID, error) {
	n := m.nodes[id]
	if n == nil {
		return 0, ErrNode
	}
	if rec := m.ops[n.load]; rec == nil || !rec.ended || rec.tail != id {
		return 0, ErrState
	}
	return n.load, nil
}

func (m *model) retry(id NodeID) (OpID, error) {
	op, err := m.restOf(id)
	if err != nil {
		return 0, err
	}
	for _, at := range m.opNodes(op) {
		if m.nodes[at].l2 == nil {
			return 0, ErrState
		}
	}
	m.lastOp++
	for _, at := range m.opNodes(op) {
		m.nodes[at].load = m.lastOp
	}
	m.ops[m.lastOp] = &mOp{kind: OpLoad, tail: id, serial: m.ops[op].serial}
	delete(m.ops, op)
	return m.lastOp, nil
}

func (m *model) release(id NodeID) error {
	op, err := m.restOf(id)
	if err != nil {
		return err
	}
	for _, at := range m.opNodes(op) {
		n := m.nodes[at]
		m.give(L1, n.l1)
		n.l1, n.state, n.load = nil, L1None, 0
	}
	serial := m.ops[op].serial
	delete(m.ops, op)
	return m.unlock(serial)
}

func (m *model) drop(id NodeID) error {
	n := m.nodes[id]
	if n == nil {
		return ErrNode
	}
	if len(n.pages) == 0 {
		return ErrState
	}
	m.dropBelow(id)
	return nil
}

func (m *model) dropBelow(id NodeID) {
	n := m.nodes[id]
	if n.l2 != nil {
		if n.save != 0 || n.load != 0 && !m.ops[n.load].ended {
			n.doomed = true
		} else {
			m.give(L2, n.l2)
			n.l2 = nil
		}
	}
	if n.dead() && m.locks(id) == 0 {
		m.remove(id)
		return
	}
	for _, k := range slices.Clone(n.kids) {
		m.dropBelow(k)
	}
}

func (m *model) dropUnlocked(id NodeID) {
	for _, k := range slices.Clone(m.nodes[id].kids) {
		if m.locks(k) == 0 {
			m.remove(k)
		} else {
			m.dropUnlocked(k)
		}
	}
}

func (m *model) reset() error {
	busy := len(m.receipts) > 0
	for t := range m.out {
		for _, st := range m.out[t] {
			busy = busy || st != cutOff
		}
	}
	if busy {
		return ErrBusy
	}
	for _, r := range m.roots {
		m.dropUnlocked(r)
	}
	return nil
}

// info is Node of the model.
func (m *model) info(id NodeID) (NodeInfo, bool) {
	n := m.nodes[id]
	if n == nil {
		return NodeInfo{}, false
	}
	i := NodeInfo{
		Parent: n.parent, Start: m.start(id), Pages: len(n.pages), L1: n.state, L2: n.backed(),
		Load: n.load, Save: n.save, Locks: m.locks(id), Clock: n.clock, Hits: n.hits, Scored: n.class == scored, Awaits: n.class == awaiting,
	}
	if rec := m.ops[n.load]; rec != nil && rec.ended {
		i.Load = 0
	}
	return i, true
}
