package schedule

import (
	"sluice/abi"
	"sluice/kvcache/index"
)

// Queue is where a request is. It is in exactly one.
type Queue uint8

// The queues of the decode side. Resuming requests have their pages set aside and wait for them to be copied
// back; quarantined ones are over for their client, their pages are not.
const (
	QueueNone Queue = iota
	QueuePrealloc
	QueueTransfer
	QueueWaiting
	QueueRunning
	QueueRetracted
	QueueResuming
	QueueQuarantine
)

var queueNames = [...]string{"none", "prealloc", "transfer", "waiting", "running", "retracted", "resuming", "quarantine"}

// String returns the queue's name as metrics and errors spell it.
func (q Queue) String() string {
	if int(q) < len(queueNames) {
		return queueNames[q]
	}
	return "unknown"
}

// request is one request's replicated record. It owns, through the index, the private pages of its table, one
// path lock (receipt), a metadata slot while in transfer or quarantine, and the host pages of a retraction;
// release gives back whatever of these it still holds.
type request struct {
	id       uint64
	room     uint64
	peer     uint32
	tenant   uint16
	priority uint16
	space    index.SpaceID
	key      []byte // canonical key of the space
	queue    Queue
	live     bool // slab entry in use
	ownsRoom bool // its room is taken until it is dropped

	tokens    []uint32 // prompt, then outputs
	stops     []uint32
	prompt    int // n
	limit     int // m
	full      int // footprint, pages
	ignoreEOS bool

	arrived uint64 // tick it entered its first queue
	entered uint64 // tick it entered the present queue
	order   uint64 // commit number; the greatest is the youngest

	// Promise: the leading pages found in a tier at admission, pinned by receipt until the outcome.
	receipt  index.Receipt
	node     index.NodeID
	promise  int  // pages
	hitL1    int  // tokens on the device at admission
	hitL2    int  // tokens promised from the host tier
	setAside bool // every promised page has a device number
	pending  int  // operations it waits for
	failed   bool // restore failed, agreed
	handshake,
	prev Value // last reduced value
	readySince uint64 // first tick of the present run of ticks in which every rank was ready; 0 = not
	aborted    bool   // its end is decided, its operations are not over yet
	answered   bool   // the client has its terminal event

	pages    []index.Page // table: tree-owned first, then private
	tree     int          // leading pages the tree owns
	held     index.State  // booked state of the private pages
	slot     int32        // metadata slot, -1 = none
	slots    []int32      // those that a resync holds back
	saved    []index.Page // host pages of a retraction
	saveOp   int32        // operation slab index of a save or resume, -1 = none
	retracts uint32

	// Last known match, a hint for the admit batch: recomputed when the tree has changed.
	matched index.Match
	seen    uint64
}

// outputs is o, the tokens generated so far.
func (r *request) outputs() int { return len(r.tokens) - r.prompt }

// kv is len, the tokens that have KV: the last output never went through a forward pass.
func (r *request) kv() int { return r.prompt + max(r.outputs()-1, 0) }

// left is how many more tokens the request may generate, the first one (which comes with the transfer) aside.
func (r *request) left() int { return max(r.limit-max(r.outputs(), 1), 0) }

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// growth is how many pages a request with `pages` pages must still be able to take: its reserved share of what
// it may generate, at least K tokens' worth, and never more than it can ever use.
func (s *Scheduler) growth(r *request, pages int) int {
	if s.cfg.Overcommit == 1 {
		return max(0, r.full-pages)
	}
	p := s.cfg.PageSize
	kv, left := r.kv(), r.left()
	want := ceilDiv(kv+s.overcommitted(left), p)
	want = max(want, pages+ceilDiv(min(s.cfg.ReservedDecodeTokens, left), p))
	return max(0, min(want, r.full)-pages)
}

func (s *Scheduler) overcommitted(left int) int {
	// The product is exact enough: left is below 2^31 and both factors are the same on every rank.
	v := float64(left) * s.cfg.Overcommit
	n := int(v)
	if float64(n) < v {
		n++
	}
	return n
}

// footprint is the most pages the request can ever hold.
func (s *Scheduler) footprint(r *request) int {
	return ceilDiv(r.prompt+max(r.limit-1, 0), s.cfg.PageSize)
}

func (s *Scheduler) newRequest() int32 {
	if n := len(s.freeReqs); n > 0 {
		i := s.freeReqs[n-1]
		s.freeReqs = s.freeReqs[:n-1]
		return i
	}
	s.reqs = append(s.reqs, request{})
	return int32(len(s.reqs) - 1)
}

// dropRequest returns the slab entry, keeping its slices' capacity.
func (s *Scheduler) dropRequest(i int32) {
	r := &s.reqs[i]
	delete(s.byID, r.id)
	if r.ownsRoom {
		delete(s.rooms, r.room)
	}
	s.note(0x64726f70, r.id)
	if cap(r.tokens) > 2*s.cfg.L1Pages*s.cfg.PageSize {
		r.tokens = nil // a prompt that could never fit does not stay in memory
	}
	*r = request{tokens: r.tokens[:0], key: r.key[:0], stops: r.stops[:0], pages: r.pages[:0], saved: r.saved[:0], slot: -1, saveOp: -1}
	s.freeReqs = append(s.freeReqs, i)
}

func (s *Scheduler) move(i int32, q Queue) {
	r := &s.reqs[i]
	r.queue, r.entered = q, s.tick
	s.note(uint64(q), r.id)
}

// release gives back everything the request still holds, by what is held and not by where it was. It is
// idempotent. Pages that a peer may still write must not be released: their request goes to quarantine first.
func (s *Scheduler) release(i int32, e *Effects) {
	s.releaseDevice(i, e)
	r := &s.reqs[i]
	if len(r.saved) > 0 {
		s.keep(s.x.Move(index.L2, r.saved, index.Private, index.Free))
		r.saved = r.saved[:0]
	}
	if r.slot >= 0 {
		e.add(Effect{Kind: EffectForget, Request: r.id, Room: r.room, Slot: uint32(r.slot)})
		s.freeSlots = append(s.freeSlots, r.slot)
		r.slot = -1
	}
	s.freeSlots = append(s.freeSlots, r.slots...)
	r.slots = nil
	s.leaveLoads(i)
}

// releaseDevice gives back the table's private pages and the path lock.
func (s *Scheduler) releaseDevice(i int32, e *Effects) {
	r := &s.reqs[i]
	if r.tree < len(r.pages) {
		s.keep(s.x.Move(index.L1, r.pages[r.tree:], r.held, index.Free))
	}
	if len(r.pages) > 0 {
		e.add(Effect{Kind: EffectFreeRow, Row: uint32(i)})
	}
	r.pages, r.tree, r.held = r.pages[:0], 0, index.Private
	if r.receipt != (index.Receipt{}) {
		s.keep(s.x.Unpin(r.receipt))
		r.receipt, r.node, r.promise = index.Receipt{}, 0, 0
	}
}

// answer delivers the terminal event, once.
func (s *Scheduler) answer(i int32, k FinishKind, reason abi.Reason, rank int, token uint32, e *Effects) {
	r := &s.reqs[i]
	if r.answered {
		return
	}
	r.answered = true
	s.counts.Finished[k]++
	s.note(0x66696e00+uint64(k), r.id<<8|uint64(reason))
	f := Effect{Kind: EffectFinish, Request: r.id, Finish: k, Reason: reason, Rank: int32(rank), Token: token}
	if reason == abi.ReasonNeverFits {
		f.Value = uint64(r.full)
	}
	e.add(f)
}

// keep records the first broken invariant; Apply reports it.
func (s *Scheduler) keep(err error) {
	if err != nil && s.broken == nil {
		s.broken = err
	}
}

// note folds one decision into the rolling digest.
func (s *Scheduler) note(tag, v uint64) { s.digest = mix(s.digest, tag<<48^v) }
