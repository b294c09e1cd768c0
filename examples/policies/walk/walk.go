package walk

import (
	"cmp"
	"slices"

	"sluice/abi"
	"sluice/abi/guest"
)

// Walker holds the memory of the sort, so that a call allocates nothing once it has seen its largest batch.
type Walker struct{ entries []entry }

type entry struct {
	key   int64
	index int
}

// Prepare makes room for the batches that the host announces.
func (w *Walker) Prepare(info abi.HostInfo) {
	w.entries = make([]entry, 0, min(max(info.MaxRecords, 256), abi.MaxRecords))
}

// Admit answers every candidate of the batch. The smallest key goes first, equal keys go in the order of the batch:
// retracted requests, then the queue. The first candidate that does not fit ends the walk, so that a large request is not
// overtaken for ever; one whose handshake is not done is passed over. key is called once a candidate, in the order of the
// batch.
//
// What fits is the host's own test: needed and growth tokens within what is left of the budget, a row, and for a new
// request a metadata slot.
func (w *Walker) Admit(b guest.AdmitBatch, key func(i int, r guest.AdmitRecord) int64) int32 {
	w.entries = w.entries[:0]
	for i := range b.Candidates() {
		w.entries = append(w.entries, entry{key(i, b.At(i)), i})
	}
	slices.SortFunc(w.entries, func(x, y entry) int {
		return cmp.Or(cmp.Compare(x.key, y.key), cmp.Compare(x.index, y.index))
	})
	g := b.Globals()
	budget, rows, slots := g.BudgetTokens(), g.FreeRows(), g.FreeSlots()
	stopped := false
	for place, e := range w.entries {
		r := b.At(e.index)
		resume := r.Kind() == abi.AdmitResume
		verdict := abi.VerdictDefer
		if !stopped && (resume || r.Flags()&abi.AdmitFlagReady != 0) {
			tokens := Tokens(r)
			if tokens <= budget && rows > 0 && (resume || slots > 0) {
				verdict = abi.VerdictAdmit
				budget -= tokens
				rows--
				if !resume {
					slots--
				}
			} else {
				stopped = true
			}
		}
		b.Set(e.index, verdict, place)
	}
	return int32(abi.StatusOK)
}

// Tokens is what the host books for a candidate: tokens to set aside now, and head-room to grow.
func Tokens(r guest.AdmitRecord) uint64 { return uint64(r.NeedTokens()) + uint64(r.GrowthTokens()) }
