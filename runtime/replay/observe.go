package replay

import (
	"fmt"
	"slices"

	"sluice/abi"
	"sluice/kvcache/index"
	"sluice/runtime/schedule"
	"sluice/runtime/transfer"
)

// Submit hands a request to the prefill peer and to the group under one room, and returns its number.
func (w *World) Submit(q Request) uint64 {
	w.nextID++
	id := w.nextID
	room := q.Room
	if room == 0 {
		room = roomOf(id)
	}
	w.out[id] = &Outcome{ID: id, Ends: make([]End, len(w.ranks))}
	w.live++
	key := string(schedule.Space(q.Namespace, "stand-in", "default"))
	if w.cfg.Verify {
		o := w.base.Fork(key)
		for _, t := range q.Tokens {
			o.Extend(t)
		}
		w.oracles[id] = &o
	}
	m := schedule.Request{ID: id, Room: room, Peer: PeerID, Limit: uint32(q.Limit), Tenant: q.Tenant, Priority: q.Priority,
		Key: []byte(key), Tokens: q.Tokens, Stops: q.Stops}
	w.leader.Add(schedule.AppendAdd(nil, &m))
	if q.NoPrefill {
		return id
	}
	// A peer that refuses says so in the handshake, and one that is down answers none; the group learns it there.
	// The peer keeps the prompt, and the caller may use its slice again.
	_ = w.peer.Submit(transfer.Request{Room: room, Namespace: key, Tokens: slices.Clone(q.Tokens)})
	return id
}

// roomOf spreads rooms, so that nothing mistakes one for a request number. 0 is never issued.
func roomOf(id uint64) uint64 { return id*0x9e3779b97f4a7c15>>1 | 1 }

// observe takes in what a rank's apply has said.
func (w *World) observe(r int) {
	for i := range w.ranks[r].Effects().List {
		f := &w.ranks[r].Effects().List[i]
		if f.Kind == schedule.EffectPolicyEpoch {
			w.noteFlip(r, f)
		}
		o := w.out[f.Request]
		if o == nil {
			continue
		}
		switch f.Kind {
		case schedule.EffectAdmitted:
			if r == 0 {
				o.Prompt, o.Promise, o.L1 = int(f.Prompt), int(f.Promise), int(f.L1)
			}
		case schedule.EffectToken:
			if r == 0 {
				w.token(o, f.Token)
			}
		case schedule.EffectFinish:
			if o.Ends[r].Tick > 0 {
				w.twice = fmt.Errorf("request %d has ended twice on rank %d, at ticks %d and %d", f.Request, r, o.Ends[r].Tick, w.tick)
				continue
			}
			o.Ends[r] = End{Tick: w.tick, Kind: f.Finish, Reason: w.reasonText(f), Rank: int(f.Rank)}
			if r == 0 {
				w.live--
				delete(w.oracles, f.Request)
			}
		}
	}
}

func (w *World) reasonText(f *schedule.Effect) string {
	if w.cfg.ReasonText == nil {
		return abi.ReasonText(f.Reason)
	}
	return w.cfg.ReasonText(f.Finish, f.Reason)
}

func (w *World) token(o *Outcome, token uint32) {
	o.Tokens = append(o.Tokens, token)
	if m := w.oracles[o.ID]; m != nil {
		if m.Next(w.cfg.Vocab) != token {
			o.Wrong++
		}
		m.Extend(token)
	}
}

// noteFlying remembers which requests the peer may still write on which rank, before apply decides.
func (w *World) noteFlying() {
	w.flying, w.refs = w.flying[:0], w.refs[:0]
	for r, k := range w.ranks {
		s := k.Schedule()
		for i := range s.NumTransfer() {
			w.noteOne(r, s.Transfer(i).ID)
		}
		for i := range s.NumQuarantine() {
			w.noteOne(r, s.Quarantine(i).ID)
		}
	}
}

func (w *World) noteOne(r int, id uint64) {
	from := len(w.refs)
	w.refs = w.recv[r].InFlight(w.refs, id)
	if len(w.refs) > from {
		w.flying = append(w.flying, inFlight{r, id, from, len(w.refs)})
	}
}

// countFreed counts the pages that apply has just given back, or handed to another, although the peer could
// still write them.
func (w *World) countFreed() {
	for _, f := range w.flying {
		s := w.ranks[f.rank].Schedule()
		if s.Where(f.request) == schedule.QueueNone {
			w.FreedUnderWriter += uint64(f.to - f.from)
			continue
		}
		for _, ref := range w.refs[f.from:f.to] {
			if s.Generation(index.L1, index.Page(ref.Index)) != ref.Generation {
				w.FreedUnderWriter++
			}
		}
	}
}

// verify runs the oracles after a tick.
func (w *World) verify() error {
	if w.twice != nil {
		return w.twice
	}
	if w.FreedUnderWriter > 0 {
		return fmt.Errorf("tick %d: %d pages were freed under a writer", w.tick, w.FreedUnderWriter)
	}
	every := uint64(1)
	if w.cfg.Cheap {
		every = 64
	}
	first := w.ranks[0].Schedule()
	for r, k := range w.ranks {
		s := k.Schedule()
		if s.Digest() != first.Digest() || s.Shape() != first.Shape() {
			return fmt.Errorf("%w: tick %d: rank %d has digest %#x and lanes %+v, rank 0 %#x and %+v", ErrParted, w.tick, r,
				s.Digest(), s.Shape(), first.Digest(), first.Shape())
		}
		if w.tick%every == 0 {
			if err := s.Check(); err != nil {
				return fmt.Errorf("tick %d, rank %d: %w", w.tick, r, err)
			}
		}
	}
	return nil
}

// Drained reports what is still held once everything has ended: nil when every page is free or evictable.
func (w *World) Drained() error {
	for r, k := range w.ranks {
		for _, t := range []index.Tier{index.L1, index.L2} {
			b := k.Schedule().Books(t)
			held := b.Private + b.Saving + b.Loading + b.Quarantined
			if t == index.L1 {
				held += b.Locked
			}
			if held > 0 {
				return fmt.Errorf("rank %d, tier L%d: %+v with nothing queued", r, t+1, b)
			}
		}
	}
	for id := uint64(1); id <= w.nextID; id++ {
		o := w.out[id]
		for r, e := range o.Ends {
			if e.Tick == 0 || e != o.Ends[0] {
				return fmt.Errorf("request %d ended on rank 0 as %+v, on rank %d as %+v", id, o.Ends[0], r, e)
			}
		}
		if o.Wrong > 0 {
			return fmt.Errorf("request %d got %d wrong tokens of %d", id, o.Wrong, len(o.Tokens))
		}
	}
	return nil
}

// Rails are all rails by name, over all ranks: what gates and reserves tripped on each, what admit tripped in
// the group once.
func (w *World) Rails() map[string]uint64 {
	out := map[string]uint64{}
	group := w.ranks[0].Schedule().Counts().Rails
	for i := schedule.RailNone + 1; i < schedule.NumRails; i++ {
		n := group[i]
		for _, k := range w.ranks {
			n += k.Counts().Rails[i]
		}
		out[i.String()] = n
	}
	return out
}

// Raw is a rank's raw poll of a request in transfer as the last tick's ballot was made from it; false when the
// request was not in transfer.
func (w *World) Raw(r int, id uint64) (abi.Poll, bool) { return w.ranks[r].Raw(id) }
