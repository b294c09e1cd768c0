package index

import "fmt"

// Tier names a level of the cache whose page numbers the index hands out.
type Tier uint8

// The two tiers with page numbers. L3 (storage) is addressed by key, so it has none.
const (
	L1 Tier = iota // device
	L2             // host
	tiers
)

// String returns "L1" or "L2".
func (t Tier) String() string {
	switch t {
	case L1:
		return "L1"
	case L2:
		return "L2"
	}
	return fmt.Sprintf("tier(%d)", uint8(t))
}

// Page is a page number within its tier, 0 <= Page < pages of the tier.
type Page uint32

// NoPage stands where a node has no number in a tier.
const NoPage = ^Page(0)

// State is the booked state of a page, from the weakest holder to the strongest.
type State uint8

// The booked states. A page is in exactly one of them; with several holders the strongest counts.
const (
	Free        State = iota // on the free list
	Evictable                // tree-owned, reachable by leaf-first eviction
	Locked                   // tree-owned and held in place
	Private                  // one request's own
	Saving                   // source of a copy to a lower tier
	Loading                  // destination of a copy
	Quarantined              // may still be written by a peer, or is at or above the usable mark

	inTree // held by a node; its booked state follows from the node
	cutOff // free, but at or above the usable mark; booked Quarantined
)

// String returns the lower-case name of the state.
func (s State) String() string {
	switch s {
	case Free:
		return "free"
	case Evictable:
		return "evictable"
	case Locked:
		return "locked"
	case Private:
		return "private"
	case Saving:
		return "saving"
	case Loading:
		return "loading"
	case Quarantined:
		return "quarantined"
	case inTree:
		return "in tree"
	case cutOff:
		return "cut off"
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// outside reports whether a page in state s is held by a caller rather than by the index.
func (s State) outside() bool { return s >= Private && s <= Quarantined }

// NodeID names a node of the tree; 0 = none. The id of a removed node is used again, so an id is only as
// good as the lock that keeps its node.
type NodeID uint32

// SpaceID names the root of one key space; 0 = none. It is never used again within a run.
type SpaceID uint32

// OpID names an operation on nodes; 0 = none. It is never used again within a run.
type OpID uint32

// Receipt proves one lock. The zero value proves none. Receipts compare with ==.
type Receipt struct {
	slot   uint32
	serial uint64
}

// L1State says what a node's L1 numbers are worth.
type L1State uint8

// The L1 states of a node.
const (
	L1None    L1State = iota // no L1 numbers
	L1Loading                // numbers set aside, bytes not yet agreed to be good
	L1Valid                  // bytes agreed to be good
)

// String returns "none", "loading" or "valid".
func (s L1State) String() string {
	switch s {
	case L1None:
		return "none"
	case L1Loading:
		return "loading"
	case L1Valid:
		return "valid"
	}
	return fmt.Sprintf("l1state(%d)", uint8(s))
}

// Match is what the tree holds for a token sequence. All counts are pages.
type Match struct {
	Node  NodeID // deepest node matched, perhaps only its leading pages; the space's root when nothing matched
	Pages int    // matched pages, contiguous from 0: each is valid on L1, loading on L1, or has an L2 copy
	L1    int    // leading pages valid on L1
	Owed  int    // matched pages without an L1 number: a restore must set them aside
	Takes int    // pages that locking this path would take out of Available
}

// Books counts the pages of one tier by booked state. The fields sum to the pages of the tier.
type Books struct{ Free, Evictable, Locked, Private, Saving, Loading, Quarantined int }

// Total returns the sum of all states.
func (b Books) Total() int {
	return b.Free + b.Evictable + b.Locked + b.Private + b.Saving + b.Loading + b.Quarantined
}

// NodeInfo describes one node by value.
type NodeInfo struct {
	Parent NodeID  // 0 for the root of a space
	Start  int     // pages before this node's edge
	Pages  int     // pages of the edge; 0 for a root
	L1     L1State // what the L1 numbers are worth
	L2     bool    // whole edge has an L2 copy; false while a backup is still in flight
	Load   OpID    // running load, 0 = none (also 0 for the rest of an ended load)
	Save   OpID    // running backup, 0 = none
	Locks  int     // locks on this node or below it
	Clock  uint64  // last use, by the caller's logical clock
	Hits   uint64  // times touched
	Scored bool    // has a score key of the present policy epoch
	Awaits bool    // used under the score policy of the epoch and not yet scored
	Owner  uint16  // whose request made it, as SetOwner noted
	Found  uint32  // requests that found it, as NoteFound counted
}

// OpKind is the kind of an operation.
type OpKind uint8

// The kinds of operations on nodes.
const (
	OpLoad   OpKind = 1 + iota // L2 to L1
	OpBackup                   // L1 to L2
)

// String returns "load" or "backup".
func (k OpKind) String() string {
	switch k {
	case OpLoad:
		return "load"
	case OpBackup:
		return "backup"
	}
	return fmt.Sprintf("op(%d)", uint8(k))
}

// OpInfo describes a running operation.
type OpInfo struct {
	Kind  OpKind
	Tail  NodeID // deepest node of the operation
	Pages int    // pages it copies
}

// InsertResult says what Insert did. All counts are pages but NewNodes.
type InsertResult struct {
	Node       NodeID // node whose path ends exactly at the last published page; the root when none is
	Published  int    // leading pages of the table that the tree owns now
	Duplicates int    // caller's numbers freed because the tree had the page; the table is re-pointed
	NewNodes   int    // leaves created (0 or 1)
}

// Stats counts events since New and things that exist now. It is no part of Digest or Checksum.
type Stats struct {
	Nodes, Spaces, Locks, Ops int // existing now; roots are not counted as nodes

	Inserts, Published, Duplicates uint64 // Insert calls that succeeded, pages they published, pages found twice
	Splits                         uint64
	Removed                        uint64    // nodes removed, whatever the reason
	Evicted                        [2]uint64 // pages that eviction took from the tree, by tier
	Loads, Backups                 uint64    // operations started, retries included
	Dropped                        uint64    // L2 pages dropped because of bad bytes
	Collisions                     uint64    // equal page hash under one parent, different tokens
}
