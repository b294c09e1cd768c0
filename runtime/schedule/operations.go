package schedule

import (
	"slices"

	"sluice/kvcache/index"
)

// OperationKind says what an operation copies.
type OperationKind uint8

// The operations of the host tiers.
const (
	OperationLoad   OperationKind = iota // a node's host copy back to the device, for a restore
	OperationBackup                      // a node's pages to the host tier, write-through
	OperationSave                        // a retracted request's pages to the host tier
	OperationResume                      // and back
	numOperationKinds
)

// operation is one outstanding copy. It keeps its place in the ballot until every rank has ended it, also on a
// rank where it could not start.
type operation struct {
	id     uint64
	kind   OperationKind
	node   index.OpID // load and backup
	owner  int32      // load: who started it, the one that fails if it falls short; save and resume: the request
	pages  int
	retry  bool    // the one re-issue of what an earlier load left undone
	joined []int32 // load: requests that wait for it, owner included
}

func (s *Scheduler) newOperation(k OperationKind, pages int) int32 {
	var i int32
	if n := len(s.freeOps); n > 0 {
		i = s.freeOps[n-1]
		s.freeOps = s.freeOps[:n-1]
	} else {
		s.ops = append(s.ops, operation{})
		i = int32(len(s.ops) - 1)
	}
	s.opID++
	s.ops[i] = operation{id: s.opID, kind: k, pages: pages, owner: -1, joined: s.ops[i].joined[:0]}
	s.opList = append(s.opList, i)
	s.opCount[k]++
	s.note(0x6f70+uint64(k), s.opID<<20|uint64(pages))
	return i
}

// room is how many more operations of a kind may be outstanding.
func (s *Scheduler) room(k OperationKind) int { return s.cfg.Operations - s.opCount[k] }

func (s *Scheduler) issueNode(i int32, kind EffectKind, e *Effects) {
	o := &s.ops[i]
	s.src, s.dst = s.x.AppendOp(s.src[:0], s.dst[:0], o.node)
	e.add(Effect{Kind: kind, Operation: o.id, src: e.pages(s.src), dst: e.pages(s.dst)})
}

// endOperations is step 3 of apply: for each operation that has ended on every rank, with the smallest count of
// leading good pages.
func (s *Scheduler) endOperations(b *Ballot, e *Effects) {
	base := s.lay.pre + s.lay.xfer
	ended := 0
	s.spare = append(s.spare[:0], s.opList[:s.lay.ops]...)
	for n, i := range s.spare {
		lane := b.U32[base+n]
		if lane == 0 {
			continue
		}
		o := &s.ops[i]
		good := min(int(lane-1), o.pages)
		s.note(0x656e64, o.id<<20|uint64(good))
		ended++
		s.opCount[o.kind]--
		switch o.kind {
		case OperationLoad:
			s.endLoad(i, good, b.U8[s.lay.opGood(n)] == 0, e)
		case OperationBackup:
			s.keep(s.x.EndBackup(s.ops[i].node, good))
			s.counts.BackupPages += uint64(good)
		case OperationSave:
			s.endSave(i, good == o.pages, e)
		case OperationResume:
			s.endResume(i, good == o.pages, e)
		}
		s.ops[i].id = 0
	}
	if ended == 0 {
		return
	}
	// Slab entries return only now: one reused within the loop would be listed twice.
	s.opList = slices.DeleteFunc(s.opList, func(i int32) bool { return s.ops[i].id == 0 })
	for _, i := range s.spare {
		if s.ops[i].id == 0 {
			s.freeOps = append(s.freeOps, i)
		}
	}
}
