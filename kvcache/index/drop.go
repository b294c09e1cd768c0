package index

import "fmt"

// DropCopies drops the L2 copies of node and of every node below it, because their bytes are bad. A node left
// with neither tier is dead: it matches nothing, and is removed with all below it once its last lock goes, at
// once if it has none. The numbers of a running load or backup stay until it ends, and its L2 numbers go
// then; the rest of an ended load keeps its L1 numbers until ReleaseLoad. The error is ErrNode, or ErrState
// for a root.
func (x *Index) DropCopies(node NodeID) error {
	n, err := x.node(node)
	if err != nil {
		return err
	}
	if n.isRoot() {
		return fmt.Errorf("node %d is the root of a space and has no copies: %w", node, ErrState)
	}
	x.record(opDrop, uint64(node), 0)
	x.structure++
	root := x.rootOf(node)
	end := x.after(root, node)
	for id := node; id != end; {
		n := &x.nodes[id]
		if n.l2 != nil {
			x.stats.Dropped += uint64(n.pages)
			if x.busyL2(n) {
				n.doomed = true
			} else {
				x.dropL2(id)
			}
		}
		gone := n.locks == 0 && n.dead()
		next := n.first
		if next == 0 || gone {
			next = x.after(root, id)
		}
		if gone {
			x.removeSubtree(id)
		}
		id = next
	}
	return nil
}

func (x *Index) rootOf(id NodeID) NodeID {
	for x.nodes[id].parent != 0 {
		id = x.nodes[id].parent
	}
	return id
}

// busyL2 reports whether a running operation reads or writes the L2 numbers of n. The rest of an ended load
// has none running.
func (x *Index) busyL2(n *node) bool {
	return n.save != 0 || n.load != 0 && !x.ops[n.load].ended
}
