package schedule

import (
	"encoding/binary"
	"fmt"
	"slices"

	"sluice/abi"
	"sluice/kvcache/index"
)

// Proposals are this rank's own answers of the replicated hooks. Apply hashes them itself and uses them only
// where every rank's answer was valid and the hash is the agreed one.
type Proposals struct {
	Admit []byte // the out area of the admit batch; empty when the policy was not asked
	Score []byte // that of the score batch, likewise
}

// Apply is one tick of the group: a pure function of the replicated state, the reduced ballot and the
// proposals. It fills e, which it does not reset. On an error nothing more of the ballot is used: a *Mismatch
// means the ranks have diverged, a *ShapeError that the ballot is not this tick's; the state is as before. Any other
// error (a broken invariant, a malformed ingress stream) is found by every rank in the same tick and is final: the
// group has to form again.
func (s *Scheduler) Apply(b *Ballot, p Proposals, e *Effects) error {
	if s.broken != nil {
		return fmt.Errorf("schedule: tick %d: the state is no longer sound, form the group again: %w", s.tick, s.broken)
	}
	if err := s.checkHeader(b); err != nil {
		return err
	}
	if err := s.fits(b); err != nil {
		return err
	}
	if err := s.checkIngress(b); err != nil {
		return err
	}
	s.timeNS = max(s.timeNS, binary.LittleEndian.Uint64(b.Leader))
	s.prebuilt = 0
	if s.cfg.Ranks > 1 && b.U64[s.lay.scalar(laneTokenDigest)] != ^b.U64[s.lay.scalar(laneTokenDigestNot)] {
		s.counts.ModelDisagreed++
	}
	s.x.SetUsable(index.L1, s.usable(b, laneUsableL1, s.cfg.L1Pages))
	s.x.SetUsable(index.L2, s.usable(b, laneUsableL2, s.cfg.L2Pages))
	valid := s.judgeHooks(b, p, e)

	s.takeTokens(b, e)
	s.endOperations(b, e)
	s.settle(b, e)
	s.retireQuarantines(b, e)
	s.watchPeers(b, e)
	setAside := s.startRestores(e)
	s.grow(e)
	s.admit(b, p, valid, setAside, e)
	s.startBackups(e)
	s.flip(b, e)
	s.keep(s.takeIngress(b, e))
	s.tick++
	s.prepareNext()
	if s.broken != nil {
		return fmt.Errorf("schedule: tick %d: %w", s.tick-1, s.broken)
	}
	return nil
}

func (s *Scheduler) usable(b *Ballot, lane, total int) int {
	return int(min(b.U64[s.lay.scalar(lane)], uint64(total)))
}

// prepareNext fixes what the next ballot looks like: the step's requests, the lanes, the admit batch.
func (s *Scheduler) prepareNext() {
	s.lay = layout{
		ranks: s.cfg.Ranks,
		pre:   min(len(s.prealloc), s.cfg.AdmitWindow), xfer: len(s.transfer), quar: len(s.quarantine),
		ops: len(s.opList), peer: len(s.peers), step: len(s.step), ingress: s.in.next,
	}
	s.encodeAdmit()
	if s.cfg.Score {
		s.lay.score = 1
		s.encodeScore()
	}
}

// takeTokens is step 2: the tokens of the last step, stop conditions, finished requests.
func (s *Scheduler) takeTokens(b *Ballot, e *Effects) {
	for n, i := range s.step {
		r := &s.reqs[i]
		if r.queue != QueueRunning {
			continue
		}
		token := binary.LittleEndian.Uint32(b.Leader[s.lay.stepTokens()+4*n:])
		if token == NoToken {
			continue
		}
		if s.take(i, token, e) {
			s.running = remove(s.running, i)
			s.finish(i, e)
		}
	}
	s.step = s.step[:0]
}

// take appends one token and says whether the request is done; the client has been answered then.
func (s *Scheduler) take(i int32, token uint32, e *Effects) bool {
	r := &s.reqs[i]
	r.tokens = append(r.tokens, token)
	s.counts.OutputTokens++
	s.note(0x746f6b, r.id<<32^uint64(token))
	f := e.next()
	f.Kind, f.Request, f.Token = EffectToken, r.id, token
	switch {
	case slices.Contains(r.stops, token), !r.ignoreEOS && token == s.cfg.EOS && s.cfg.EOS != NoToken:
		s.answer(i, FinishStop, 0, -1, token, e)
	case r.outputs() >= r.limit:
		s.answer(i, FinishLength, 0, -1, 0, e)
	default:
		return false
	}
	return true
}

// publish hands the full pages of KV written so far to the tree. The last token never went through a forward
// pass, so a page that would hold it is not published.
func (s *Scheduler) publish(i int32, e *Effects) {
	r := &s.reqs[i]
	n := r.kv() / s.cfg.PageSize
	if n <= r.tree {
		return
	}
	s.clock++
	res, err := s.x.Insert(r.space, r.tokens[:n*s.cfg.PageSize], r.pages, r.tree, s.clock)
	if err != nil {
		s.keep(err)
		return
	}
	s.owned(res, r.tenant)
	if res.Published <= r.tree {
		return
	}
	rc, err := s.x.PinNode(res.Node, s.clock)
	if err != nil {
		s.keep(err)
		return
	}
	if r.receipt != (index.Receipt{}) {
		s.keep(s.x.Unpin(r.receipt))
	}
	r.receipt, r.node = rc, res.Node
	if res.Duplicates > 0 {
		// The table now points at the tree's pages; tell the rows in the same apply.
		e.row(i, r.tree, r.pages[r.tree:res.Published])
	}
	r.tree = res.Published
	if s.cfg.L2Pages > 0 {
		s.unbacked = s.x.AppendUnbacked(s.unbacked, res.Node)
	}
	s.note(0x707562, r.id<<24|uint64(res.Published))
}

// finish publishes what is complete and gives the rest back.
func (s *Scheduler) finish(i int32, e *Effects) {
	s.publish(i, e)
	s.release(i, e)
	s.dropRequest(i)
}

// settle is step 4: in queue order, for each entry the first that matches.
func (s *Scheduler) settle(b *Ballot, e *Effects) {
	gone := 0
	n := s.lay.xfer
	for k := range n {
		i := s.transfer[k]
		r := &s.reqs[i]
		o := parseLane(b.U32[s.lay.pre+k])
		ready := b.U8[s.lay.ready(k)] != 0
		giveUp := b.U8[s.lay.giveUp(k)] == 0
		if o.Value != r.prev {
			s.note(0x706f6c6c, r.id<<8|uint64(o.Value))
		}
		r.prev = o.Value
		s.holdLimit(r, &o, ready)
		switch {
		case o.Value == Failed:
			s.quarantineRequest(i, FinishFailed, o.Reason, o.Rank, e)
		case o.Value == RestoreFailed && r.pending == 0:
			// Its pages are quiescent: every rank's transfer is terminal and every copy it waited for has ended.
			s.end(i, FinishFailed, o.Reason, o.Rank, 0, e)
		case r.aborted:
			s.quarantineRequest(i, FinishAborted, abi.ReasonAborted, -1, e)
		case giveUp:
			s.quarantineRequest(i, FinishAborted, abi.ReasonDeadline, -1, e)
		case o.Value == Success:
			s.commit(i, binary.LittleEndian.Uint32(b.Leader[s.lay.firstTokens()+4*k:]), e)
		default:
			continue
		}
		s.transfer[k] = -1
		gone++
	}
	if gone > 0 {
		s.transfer = slices.DeleteFunc(s.transfer, func(i int32) bool { return i < 0 })
	}
}

// holdLimit lets the native vote stand once a policy has held a request that is ready everywhere for too long.
func (s *Scheduler) holdLimit(r *request, o *Outcome, ready bool) {
	if !ready || o.Value == Failed || r.pending > 0 {
		r.readySince = 0
		return
	}
	if r.readySince == 0 {
		r.readySince = s.tick
	}
	if o.Value > Transferring {
		s.passed(hookGate)
		return
	}
	if s.tick-r.readySince < uint64(s.cfg.HoldTicks) {
		return
	}
	s.counts.Rails[HoldLimit]++
	s.railFault(hookGate)
	if r.failed {
		*o = Outcome{Value: RestoreFailed, Reason: abi.ReasonRestoreFailed, Rank: -1}
	} else {
		*o = Outcome{Value: Success, Rank: -1}
	}
}

// commit completes the row of a request whose transfer and restore are good on every rank, and publishes its
// prompt.
func (s *Scheduler) commit(i int32, first uint32, e *Effects) {
	r := &s.reqs[i]
	if r.failed || r.pending > 0 || !r.setAside || first == NoToken || !s.pathValid(r.node) {
		// A policy cannot bring this about; the rails would have lowered its vote.
		s.keep(fmt.Errorf("request %d committed with an incomplete row", r.id))
		return
	}
	s.dst = s.x.AppendPages(s.dst[:0], index.L1, r.node)
	copy(r.pages, s.dst[:r.promise])
	e.row(i, 0, r.pages)
	e.add(Effect{Kind: EffectForget, Request: r.id, Room: r.room, Slot: uint32(r.slot)})
	s.freeSlots = append(s.freeSlots, r.slot)
	r.slot = -1
	s.commits++
	r.order = s.commits
	done := s.take(i, first, e)
	s.publish(i, e)
	if done {
		s.release(i, e)
		s.dropRequest(i)
		return
	}
	s.move(i, QueueWaiting)
	s.waiting = append(s.waiting, i)
}

// pathValid says whether every page on the path to node is good on the device.
func (s *Scheduler) pathValid(node index.NodeID) bool {
	s.path = s.x.AppendPath(s.path[:0], node)
	for _, n := range s.path {
		if info, ok := s.x.Node(n); !ok || info.L1 != index.L1Valid {
			return false
		}
	}
	return true
}

// quarantineRequest answers the client and keeps everything the peer may still write until every rank has
// reported it drained. Time is no proof.
func (s *Scheduler) quarantineRequest(i int32, k FinishKind, reason abi.Reason, rank int, e *Effects) {
	r := &s.reqs[i]
	s.answer(i, k, reason, rank, 0, e)
	e.add(Effect{Kind: EffectCancel, Request: r.id, Room: r.room, Slot: uint32(r.slot), Peer: r.peer})
	s.keep(s.x.Move(index.L1, r.pages[r.tree:], r.held, index.Quarantined))
	r.held = index.Quarantined
	s.move(i, QueueQuarantine)
	s.quarantine = append(s.quarantine, i)
}

// retireQuarantines is step 5.
func (s *Scheduler) retireQuarantines(b *Ballot, e *Effects) {
	gone := 0
	for k := range s.lay.quar {
		if b.U8[s.lay.drained(k)] == 0 {
			continue
		}
		i := s.quarantine[k]
		s.release(i, e)
		s.dropRequest(i)
		s.quarantine[k] = -1
		gone++
	}
	if gone > 0 {
		s.quarantine = slices.DeleteFunc(s.quarantine, func(i int32) bool { return i < 0 })
	}
}

// watchPeers fences a peer everywhere in the tick in which one rank reports it lost.
func (s *Scheduler) watchPeers(b *Ballot, e *Effects) {
	lost := false
	for k := range s.lay.peer {
		if b.U8[s.lay.peerUp(k)] != 0 {
			continue
		}
		p := s.peers[k]
		lost = true
		s.note(0x66656e63, uint64(p.id)<<32^p.incarnation)
		e.add(Effect{Kind: EffectFence, Peer: p.id, Value: p.incarnation})
		s.transfer = slices.DeleteFunc(s.transfer, func(i int32) bool {
			if s.reqs[i].peer != p.id {
				return false
			}
			s.quarantineRequest(i, FinishFailed, abi.ReasonPeerLost, -1, e)
			return true
		})
		s.prealloc = slices.DeleteFunc(s.prealloc, func(i int32) bool {
			if s.reqs[i].peer != p.id {
				return false
			}
			s.end(i, FinishFailed, abi.ReasonPeerLost, -1, 0, e)
			return true
		})
		s.peers[k].incarnation = 0
	}
	if lost {
		s.peers = slices.DeleteFunc(s.peers, func(p peer) bool { return p.incarnation == 0 })
	}
}

// grow is step 7: waiting requests join the batch, each request at a page edge takes a page, and where there is
// none the youngest are retracted until the rest fit.
func (s *Scheduler) grow(e *Effects) {
	join := max(min(len(s.waiting), s.cfg.MaxRunning-len(s.running)), 0)
	for _, i := range s.waiting[:join] {
		s.move(i, QueueRunning)
		s.running = append(s.running, i)
		s.prebuilt++
	}
	s.waiting = slices.Delete(s.waiting, 0, join)
	short := s.takePages(e)
	for short > 0 {
		// Pages that are being saved, retractions of this tick included, come back without another victim. A
		// retracted request whose pages are all the tree's has none in that state, so its save counts by itself.
		if s.x.Books(index.L1).Saving > 0 || s.opCount[OperationSave] > 0 {
			break
		}
		if victim := s.youngest(); victim >= 0 {
			s.running = remove(s.running, victim)
			s.waiting = remove(s.waiting, victim)
			s.retract(victim, e)
			short = s.takePages(e)
			continue
		}
		if len(s.running) == 1 && len(s.quarantine) == 0 && len(s.resuming) == 0 && s.transfersBlocked() {
			i := s.running[0]
			s.running = s.running[:0]
			if len(s.transfer) > 0 {
				// Its pages let the others' restores start; it comes back.
				s.retract(i, e)
				break
			}
			s.answer(i, FinishFailed, abi.ReasonCapacity, -1, 0, e)
			s.finish(i, e)
		}
		break
	}
	for _, i := range s.running {
		if s.short(&s.reqs[i]) {
			s.counts.SatOut++
			continue
		}
		s.step = append(s.step, i)
	}
}

// transfersBlocked says whether every entry in transfer waits for room to start its restore: none of them will run,
// and so none will give pages back, before somebody else does.
func (s *Scheduler) transfersBlocked() bool {
	for _, i := range s.transfer {
		if r := &s.reqs[i]; r.setAside || r.failed || r.pending > 0 {
			return false
		}
	}
	return true
}

// short says whether the next token's KV has no page yet.
func (s *Scheduler) short(r *request) bool { return r.kv()+1 > len(r.pages)*s.cfg.PageSize }

// takePages gives a page to each running request at a page edge, oldest first, and returns how many got none.
func (s *Scheduler) takePages(e *Effects) (short int) {
	for _, i := range s.running {
		r := &s.reqs[i]
		if !s.short(r) {
			continue
		}
		if s.x.Books(index.L1).Free == 0 && s.x.Evict(index.L1, 1) == 0 {
			short++
			continue
		}
		pages, err := s.x.Alloc(index.L1, 1, index.Private, r.pages)
		if err != nil {
			s.keep(err)
			return 0
		}
		r.pages = pages
		e.add(Effect{Kind: EffectRow, Row: uint32(i), At: uint32(len(pages) - 1), Value: 1, dst: e.pages(pages[len(pages)-1:])})
	}
	return short
}

// youngest is the last committed of the running and waiting requests, -1 when only one is left.
func (s *Scheduler) youngest() int32 {
	if len(s.running)+len(s.waiting) < 2 {
		return -1
	}
	best := int32(-1)
	for _, list := range [2][]int32{s.running, s.waiting} {
		for _, i := range list {
			if best < 0 || s.reqs[i].order > s.reqs[best].order {
				best = i
			}
		}
	}
	return best
}
