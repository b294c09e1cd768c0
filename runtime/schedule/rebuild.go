package schedule

import (
	"cmp"
	"fmt"
	"slices"

	"sluice/abi"
	"sluice/kvcache/index"
)

// FinishResync replaces the state by the one that all ranks have agreed on, under the next group epoch, and says what
// the rank must do: end the requests that did not stay, write the rows of those that did, make a fresh replicated
// policy instance. Everything local that is keyed by row or operation starts anew. On an error, ErrResync, the state
// is as it was and the group cannot go on.
func (s *Scheduler) FinishResync(q *Resync, e *Effects) error {
	epoch := q.most[mostEpoch] + 1
	switch {
	case !q.Done():
		return fmt.Errorf("%w: not all rounds are over", ErrResync)
	case !q.same[sameConfig]:
		return fmt.Errorf("%w: their configurations differ", ErrResync)
	case epoch >= 1<<12:
		return fmt.Errorf("%w: this is epoch %d; generations last for 4095", ErrResync, epoch)
	}
	n, err := New(s.cfg, epoch)
	if err != nil {
		return err
	}
	// 2^20 hand-outs of one number an epoch; a reference of an earlier epoch is never good again.
	n.x, err = index.New(index.Config{PageSize: s.cfg.PageSize, L1Pages: s.cfg.L1Pages, L2Pages: s.cfg.L2Pages, FirstGeneration: uint32(epoch) << 20})
	if err != nil {
		return fmt.Errorf("schedule: %w", err)
	}
	n.resetScores()
	n.tick, n.timeNS, n.opID = q.most[mostTick]+1, q.most[mostTime], q.most[mostOperation]
	n.commits, n.policyEpoch, n.in.lastID = q.most[mostCommit], q.most[mostPolicyEpoch], q.most[mostLastID]
	n.counts = s.counts
	n.counts.Resyncs++
	from := len(e.List)
	q.carry(n, e)
	q.endOthers(n, e)
	for _, i := range q.ordered() {
		if err := n.adopt(&s.reqs[i], e); err != nil {
			e.List = e.List[:from]
			return fmt.Errorf("%w: %w", ErrResync, err)
		}
	}
	if err := q.hold(n); err != nil {
		e.List = e.List[:from]
		return fmt.Errorf("%w: %w", ErrResync, err)
	}
	n.x.SortFree(index.L1)
	n.x.SortFree(index.L2)
	n.note(0x7265, n.x.Checksum())
	n.prepareNext()
	*s = *n
	return nil
}

// carry takes over what is equal on all ranks, and has every rank use one policy epoch, with a fresh replicated instance.
func (q *Resync) carry(n *Scheduler, e *Effects) {
	if q.same[samePartial] {
		n.in.partial = slices.Clone(q.s.in.partial)
	}
	if q.same[samePeers] {
		n.peers = slices.Clone(q.s.peers)
	}
	// Some ranks may have flipped, or quarantined a policy, in the tick that parted them; all are brought to one state.
	g := q.most[mostGeneration] + 1
	e.add(Effect{Kind: EffectPolicyEpoch, Value: n.policyEpoch, Generation: g})
	for h := range n.hooks {
		k := &n.hooks[h]
		k.quarantined = q.same[sameQuarantined] && q.s.hooks[h].quarantined
		k.generation = g
		k.down = h == hookAdmit || h == hookScore && n.cfg.Score
		if k.quarantined {
			e.add(Effect{Kind: EffectQuarantine, Hook: hookOf(h)})
		}
	}
	e.add(Effect{Kind: EffectDiscard, Hook: abi.Admit, Value: g})
	if n.cfg.Score {
		e.add(Effect{Kind: EffectDiscard, Hook: abi.Score, Value: g})
		if n.hooks[hookScore].quarantined {
			n.x.ResetScores(false)
		}
	}
}

// endOthers answers the clients of requests that do not stay, and tells their peers to stop.
func (q *Resync) endOthers(n *Scheduler, e *Effects) {
	s := q.s
	var ids []uint64
	for id, i := range s.byID {
		if id != 0 && !slices.Contains(q.stay, i) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for _, id := range ids {
		r := &s.reqs[s.byID[id]]
		if r.queue == QueuePrealloc || r.queue == QueueTransfer {
			e.add(Effect{Kind: EffectCancel, Request: r.id, Room: r.room, Peer: r.peer})
		}
		if !r.answered {
			n.counts.Finished[FinishFailed]++
			e.add(Effect{Kind: EffectFinish, Request: r.id, Finish: FinishFailed, Reason: abi.ReasonResync, Rank: -1})
		}
	}
}

// ordered is the records that stay, in an order that does not depend on this rank's history.
func (q *Resync) ordered() []int32 {
	out := slices.Clone(q.stay)
	slices.SortFunc(out, func(a, b int32) int {
		x, y := &q.s.reqs[a], &q.s.reqs[b]
		return cmp.Or(cmp.Compare(x.order, y.order), cmp.Compare(x.id, y.id))
	})
	return out
}

// adopt takes a record into the new state: its pages are claimed by number, and what the tree owned of them is
// published again.
func (s *Scheduler) adopt(old *request, e *Effects) error {
	i := s.newRequest()
	r := &s.reqs[i]
	*r = request{id: old.id, room: old.room, peer: old.peer, tenant: old.tenant, priority: old.priority, key: slices.Clone(old.key),
		live: true, tokens: slices.Clone(old.tokens), stops: slices.Clone(old.stops), prompt: old.prompt, limit: old.limit, full: old.full,
		ignoreEOS: old.ignoreEOS, arrived: s.tick, order: old.order, handshake: Bootstrapping, slot: -1, saveOp: -1, retracts: old.retracts,
		pages: slices.Clone(old.pages), held: index.Private, hitL1: old.hitL1, hitL2: old.hitL2}
	r.space = s.x.Space(r.key)
	s.byID[r.id] = i
	if r.room != 0 && !s.rooms[r.room] {
		s.rooms[r.room], r.ownsRoom = true, true
	}
	s.move(i, old.queue)
	switch old.queue {
	case QueuePrealloc:
		s.prealloc = append(s.prealloc, i)
	case QueueWaiting, QueueRunning:
		if err := s.adoptPages(i, old.tree); err != nil {
			return err
		}
		// The numbers have new generations, as if handed out just now; the bytes stay.
		e.add(Effect{Kind: EffectRow, Row: uint32(i), Value: 1, dst: e.pages(r.pages)})
		if old.queue == QueueWaiting {
			s.waiting = append(s.waiting, i)
		} else {
			s.running = append(s.running, i)
		}
	}
	return nil
}

// adoptPages claims the pages of a running request. Leading pages that another one brought into the tree already
// must be the same numbers there.
func (s *Scheduler) adoptPages(i int32, tree int) error {
	r := &s.reqs[i]
	s.clock++
	m := s.x.Match(r.space, r.tokens[:tree*s.cfg.PageSize])
	s.dst = s.x.AppendPages(s.dst[:0], index.L1, m.Node)
	if len(s.dst) < m.Pages || !slices.Equal(s.dst[:m.Pages], r.pages[:m.Pages]) {
		return fmt.Errorf("request %d holds other pages than the tree for the same tokens", r.id)
	}
	if err := s.x.Claim(index.L1, r.pages[m.Pages:], index.Private); err != nil {
		return err
	}
	if tree == 0 {
		return nil
	}
	res, err := s.x.Insert(r.space, r.tokens[:tree*s.cfg.PageSize], r.pages, m.Pages, s.clock)
	if err != nil {
		return err
	}
	s.owned(res, r.tenant)
	r.receipt, err = s.x.PinNode(res.Node, s.clock)
	r.node, r.tree = res.Node, res.Published
	s.unbacked = s.x.AppendUnbacked(s.unbacked, res.Node)
	return err
}

// hold books every spoilt page and slot under one quarantined record with number 0, which every rank reports drained
// once its old transfers and copies are over.
func (q *Resync) hold(n *Scheduler) error {
	i := n.newRequest()
	r := &n.reqs[i]
	*r = request{live: true, answered: true, aborted: true, slot: -1, saveOp: -1, held: index.Quarantined}
	r.pages = named(q.bad[index.L1])
	r.saved = named(q.bad[index.L2])
	for v, bad := range q.slots {
		if bad {
			r.slots = append(r.slots, int32(v))
		}
	}
	n.freeSlots = slices.DeleteFunc(n.freeSlots, func(v int32) bool { return q.slots[v] })
	if err := n.x.Claim(index.L1, r.pages, index.Quarantined); err != nil {
		return err
	}
	if err := n.x.Claim(index.L2, r.saved, index.Private); len(r.saved) > 0 && err != nil {
		return err
	}
	n.byID[0] = i
	n.move(i, QueueQuarantine)
	n.quarantine = append(n.quarantine, i)
	return nil
}

func named(bad []bool) (pages []index.Page) {
	for p, v := range bad {
		if v {
			pages = append(pages, index.Page(p))
		}
	}
	return pages
}
