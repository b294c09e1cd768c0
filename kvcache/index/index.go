package index

import (
	"fmt"
	"hash/maphash"
)

// Config sizes an index.
type Config struct {
	PageSize int // tokens per page, >= 1
	L1Pages  int // page numbers of the device tier, >= 1
	L2Pages  int // page numbers of the host tier, >= 0; 0 = no host tier

	// FirstGeneration is the generation of numbers that were never handed out. An index that takes over the pages
	// of an earlier one starts above all of its generations, so that no old reference is good again.
	FirstGeneration uint32
}

// maxPages keeps every number below NoPage and every count within an int32.
const maxPages = 1<<31 - 1

// Index is the replicated part of the cache. One goroutine owns it; nothing in it blocks, reads a clock or
// draws a random number that could show. Two instances given the same calls give the same answers.
type Index struct {
	pageSize int
	books    [tiers]pageBook
	nodes    []node // nodes[0] is unused, so that id 0 is none
	spare    []NodeID
	table    childTable
	heaps    [tiers]leafHeap
	spaces   []NodeID // root by SpaceID; spaces[0] is unused
	names    map[string]SpaceID

	locks      []lockRec // by Receipt.slot
	spareLocks []uint32
	lockSerial uint64

	ops    map[OpID]opRec
	lastOp OpID

	evictable    int // L1-valid pages of unlocked nodes
	evictableCut int // of them, at or above the usable mark
	treeLoading  int // L1 numbers of nodes that are L1Loading
	treeSaving   int // L1 numbers of nodes under backup; as many L2 numbers are loading

	first     uint32 // FirstGeneration
	scoring   bool
	structure uint64
	digest    uint64
	stats     Stats

	// The page hash decides only where a lookup starts, and content decides what it finds, so its seed never
	// shows; being seeded, it cannot be flooded by chosen prompts.
	seed     maphash.Seed
	pageHash func([]uint32) uint64 // nil = seeded; tests set it to force collisions

	path []NodeID // scratch of Insert and of the ends of operations
}

// New returns an empty index with all pages free. The error is ErrConfig.
func New(c Config) (*Index, error) {
	switch {
	case c.PageSize < 1:
		return nil, fmt.Errorf("page size %d: must be at least 1 token: %w", c.PageSize, ErrConfig)
	case c.L1Pages < 1 || c.L1Pages > maxPages:
		return nil, fmt.Errorf("%d L1 pages: must be 1 to %d: %w", c.L1Pages, maxPages, ErrConfig)
	case c.L2Pages < 0 || c.L2Pages > maxPages:
		return nil, fmt.Errorf("%d L2 pages: must be 0 to %d: %w", c.L2Pages, maxPages, ErrConfig)
	}
	x := &Index{
		pageSize: c.PageSize,
		nodes:    make([]node, 1),
		spaces:   make([]NodeID, 1),
		names:    make(map[string]SpaceID),
		ops:      make(map[OpID]opRec),
		seed:     maphash.MakeSeed(),
	}
	x.books[L1].init(L1, c.L1Pages, c.FirstGeneration)
	x.books[L2].init(L2, c.L2Pages, c.FirstGeneration)
	x.first = c.FirstGeneration
	x.record(opNew, uint64(c.PageSize), uint64(c.L1Pages)<<32|uint64(c.L2Pages))
	return x, nil
}

// Config returns what New was given.
func (x *Index) Config() Config {
	return Config{x.pageSize, len(x.books[L1].state), len(x.books[L2].state), x.first}
}

// Space returns the key space of a canonical key (see Key.AppendCanonical), and creates it on first use.
// Keys are compared by content. An empty space stays until DropSpace.
func (x *Index) Space(canonical []byte) SpaceID {
	if s, ok := x.names[string(canonical)]; ok {
		return s
	}
	root := x.newNode()
	s := SpaceID(len(x.spaces))
	x.nodes[root].name = string(canonical)
	x.spaces = append(x.spaces, root)
	x.names[x.nodes[root].name] = s
	x.stats.Spaces++
	x.record(opSpace, uint64(s), hashText(canonical))
	return s
}

// DropSpace forgets an empty space, so that keys used once do not pile up. The error is ErrSpace for an
// unknown space and ErrBusy while it holds a node or a lock. Its SpaceID is not used again.
func (x *Index) DropSpace(s SpaceID) error {
	root, err := x.root(s)
	if err != nil {
		return err
	}
	n := &x.nodes[root]
	if n.first != 0 || n.locks != 0 {
		return fmt.Errorf("space %d has nodes or %d locks: %w", s, n.locks, ErrBusy)
	}
	delete(x.names, n.name)
	x.spaces[s] = 0
	x.freeNode(root)
	x.stats.Spaces--
	x.structure++
	x.record(opDropSpace, uint64(s), 0)
	return nil
}

func (x *Index) root(s SpaceID) (NodeID, error) {
	if int(s) >= len(x.spaces) || x.spaces[s] == 0 {
		return 0, fmt.Errorf("space %d: get one from Space: %w", s, ErrSpace)
	}
	return x.spaces[s], nil
}

// Structure returns a counter that changes whenever the result of any Match could change: an insertion, an
// eviction, a split, the start or end of a load, a drop, and a lock that moves pages in or out of Evictable.
func (x *Index) Structure() uint64 { return x.structure }

// Digest returns the rolling digest of every call that changed anything, numbers handed out included. Equal
// digests on two ranks mean, up to hash collisions, the same history. It is O(1).
func (x *Index) Digest() uint64 { return x.digest }

// Stats returns the counters.
func (x *Index) Stats() Stats {
	s := x.stats
	s.Locks = len(x.locks) - len(x.spareLocks)
	for _, op := range x.ops {
		if !op.ended {
			s.Ops++
		}
	}
	return s
}

// Kinds of digest records.
const (
	opNew = 1 + iota
	opSpace
	opDropSpace
	opAlloc
	opMove
	opClaim
	opSortFree
	opUsable
	opTouch
	opPin
	opUnpin
	opSplit
	opInsert
	opLeaf
	opTable
	opEvict
	opRemove
	opStartLoad
	opEndLoad
	opRetry
	opRelease
	opStartBackup
	opEndBackup
	opDrop
	opReset
	opScore
	opEpoch
	opOwner
	opFound
)

func (x *Index) record(kind, a, b uint64) {
	x.digest = step(x.digest+kind*mulD, a, b)
}
