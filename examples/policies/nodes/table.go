package nodes

import (
	"math/bits"

	"sluice/abi"
	"sluice/abi/guest"
)

const (
	// fewest is the size of the table of a small cache, and where the host does not say how large it is.
	fewest = 1 << 10
	// most bounds the memory of a table, to a few MiB.
	most = 1 << 16
)

// Table holds a T for each node that was shown, by the node's name. Where the cache has more nodes than the table has places,
// two of them push each other out.
type Table[T any] struct{ places []place[T] }

type place[T any] struct {
	name, end, tokens, hits uint32 // of the node that holds the place; name 0: nobody has yet
	state                   T
}

// New makes a table for the cache that info describes: two places for each page of the device tier, since the host tier
// keeps nodes too, 1024 at least and 65536 at most.
func New[T any](info abi.HostInfo) *Table[T] {
	pages := min(info.TotalTokens/uint64(max(info.PageSize, 1)), most/2)
	n := max(fewest, 2*pages)
	return &Table[T]{make([]place[T], 1<<bits.Len64(n-1))}
}

// Len is how many places the table has, a power of two.
func (t *Table[T]) Len() int { return len(t.places) }

// At returns what the table holds of the node that r shows, and whether that is of this node. Where it is not, the state is
// that of the node which had the place before, or zero, and the caller sets it anew; the place is this node's from now on.
// A node that a split has made is not known, since the lower half keeps the name.
func (t *Table[T]) At(r guest.ScoreRecord) (state *T, known bool) {
	name, end := uint32(r.NodeKey()), r.DepthTokens()+r.Tokens()
	p := &t.places[name&uint32(len(t.places)-1)]
	// A split takes tokens off the front, so the end stays and the length shrinks; the hits never do.
	known = r.Class() == abi.ScoreKeyed && p.name == name && p.end == end && p.tokens >= r.Tokens() && p.hits <= r.Hits()
	p.name, p.end, p.tokens, p.hits = name, end, r.Tokens(), r.Hits()
	return &p.state, known
}
