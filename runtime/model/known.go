package model

import (
	"slices"

	"sluice/gpu"
)

// known keeps, for each sequence of the last steps, the sum over its leading full pages, so that a step reads only
// what it has not read yet. It is exact: a write to any page that a kept sum covers, whoever made it, empties it.
// Such writes do not happen while pages are booked right, so that costs nothing where nothing is wrong.
type known struct {
	log   Log // nil: nothing is kept
	arena gpu.ArenaID
	mark  uint64
	seqs  map[uint64]*sequence // by request
	spare []*sequence
	uses  []int32 // by page number: kept sums that cover it
	pages []uint32
	step  uint64
}

// sequence is what is known of one request: the sum over the pages refs.
type sequence struct {
	refs []gpu.Ref
	sum  uint64
	step uint64 // last seen
}

func (k *known) init(log Log, arena gpu.ArenaID, pages int) {
	k.log, k.arena = log, arena
	k.seqs, k.uses = make(map[uint64]*sequence), make([]int32, pages)
}

// catchUp takes in what was written since the step before.
func (k *known) catchUp() {
	if k.log == nil {
		return
	}
	k.step++
	pages, now, ok := k.log.Written(k.arena, k.mark, k.pages[:0])
	k.pages, k.mark = pages[:0], now
	for i := 0; ok && i < len(pages); i++ {
		ok = k.uses[pages[i]] == 0
	}
	if !ok {
		for id, s := range k.seqs {
			k.drop(id, s)
		}
	}
}

// sequence returns what is known of the item's request, nil where nothing is kept. What it knows of other pages
// than the row has now is forgotten.
func (k *known) sequence(it *Item) *sequence {
	if k.log == nil {
		return nil
	}
	s := k.seqs[it.Request]
	if s != nil && (len(s.refs) > len(it.Row) || !slices.Equal(s.refs, it.Row[:len(s.refs)])) {
		k.drop(it.Request, s)
		s = nil
	}
	if s == nil {
		if n := len(k.spare); n > 0 {
			s, k.spare = k.spare[n-1], k.spare[:n-1]
		} else {
			s = new(sequence)
		}
		k.seqs[it.Request] = s
	}
	s.step = k.step
	return s
}

// extend adds the next full page; sum is the sum with it.
func (k *known) extend(s *sequence, ref gpu.Ref, sum uint64) {
	s.refs, s.sum = append(s.refs, ref), sum
	k.uses[ref.Index]++
}

func (k *known) drop(id uint64, s *sequence) {
	for _, r := range s.refs {
		k.uses[r.Index]--
	}
	s.refs, s.sum = s.refs[:0], 0
	delete(k.seqs, id)
	k.spare = append(k.spare, s)
}

// sweep forgets sequences that are not stepped any more, once they are as many as those that are.
func (k *known) sweep(live int) {
	if k.log == nil || len(k.seqs) <= 2*live+8 {
		return
	}
	for id, s := range k.seqs {
		if s.step != k.step {
			k.drop(id, s)
		}
	}
}
