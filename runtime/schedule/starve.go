package schedule

import (
	"slices"

	"sluice/abi"
)

// Places of noRoom.
const (
	underFloor = iota // with nothing held back but the floor
	underHold         // under what reserve holds back
	numHolds
)

// relieve is the rail starved, for a tick in which the answer in force let nobody in: where nothing runs or transfers and
// the head of the queue has had room for starve_ticks, native reserve and admit apply. It says whether they let anybody in,
// which starts the wait anew. A head that has no room (its pages are under a peer that may still write, its handshake takes
// long) is starved by nobody. judged says whether admit's policy answered, or its fault did.
func (s *Scheduler) relieve(judged bool, held int, e *Effects) bool {
	if len(s.running)+len(s.waiting)+len(s.transfer)+len(s.resuming) > 0 {
		// A long queue is no starvation: the wait counts from when nothing ran any more.
		s.busy = s.tick
		return false
	}
	s.noteRoom(held)
	i := s.head()
	if i < 0 {
		return false
	}
	// An answer is to the batch of the tick before, so that the first tick with room is no policy's.
	n := uint64(max(s.cfg.StarveTicks, 2))
	since := max(s.reqs[i].entered, s.busy)
	switch {
	case s.tick-since < n:
		return false
	case s.noRoom[underFloor] == s.tick:
		if len(s.quarantine)+len(s.opList) == 0 {
			s.endStarved(e)
		}
		return false
	case s.tick-s.noRoom[underFloor] < n || !s.letIn(s.admitAll(), false, s.floor(), e):
		return false
	}
	s.counts.Rails[Starved]++
	s.busy = s.tick
	// The fault is the policy's whose native alone would have been enough: admit's, if there was room under all that
	// reserve held back; else reserve's.
	switch {
	case s.tick-s.noRoom[underHold] < n:
		if !s.hooks[hookReserve].quarantined && !s.faulted(hookReserve) {
			s.railFault(hookReserve)
		}
	case judged:
		s.railFault(hookAdmit)
	}
	return true
}

// noteRoom notes where there is no room for the head in this tick.
func (s *Scheduler) noteRoom(held int) {
	floor := s.floor()
	switch {
	case !s.headFits(floor):
		s.noRoom[underFloor], s.noRoom[underHold] = s.tick, s.tick
	case held > floor && !s.headFits(held):
		s.noRoom[underHold] = s.tick
	}
}

// headFits says whether native admit would let anybody in: whether the head of the queue has room.
func (s *Scheduler) headFits(held int) bool {
	i := s.head()
	if i < 0 || s.rows() < 1 {
		return false
	}
	r := &s.reqs[i]
	budget := s.budget(held)
	if r.queue == QueueRetracted {
		need, growth := s.resumeNeed(r)
		return need+growth <= budget && s.room(OperationResume) > 0
	}
	need, growth := s.newNeed(r, s.match(r))
	return need+growth <= budget-s.owedBack() && len(s.freeSlots) > 0
}

// admitAll is native admit's answer in a starved tick: every candidate in order, for the walk's own arithmetic to stop. A
// shipped rule that keeps head-room of its own could starve an empty group as well as a policy can.
func (s *Scheduler) admitAll() []byte {
	s.nativeRun = false
	size := s.nOut * abi.AdmitOutStride
	s.native = slices.Grow(s.native[:0], size)[:size]
	s.order = s.order[:0]
	for n := range s.nOut {
		abi.PutAdmitOut(s.native[n*abi.AdmitOutStride:], &abi.AdmitOut{Verdict: abi.VerdictAdmit, Order: uint32(n)})
		s.order = append(s.order, int32(n))
	}
	return s.native
}

// head is the first candidate that could be admitted, -1 when there is none.
func (s *Scheduler) head() int32 {
	for _, c := range s.cand {
		r := &s.reqs[c.req]
		if r.id != c.id || !r.live || r.queue == QueuePrealloc && r.handshake < WaitingForInput {
			continue
		}
		return c.req
	}
	return -1
}

// endStarved ends the head of the queue that does not fit although nothing else is there: the device has shrunk below
// what the request needs, and no wait is without an end.
func (s *Scheduler) endStarved(e *Effects) {
	i := s.head()
	if i < 0 {
		return
	}
	r := &s.reqs[i]
	if r.queue == QueuePrealloc {
		e.add(Effect{Kind: EffectCancel, Request: r.id, Room: r.room, Peer: r.peer})
		s.prealloc = remove(s.prealloc, i)
	} else {
		s.retracted = remove(s.retracted, i)
	}
	s.end(i, FinishFailed, abi.ReasonCapacity, -1, 0, e)
}
