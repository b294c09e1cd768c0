package index

import (
	"fmt"
	"slices"
)

// opRec is an operation: a chain of nodes with tail as the deepest, each carrying the operation's id. An
// ended load stays while its rest does; then pages are those of the rest.
type opRec struct {
	kind  OpKind
	ended bool
	tail  NodeID
	pages int
	lock  Receipt
}

func (x *Index) newOp(op opRec) OpID {
	x.lastOp++
	x.ops[x.lastOp] = op
	return x.lastOp
}

// running returns the operation op if it is of that kind and has not ended.
func (x *Index) running(op OpID, kind OpKind) (opRec, error) {
	rec, ok := x.ops[op]
	if !ok || rec.ended || rec.kind != kind {
		return rec, fmt.Errorf("%s %d: no such operation is running: %w", kind, op, ErrOp)
	}
	return rec, nil
}

// chain puts the nodes of op into x.path, root side first.
func (x *Index) chain(op OpID, rec opRec) []NodeID {
	x.path = x.path[:0]
	for id := rec.tail; x.opOn(id, rec.kind) == op; id = x.nodes[id].parent {
		x.path = append(x.path, id)
	}
	slices.Reverse(x.path)
	return x.path
}

func (x *Index) opOn(id NodeID, kind OpKind) OpID {
	if kind == OpLoad {
		return x.nodes[id].load
	}
	return x.nodes[id].save
}

func checkGood(op OpID, good, pages int) error {
	if good < 0 || good > pages {
		return fmt.Errorf("operation %d copies %d pages, not %d: %w", op, pages, good, ErrRange)
	}
	return nil
}

// OpInfo describes a running operation; ok is false when op is not running.
func (x *Index) OpInfo(op OpID) (OpInfo, bool) {
	rec, ok := x.ops[op]
	if !ok || rec.ended {
		return OpInfo{}, false
	}
	return OpInfo{rec.kind, rec.tail, rec.pages}, true
}

// AppendOp appends the pages of a running operation in order: the sources to src, the destinations to dst. A
// load goes from L2 to L1, a backup from L1 to L2. For another op it appends nothing.
func (x *Index) AppendOp(src, dst []Page, op OpID) (s, d []Page) {
	rec, ok := x.ops[op]
	if !ok || rec.ended {
		return src, dst
	}
	for _, id := range x.chain(op, rec) {
		n := &x.nodes[id]
		from, to := n.l2, n.l1
		if rec.kind == OpBackup {
			from, to = to, from
		}
		src, dst = append(src, from...), append(dst, to...)
	}
	return src, dst
}

// StartLoad begins to bring node, which has only an L2 copy, back to L1: it takes the numbers from the L1
// free list (a *ShortError when short; it evicts nothing), books them Loading, and locks the path.
func (x *Index) StartLoad(node NodeID) (OpID, error) {
	n, err := x.node(node)
	if err != nil {
		return 0, err
	}
	if n.state != L1None || !n.backed() {
		return 0, errState(node, n, "in L2 only")
	}
	b := &x.books[L1]
	if err := b.short(int(n.pages)); err != nil {
		return 0, fmt.Errorf("load node %d: %w", node, err)
	}
	pages := b.take(int(n.pages), inTree, make([]Page, 0, n.pages))
	b.tree += len(pages)
	x.setL1(node, pages, L1Loading)
	op := x.newOp(opRec{kind: OpLoad, tail: node, pages: len(pages), lock: x.lock(node)})
	x.nodes[node].load = op
	x.structure++
	x.stats.Loads++
	x.record(opStartLoad, uint64(node)<<32|uint64(op), hashWords(pages))
	return op, nil
}

// EndLoad ends a load of which the first good pages arrived on every rank: they become valid on L1, with a
// split at the edge. When all are good, rest is 0. Otherwise rest is the deepest of the remaining nodes (the
// loaded one): they keep their L1 numbers, state Loading, and their lock until RetryLoad or ReleaseLoad.
func (x *Index) EndLoad(op OpID, good int) (rest NodeID, err error) {
	rec, err := x.running(op, OpLoad)
	if err != nil {
		return 0, err
	}
	if err := checkGood(op, good, rec.pages); err != nil {
		return 0, err
	}
	x.record(opEndLoad, uint64(op), uint64(good))
	left := good
	for _, id := range x.chain(op, rec) {
		if k := int(x.nodes[id].pages); left >= k {
			left -= k
			x.arrive(id)
			continue
		}
		if left > 0 {
			x.arrive(x.split(id, left))
			left = 0
		}
		if x.nodes[id].doomed {
			x.dropL2(id)
		}
	}
	x.structure++
	if good == rec.pages {
		delete(x.ops, op)
		return 0, x.Unpin(rec.lock)
	}
	rec.ended, rec.pages = true, rec.pages-good
	x.ops[op] = rec
	return rec.tail, nil
}

// arrive makes a loading node valid; its operation's lock is still on it.
func (x *Index) arrive(id NodeID) {
	n := &x.nodes[id]
	n.load, n.state = 0, L1Valid
	x.treeLoading -= len(n.l1)
	if n.doomed {
		x.dropL2(id)
	}
}

// restOf returns the ended load whose rest ends in node.
func (x *Index) restOf(node NodeID) (OpID, opRec, error) {
	n, err := x.node(node)
	if err != nil {
		return 0, opRec{}, err
	}
	rec, ok := x.ops[n.load]
	if !ok || !rec.ended || rec.tail != node {
		return 0, opRec{}, errState(node, n, "the rest of an ended load")
	}
	return n.load, rec, nil
}

// RetryLoad starts a new load over the numbers that the rest of an ended one kept. The error is ErrState when
// node is no rest, or when its L2 copy was dropped since.
func (x *Index) RetryLoad(rest NodeID) (OpID, error) {
	was, rec, err := x.restOf(rest)
	if err != nil {
		return 0, err
	}
	ids := x.chain(was, rec)
	for _, id := range ids {
		if n := &x.nodes[id]; !n.backed() {
			return 0, errState(id, n, "in L2 for a retry; release it")
		}
	}
	delete(x.ops, was)
	rec.ended = false
	op := x.newOp(rec)
	for _, id := range ids {
		x.nodes[id].load = op
	}
	x.stats.Loads++
	x.record(opRetry, uint64(was), uint64(op))
	return op, nil
}

// ReleaseLoad gives the L1 numbers of the rest of an ended load back, and its lock: the node is in L2 only
// again, or is dead and goes once unlocked, when the copy was dropped. The error is ErrState when node is no
// rest.
func (x *Index) ReleaseLoad(rest NodeID) error {
	op, rec, err := x.restOf(rest)
	if err != nil {
		return err
	}
	x.record(opRelease, uint64(rest), uint64(op))
	for _, id := range x.chain(op, rec) {
		x.dropL1(id)
		x.nodes[id].load = 0
	}
	delete(x.ops, op)
	x.structure++
	return x.Unpin(rec.lock)
}

// StartBackup begins to copy node, valid on L1 and without an L2 copy, to L2: it takes the numbers from the
// L2 free list (a *ShortError when short; it evicts nothing), and locks the path. The L1 numbers are Saving,
// the L2 numbers Loading.
func (x *Index) StartBackup(node NodeID) (OpID, error) {
	n, err := x.node(node)
	if err != nil {
		return 0, err
	}
	if n.state != L1Valid || n.l2 != nil {
		return 0, errState(node, n, "valid on L1 and not in L2")
	}
	b := &x.books[L2]
	if err := b.short(int(n.pages)); err != nil {
		return 0, fmt.Errorf("back up node %d: %w", node, err)
	}
	n.l2 = b.take(int(n.pages), inTree, make([]Page, 0, n.pages))
	b.tree += len(n.l2)
	x.treeSaving += len(n.l2)
	op := x.newOp(opRec{kind: OpBackup, tail: node, pages: len(n.l2), lock: x.lock(node)})
	n.save = op
	x.stats.Backups++
	x.record(opStartBackup, uint64(node)<<32|uint64(op), hashWords(n.l2))
	return op, nil
}

// EndBackup ends a backup of which the first good pages arrived on every rank: they have an L2 copy from now
// on, with a split at the edge; the other L2 numbers are free again. Nothing is kept of a node whose copies
// were dropped meanwhile.
func (x *Index) EndBackup(op OpID, good int) error {
	rec, err := x.running(op, OpBackup)
	if err != nil {
		return err
	}
	if err := checkGood(op, good, rec.pages); err != nil {
		return err
	}
	x.record(opEndBackup, uint64(op), uint64(good))
	left := good
	for _, id := range x.chain(op, rec) {
		k := int(x.nodes[id].pages)
		switch {
		case left >= k:
			left -= k
			x.saved(id, true)
		case left > 0:
			x.saved(x.split(id, left), true)
			left = 0
			fallthrough
		default:
			x.saved(id, false)
		}
	}
	delete(x.ops, op)
	return x.Unpin(rec.lock)
}

func (x *Index) saved(id NodeID, good bool) {
	n := &x.nodes[id]
	n.save = 0
	x.treeSaving -= len(n.l2)
	if !good || n.doomed {
		x.dropL2(id)
	}
}
