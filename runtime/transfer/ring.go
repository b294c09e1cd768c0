package transfer

import "sluice/gpu"

// ring grants regions of the staging arena in order. Pages are counted from the start of time: page
// number n is page n%size of the arena, in round n/size, and the round is its generation, so that a
// write into a region that was given back reaches nobody.
//
// Regions may be given back in any order; the watermark, below which every page is free again,
// follows the oldest one held.
type ring struct {
	arena     gpu.ArenaID
	size      uint64
	next      uint64 // first page not granted yet
	watermark uint64
	held      []*region // oldest first, from the watermark on
}

// region is a run of ring pages for one chunk.
type region struct {
	start, pages uint64
	free         bool
	owner        *entry
	from         int // first suffix page of the chunk
	landed       bool
	refs         []gpu.Ref
}

// grant takes n pages, 1 or more, or returns nil where they are not free now.
func (g *ring) grant(n int) *region {
	if g.next+uint64(n)-g.watermark > g.size {
		return nil
	}
	r := &region{start: g.next, pages: uint64(n), refs: make([]gpu.Ref, n)}
	for i := range r.refs {
		at := g.next + uint64(i)
		r.refs[i] = gpu.Ref{Arena: g.arena, Index: uint32(at % g.size), Generation: uint32(at/g.size) + 1}
	}
	g.next += uint64(n)
	g.held = append(g.held, r)
	return r
}

// release gives a region back. A second time does nothing.
func (g *ring) release(r *region) {
	r.free = true
	n := 0
	for n < len(g.held) && g.held[n].free {
		g.watermark = g.held[n].start + g.held[n].pages
		n++
	}
	if n > 0 {
		kept := copy(g.held, g.held[n:])
		clear(g.held[kept:])
		g.held = g.held[:kept]
	}
}
