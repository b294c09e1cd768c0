package main

import "sluice/abi/guest"

// ghost remembers what has left the small queue, by its print, in a table of fixed size.
type ghost struct{ places []left }

type left struct{ print, at uint64 }

// newGhost makes one of size places, a power of two.
func newGhost(size int) ghost { return ghost{make([]left, size)} }

func (g ghost) place(print uint64) *left { return &g.places[print&uint64(len(g.places)-1)] }

func (g ghost) add(print, now uint64) { *g.place(print) = left{print, now} }

// take says whether the print was added within the last length tokens, and forgets it.
func (g ghost) take(print, now, length uint64) bool {
	l := g.place(print)
	if l.print != print {
		return false
	}
	recent := now-l.at <= length
	*l = left{}
	return recent
}

// print is all that a node which comes back has in common with the one that left: its place in the prompt, its length and
// its tenant. It is never 0.
func print(r guest.ScoreRecord) uint64 {
	h := uint64(r.DepthTokens())<<32 | uint64(r.Tokens())
	h = (h ^ uint64(r.Tenant())<<48) * 0x9e3779b97f4a7c15
	return (h ^ h>>32) | 1
}
