package schedule

import (
	"fmt"

	"sluice/abi"
	"sluice/kvcache/index"
)

// queueList is one queue by name.
type queueList struct {
	queue Queue
	list  []int32
}

func (s *Scheduler) queues() [7]queueList {
	return [...]queueList{{QueuePrealloc, s.prealloc}, {QueueTransfer, s.transfer}, {QueueWaiting, s.waiting}, {QueueRunning, s.running},
		{QueueRetracted, s.retracted}, {QueueResuming, s.resuming}, {QueueQuarantine, s.quarantine}}
}

// Check walks everything and reports the first broken invariant: the index's own books and locks, one queue per
// request, every metadata slot free or held once. It is for tests.
func (s *Scheduler) Check() error {
	if s.broken != nil {
		return s.broken
	}
	if err := s.x.Check(); err != nil {
		return err
	}
	return s.checkQueues()
}

func (s *Scheduler) checkQueues() error {
	n := 0
	for _, q := range s.queues() {
		for _, i := range q.list {
			r := &s.reqs[i]
			n++
			if r.queue != q.queue {
				return fmt.Errorf("schedule: request %d is listed in queue %v and says %v", r.id, q.queue, r.queue)
			}
			if r.prompt > 0 && r.full != s.footprint(r) {
				return fmt.Errorf("schedule: request %d can hold %d pages and says %d", r.id, s.footprint(r), r.full)
			}
			if j, ok := s.byID[r.id]; !ok || j != i {
				return fmt.Errorf("schedule: request %d in queue %v is unknown by its number", r.id, q.queue)
			}
		}
	}
	if n != len(s.byID) {
		return fmt.Errorf("schedule: %d requests are live, the queues hold %d", len(s.byID), n)
	}
	slots, rooms := len(s.freeSlots), 0
	for i := range s.reqs {
		r := &s.reqs[i]
		if r.live && r.slot >= 0 {
			slots++
		}
		slots += len(r.slots)
		if r.ownsRoom {
			rooms++
		}
	}
	if slots != s.cfg.MetadataSlots {
		return fmt.Errorf("schedule: %d metadata slots free or held, there are %d", slots, s.cfg.MetadataSlots)
	}
	if locks, want := s.x.Stats().Locks, s.locksHeld(); locks != want {
		return fmt.Errorf("schedule: the index has %d locks, requests and operations hold %d", locks, want)
	}
	if rooms != len(s.rooms) {
		return fmt.Errorf("schedule: %d rooms are taken, %d requests own one", len(s.rooms), rooms)
	}
	return nil
}

// locksHeld counts what holds a lock: promises, running loads and backups, and what failed loads left behind.
func (s *Scheduler) locksHeld() int {
	n := s.opCount[OperationLoad] + s.opCount[OperationBackup]
	for i := range s.reqs {
		if s.reqs[i].live && s.reqs[i].receipt != (index.Receipt{}) {
			n++
		}
	}
	for _, t := range s.rests {
		if t.retry < 0 {
			n++
		}
	}
	return n
}

// Checksum hashes the whole replicated state, not its history as Digest does: schedulers with equal checksums answer
// any further ballots alike. It costs a walk of everything and is for tests and resync.
func (s *Scheduler) Checksum() uint64 {
	h := mix(s.x.Checksum(), s.tick)
	add := func(vs ...uint64) {
		for _, v := range vs {
			h = mix(h, v)
		}
	}
	add(s.timeNS, s.policyEpoch, s.busy, s.noRoom[underFloor], s.noRoom[underHold], s.commits, s.clock, s.opID, s.in.lastID, uint64(s.in.next), uint64(s.heldLast), uint64(len(s.in.early)))
	add(hashBytes(s.in.partial), s.lay.hash())
	for _, q := range s.queues() {
		add(uint64(q.queue), uint64(len(q.list)))
		for _, i := range q.list {
			add(uint64(i), s.reqs[i].checksum())
		}
	}
	for _, i := range s.opList {
		o := &s.ops[i]
		add(o.id, uint64(o.kind), uint64(o.node), uint64(o.owner), uint64(o.pages), uint64(flag(o.retry)))
		for _, r := range o.joined {
			add(uint64(r))
		}
	}
	for _, t := range s.rests {
		add(uint64(t.node), uint64(t.pages), uint64(t.retry))
		for _, r := range t.joined {
			add(uint64(r))
		}
	}
	for _, n := range s.unbacked {
		add(uint64(n))
	}
	for _, p := range s.peers {
		add(uint64(p.id), p.incarnation)
	}
	for _, i := range s.freeSlots {
		add(uint64(i))
	}
	if s.cfg.Score {
		add(uint64(s.scoreNext), s.scoreSince, s.scoreTurn, uint64(len(s.scoreNodes)))
	}
	for h := range s.hooks {
		k := &s.hooks[h]
		add(uint64(flag(k.quarantined)), uint64(flag(k.down)), k.generation, k.passed)
		add(k.faults...)
		add(k.rails...)
	}
	return h
}

func (r *request) checksum() uint64 {
	h := mix(r.id, r.room)
	for _, v := range [...]uint64{uint64(r.peer), uint64(r.tenant), uint64(r.priority), uint64(r.space), uint64(r.queue), uint64(r.prompt),
		uint64(r.limit), r.arrived, r.entered, r.order, uint64(r.node), uint64(r.promise), uint64(r.pending), uint64(r.handshake),
		uint64(r.prev), r.readySince, uint64(r.tree), uint64(r.held), uint64(r.slot), uint64(r.saveOp), uint64(r.retracts),
		uint64(flag(r.setAside)), uint64(flag(r.failed)), uint64(flag(r.aborted)), uint64(flag(r.answered)), uint64(flag(r.ignoreEOS))} {
		h = mix(h, v)
	}
	for _, t := range r.tokens {
		h = mix(h, uint64(t))
	}
	for _, t := range r.stops {
		h = mix(h, uint64(t))
	}
	for _, p := range r.pages {
		h = mix(h, uint64(p))
	}
	for _, p := range r.saved {
		h = mix(h, uint64(p))
	}
	return h
}

// HookHealth is what the group has agreed about one hook's policy.
type HookHealth struct {
	Quarantined bool
	Down        bool   // no instance answers until every rank has Generation ready
	Generation  uint64 // replicated instance in use, or wanted while down
}

// Health returns the agreed health of a hook's policy.
func (s *Scheduler) Health(h abi.Hook) HookHealth {
	k := &s.hooks[hookLane(h)]
	return HookHealth{Quarantined: k.quarantined, Down: k.down, Generation: k.generation}
}
