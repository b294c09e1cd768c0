package index

// childTable finds the child of a node by the hash of the child's first page: open addressing, linear
// probing, deletion by shifting back. It decides only how fast a child is found; content decides which.
type childTable struct {
	slots []childSlot // length is a power of two
	used  int
}

// childSlot is empty when id is 0. key is the node's whole key, so that growing and shifting need no node.
type childSlot struct {
	key uint64
	id  NodeID
}

const minTable = 64

func (t *childTable) mask() uint64 { return uint64(len(t.slots) - 1) }

func (t *childTable) add(key uint64, id NodeID) {
	if 4*(t.used+1) > 3*len(t.slots) {
		t.grow()
	}
	i := key & t.mask()
	for t.slots[i].id != 0 {
		i = (i + 1) & t.mask()
	}
	t.slots[i] = childSlot{key, id}
	t.used++
}

func (t *childTable) grow() {
	old := t.slots
	t.slots = make([]childSlot, max(minTable, 2*len(old)))
	for _, s := range old {
		if s.id == 0 {
			continue
		}
		i := s.key & t.mask()
		for t.slots[i].id != 0 {
			i = (i + 1) & t.mask()
		}
		t.slots[i] = s
	}
}

// find returns the place of id, which has key; ok is false when it is not there.
func (t *childTable) find(key uint64, id NodeID) (place uint64, ok bool) {
	if len(t.slots) == 0 {
		return 0, false
	}
	for i := key & t.mask(); t.slots[i].id != 0; i = (i + 1) & t.mask() {
		if t.slots[i].id == id {
			return i, true
		}
	}
	return 0, false
}

// swap puts now in the place of was; both have the same key.
func (t *childTable) swap(key uint64, was, now NodeID) {
	if i, ok := t.find(key, was); ok {
		t.slots[i].id = now
	}
}

func (t *childTable) remove(key uint64, id NodeID) {
	hole, ok := t.find(key, id)
	if !ok {
		return
	}
	mask := t.mask()
	for i := (hole + 1) & mask; t.slots[i].id != 0; i = (i + 1) & mask {
		// An entry may fill the hole unless its home lies behind the hole on its probe path.
		if home := t.slots[i].key & mask; (i-home)&mask >= (i-hole)&mask {
			t.slots[hole] = t.slots[i]
			hole = i
		}
	}
	t.slots[hole] = childSlot{}
	t.used--
}
