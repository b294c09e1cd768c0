package rank

import (
	"sluice/abi"
	"sluice/collective"
	"sluice/runtime/schedule"
)

// before is what a resync has left behind on this rank: transfers and copies of the old epoch that may still touch
// pages. The group holds those pages until every rank reports them over.
type before struct {
	requests []uint64
	ops      map[uint64]bool
}

// BeginResync starts this rank's part in making the group equal again. The tick whose exchange found the divergence
// has applied nothing. Then, until ResyncDone: FillResync, one exchange of the vector, TakeResync; at last
// FinishResync.
func (r *Rank) BeginResync() { r.resync = schedule.NewResync(r.sched) }

// ResyncDone says whether all rounds are over.
func (r *Rank) ResyncDone() bool { return r.resync.Done() }

// FillResync fills this rank's vector of the coming round. It belongs to the rank and is reduced in place.
func (r *Rank) FillResync() *collective.Vector {
	shape := schedule.ResyncShape()
	r.vec.Reset(collective.Shape{U64: shape.U64, U32: shape.U32, U8: shape.U8, Leader: shape.Leader})
	r.resync.Fill(r.vec.U64, r.vec.U8)
	return &r.vec
}

// TakeResync reads the reduced round.
func (r *Rank) TakeResync() { r.resync.Take(r.vec.U64, r.vec.U8) }

// FinishResync takes over the state that all ranks agreed on, under the next group epoch; its effects are those of
// Effects. After an error the group cannot go on.
func (r *Rank) FinishResync() error {
	q := r.resync
	r.noteBefore()
	r.effects.Reset()
	if err := r.sched.FinishResync(q, &r.effects); err != nil {
		return err
	}
	r.resync = nil
	clear(r.results)
	for i := range r.rows {
		r.rows[i] = row{refs: r.rows[i].refs[:0]}
	}
	r.tokens = r.tokens[:0]
	if r.o.Leader != nil {
		if lost := r.o.Leader.realign(q.KeptPartial()); lost != 0 {
			r.effects.List = append(r.effects.List, schedule.Effect{Kind: schedule.EffectFinish, Request: lost,
				Finish: schedule.FinishFailed, Reason: abi.ReasonResync, Rank: -1})
		}
	}
	for i := range r.effects.List {
		r.effect(i)
	}
	return nil
}

// noteBefore remembers the transfers that have not been forgotten and the copies that have not ended.
func (r *Rank) noteBefore() {
	s := r.sched
	for i := range s.NumTransfer() {
		r.before.requests = append(r.before.requests, s.Transfer(i).ID)
	}
	for i := range s.NumQuarantine() {
		if id := s.Quarantine(i).ID; id != 0 {
			r.before.requests = append(r.before.requests, id)
		}
	}
	if r.before.ops == nil {
		r.before.ops = make(map[uint64]bool)
	}
	for i := range s.NumOperations() {
		id := s.Operation(i).ID
		if _, ended := r.results[id]; !ended {
			r.before.ops[id] = true
		}
	}
}

// beforeIsOver says whether nothing of the old epoch can touch a page on this rank any more.
func (r *Rank) beforeIsOver() bool {
	keep := r.before.requests[:0]
	for _, id := range r.before.requests {
		if r.o.Transport.Drained(id) {
			r.o.Transport.Forget(id)
			continue
		}
		keep = append(keep, id)
	}
	r.before.requests = keep
	return len(keep) == 0 && len(r.before.ops) == 0
}
