package index

import "fmt"

// pageBook owns the numbers of one tier: a FIFO ring of free ones, a state and a generation for each, and
// the counts of those that no node holds.
type pageBook struct {
	tier   Tier
	usable int
	state  []State
	gen    []uint32
	ring   []Page
	head   int
	free   int
	out    [Quarantined + 1]int // numbers held outside the tree, by state
	cut    int                  // free numbers at or above usable
	tree   int                  // numbers held by nodes
}

func (b *pageBook) init(t Tier, n int, first uint32) {
	b.tier, b.usable, b.free = t, n, n
	b.state = make([]State, n)
	b.gen = make([]uint32, n)
	b.ring = make([]Page, n)
	for i := range b.ring {
		b.ring[i] = Page(i)
		b.gen[i] = first
	}
}

// short returns an error unless n numbers are free.
func (b *pageBook) short(n int) error {
	if n > b.free {
		return &ShortError{b.tier, n, b.free}
	}
	return nil
}

// take moves the n oldest free numbers into state st and appends them to dst; n <= b.free.
func (b *pageBook) take(n int, st State, dst []Page) []Page {
	b.free -= n
	state, gen := b.state, b.gen
	for n > 0 {
		run := b.ring[b.head:min(b.head+n, len(b.ring))]
		for _, p := range run {
			state[p] = st
			gen[p]++
		}
		dst = append(dst, run...)
		n -= len(run)
		if b.head += len(run); b.head == len(b.ring) {
			b.head = 0
		}
	}
	return dst
}

// give ends the holding of pages, whose count the caller has already taken off, and returns how many of
// them went to the free list; those at or above the usable mark do not.
func (b *pageBook) give(pages []Page) int {
	if b.usable < len(b.state) {
		return b.giveCut(pages)
	}
	state := b.state
	for _, p := range pages {
		state[p] = Free
	}
	b.push(pages)
	return len(pages)
}

// giveCut is give while some numbers must not be handed out.
func (b *pageBook) giveCut(pages []Page) int {
	freed := 0
	for i, p := range pages {
		if int(p) >= b.usable {
			b.state[p] = cutOff
			b.cut++
			continue
		}
		b.state[p] = Free
		b.push(pages[i : i+1])
		freed++
	}
	return freed
}

// push appends numbers to the free list.
func (b *pageBook) push(pages []Page) {
	tail := b.head + b.free
	if tail >= len(b.ring) {
		tail -= len(b.ring)
	}
	b.free += len(pages)
	k := copy(b.ring[tail:], pages)
	copy(b.ring, pages[k:])
}

// relabel sets every page from one state to another, or none of them and names the first that is not in
// the first state. A page listed twice is refused the second time.
func (b *pageBook) relabel(pages []Page, from, to State) error {
	state := b.state
	for i, p := range pages {
		if int(p) < len(state) && state[p] == from {
			state[p] = to
			continue
		}
		e := &PageError{Tier: b.tier, Page: p, Want: from, Out: int(p) >= len(state)}
		if !e.Out {
			e.Have = state[p]
		}
		for _, q := range pages[:i] {
			state[q] = from
		}
		return e
	}
	return nil
}

// above counts the pages at or above the usable mark.
func (b *pageBook) above(pages []Page) int {
	if b.usable == len(b.state) {
		return 0
	}
	n := 0
	for _, p := range pages {
		if int(p) >= b.usable {
			n++
		}
	}
	return n
}

func (x *Index) book(t Tier) (*pageBook, error) {
	if t >= tiers {
		return nil, fmt.Errorf("%s: only L1 and L2 have page numbers: %w", t, ErrRange)
	}
	return &x.books[t], nil
}

// Alloc takes n numbers from the free list of t, oldest first, books them as st (Private, Loading, Saving or
// Quarantined) and appends them to dst. It evicts nothing. When n are not free the error is a *ShortError
// and nothing has changed.
func (x *Index) Alloc(t Tier, n int, st State, dst []Page) ([]Page, error) {
	b, err := x.book(t)
	if err != nil {
		return dst, err
	}
	if n < 0 || !st.outside() {
		return dst, fmt.Errorf("allocate %d %s pages as %s: want n >= 0 and private, loading, saving or quarantined: %w", n, t, st, ErrRange)
	}
	if err := b.short(n); err != nil {
		return dst, err
	}
	was := len(dst)
	dst = b.take(n, st, dst)
	b.out[st] += n
	x.record(opAlloc, uint64(t)<<40|uint64(st)<<32|uint64(n), hashWords(dst[was:]))
	return dst, nil
}

// Claim is Alloc for given numbers: it takes exactly these from the free list, wherever they stand in it.
// It is how a rebuilt index books the pages of requests that stay. It costs one pass over the free list.
func (x *Index) Claim(t Tier, pages []Page, st State) error {
	b, err := x.book(t)
	if err != nil {
		return err
	}
	if !st.outside() {
		return fmt.Errorf("claim %s pages as %s: want private, loading, saving or quarantined: %w", t, st, ErrRange)
	}
	if err := b.relabel(pages, Free, st); err != nil {
		return err
	}
	for _, p := range pages {
		b.gen[p]++
	}
	b.out[st] += len(pages)
	b.refill()
	x.record(opClaim, uint64(t)<<40|uint64(st)<<32|uint64(len(pages)), hashWords(pages))
	return nil
}

// refill keeps the numbers of the ring that are still Free, in order, and appends the cut-off numbers below
// the usable mark, ascending.
func (b *pageBook) refill() {
	kept := make([]Page, 0, len(b.ring))
	for i := range b.free {
		if p := b.ring[(b.head+i)%len(b.ring)]; b.state[p] == Free {
			kept = append(kept, p)
		}
	}
	for p, st := range b.state[:b.usable] {
		if st == cutOff {
			b.state[p] = Free
			b.cut--
			kept = append(kept, Page(p))
		}
	}
	b.head, b.free = 0, copy(b.ring, kept)
}

// SortFree puts the free list of t into ascending order, so that lists with different histories are equal.
func (x *Index) SortFree(t Tier) {
	b, err := x.book(t)
	if err != nil {
		return
	}
	b.head, b.free = 0, 0
	for p, st := range b.state {
		if st == Free {
			b.ring[b.free] = Page(p)
			b.free++
		}
	}
	x.record(opSortFree, uint64(t), uint64(b.free))
}

// Move changes the state of pages held outside the tree: from and to are Private, Loading, Saving or
// Quarantined, and to may be Free, which returns them to the free list in the order given. A page that is not
// in state from is a *PageError, and nothing has changed.
func (x *Index) Move(t Tier, pages []Page, from, to State) error {
	b, err := x.book(t)
	if err != nil {
		return err
	}
	if !from.outside() || to != Free && !to.outside() {
		return fmt.Errorf("move %s pages from %s to %s: only pages held outside the tree move: %w", t, from, to, ErrRange)
	}
	if err := b.relabel(pages, from, to); err != nil {
		return err
	}
	b.out[from] -= len(pages)
	if to == Free {
		b.give(pages)
	} else {
		b.out[to] += len(pages)
	}
	x.record(opMove, uint64(t)<<48|uint64(from)<<40|uint64(to)<<32|uint64(len(pages)), hashWords(pages))
	return nil
}

// Generation returns how many times number p of tier t was handed out; it wraps. It is 0 for a number that
// does not exist.
func (x *Index) Generation(t Tier, p Page) uint32 {
	if t >= tiers || int(p) >= len(x.books[t].gen) {
		return 0
	}
	return x.books[t].gen[p]
}

// PageState returns what holds number p of tier t: Free, one of the states a caller can hold it in, or
// Locked for a number that a node holds. ok is false for a number that does not exist.
func (x *Index) PageState(t Tier, p Page) (st State, ok bool) {
	if t >= tiers || int(p) >= len(x.books[t].state) {
		return 0, false
	}
	switch st = x.books[t].state[p]; st {
	case inTree:
		return Locked, true
	case cutOff:
		return Quarantined, true
	}
	return st, true
}

// SetUsable forbids handing out numbers of t at or above n (clamped to the tier). Free ones among them are
// booked Quarantined until the mark rises again, and so is any other the moment it is given back; the rise
// appends them to the free list in ascending order.
func (x *Index) SetUsable(t Tier, n int) {
	b, err := x.book(t)
	if err != nil {
		return
	}
	n = min(max(n, 0), len(b.state))
	was := b.usable
	if n == was {
		return
	}
	b.usable = n
	for p := n; p < was; p++ {
		if b.state[p] == Free {
			b.state[p] = cutOff
			b.cut++
		}
	}
	b.refill()
	if t == L1 {
		x.recut()
	}
	x.structure++
	x.record(opUsable, uint64(t), uint64(n))
}

// Usable returns the mark that SetUsable set: numbers below it may be handed out.
func (x *Index) Usable(t Tier) int {
	if t >= tiers {
		return 0
	}
	return x.books[t].usable
}

// Books counts the pages of t by booked state. L1 is O(1); L2 walks the nodes. An L2 number is Evictable
// when Evict(L2) can free it without anything else going first from L1 or being unlocked; other numbers that
// nodes hold are Locked, Loading while a backup writes them.
func (x *Index) Books(t Tier) Books {
	if t >= tiers {
		return Books{}
	}
	b := &x.books[t]
	k := Books{
		Free:        b.free,
		Private:     b.out[Private],
		Saving:      b.out[Saving],
		Loading:     b.out[Loading],
		Quarantined: b.out[Quarantined] + b.cut,
	}
	if t == L1 {
		k.Evictable = x.evictable
		k.Saving += x.treeSaving
		k.Loading += x.treeLoading
		k.Locked = b.tree - x.evictable - x.treeSaving - x.treeLoading
		return k
	}
	k.Evictable = x.reachableL2()
	k.Loading += x.treeSaving
	k.Locked = b.tree - k.Evictable - x.treeSaving
	return k
}

// Available returns the L1 pages that can be handed out after leaf-first eviction: Free + Evictable, less
// the evictable ones at or above the usable mark, which eviction does not make usable. It is O(1).
func (x *Index) Available() int { return x.books[L1].free + x.evictable - x.evictableCut }
