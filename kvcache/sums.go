package kvcache

import "sluice/gpu"

// sumTable holds the checksum of each L2 page, under the generation the page had when it was
// written. A page that has moved on to another generation has none.
type sumTable []sumEntry

type sumEntry struct {
	sum        uint64
	generation uint32
	known      bool
}

func newSumTable(pages int) sumTable { return make(sumTable, pages) }

func (t sumTable) get(ref gpu.Ref) (sum uint64, ok bool) {
	if int64(ref.Index) >= int64(len(t)) {
		return 0, false
	}
	e := t[ref.Index]
	return e.sum, e.known && e.generation == ref.Generation
}

// put and forget are told only of pages that a backup names; one out of range is the device's to
// refuse.
func (t sumTable) put(ref gpu.Ref, sum uint64) {
	if int64(ref.Index) < int64(len(t)) {
		t[ref.Index] = sumEntry{sum: sum, generation: ref.Generation, known: true}
	}
}

func (t sumTable) forget(ref gpu.Ref) {
	if int64(ref.Index) < int64(len(t)) {
		t[ref.Index] = sumEntry{}
	}
}
