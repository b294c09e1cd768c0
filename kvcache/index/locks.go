package index

import "fmt"

// lockRec is a live lock; serial 0 marks a spare record.
type lockRec struct {
	serial uint64
	node   NodeID
}

// lock counts one lock on every node from id to its root. The first lock on a node takes its pages out of
// Evictable.
func (x *Index) lock(id NodeID) Receipt {
	x.lockSerial++
	r := Receipt{serial: x.lockSerial}
	if k := len(x.spareLocks); k > 0 {
		r.slot = x.spareLocks[k-1]
		x.spareLocks = x.spareLocks[:k-1]
		x.locks[r.slot] = lockRec{r.serial, id}
	} else {
		r.slot = uint32(len(x.locks))
		x.locks = append(x.locks, lockRec{r.serial, id})
	}
	x.record(opPin, uint64(id), r.serial)
	for ; id != 0; id = x.nodes[id].parent {
		n := &x.nodes[id]
		if n.locks++; n.locks > 1 {
			continue
		}
		if n.state == L1Valid {
			x.evictable -= len(n.l1)
			x.evictableCut -= int(n.cut)
			x.structure++
		}
		if n.in != 0 {
			x.refresh(id)
		}
	}
	return r
}

// Unpin ends a lock. Dead nodes that it held go now, with all below them. The error is ErrReceipt for a
// receipt that is zero, was used, or is not of this index.
func (x *Index) Unpin(r Receipt) error {
	if r.serial == 0 || int(r.slot) >= len(x.locks) || x.locks[r.slot].serial != r.serial {
		return fmt.Errorf("receipt %d holds no lock: release each lock once: %w", r.serial, ErrReceipt)
	}
	id := x.locks[r.slot].node
	x.locks[r.slot] = lockRec{}
	x.spareLocks = append(x.spareLocks, r.slot)
	x.record(opUnpin, uint64(id), r.serial)
	dead := NodeID(0)
	for ; id != 0; id = x.nodes[id].parent {
		n := &x.nodes[id]
		if n.locks--; n.locks > 0 {
			continue
		}
		if n.state == L1Valid {
			x.evictable += len(n.l1)
			x.evictableCut += int(n.cut)
			x.structure++
		}
		x.refresh(id)
		if n.dead() {
			dead = id
		}
	}
	if dead != 0 {
		x.removeSubtree(dead)
	}
	return nil
}

// Pinned returns the node that a receipt locks; ok is false when the receipt holds no lock. The id stays the
// same for the life of the lock.
func (x *Index) Pinned(r Receipt) (node NodeID, ok bool) {
	if r.serial == 0 || int(r.slot) >= len(x.locks) || x.locks[r.slot].serial != r.serial {
		return 0, false
	}
	return x.locks[r.slot].node, true
}
