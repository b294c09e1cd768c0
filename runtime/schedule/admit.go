package schedule

import (
	"fmt"
	"slices"

	"sluice/abi"
	"sluice/abi/guest"
	"sluice/kvcache/index"
	"sluice/plugins/standard"
)

// candidate is one request of the admit batch, as it was shown.
type candidate struct {
	req int32
	id  uint64
}

// hintsPerTick bounds the prefix matches recomputed for the admit batch in one tick; the walk itself always
// matches afresh, so a stale hint can only defer.
const hintsPerTick = 8

func nativeAdmit(name string) (func(guest.AdmitBatch) int32, error) {
	f, ok := standard.Admit(name)
	if !ok {
		return nil, fmt.Errorf("schedule: no shipped admit is named %q", name)
	}
	return f, nil
}

// floor is what the host holds back whatever reserve says: promised pages that are not set aside yet.
func (s *Scheduler) floor() (pages int) {
	for _, i := range s.transfer {
		if r := &s.reqs[i]; !r.setAside {
			pages += s.x.Owed(r.node)
		}
	}
	return pages
}

// growths is the head-room of every request that runs, waits, is in transfer or comes back.
func (s *Scheduler) growths() (pages int) {
	for _, list := range [4][]int32{s.running, s.waiting, s.transfer, s.resuming} {
		for _, i := range list {
			r := &s.reqs[i]
			pages += s.growth(r, len(r.pages))
		}
	}
	return pages
}

// budget is what admission may hand out, in pages; negative when less is left than is held back.
func (s *Scheduler) budget(held int) int { return s.x.Available() - held - s.growths() }

// resumeNeed is the pages a retracted request takes when it comes back, and its growth after that.
func (s *Scheduler) resumeNeed(r *request) (need, growth int) {
	n := ceilDiv(r.kv(), s.cfg.PageSize)
	return n, s.growth(r, n)
}

// newNeed is the same for a request of the prealloc queue, given its match.
func (s *Scheduler) newNeed(r *request, m index.Match) (need, growth int) {
	pages := ceilDiv(r.prompt, s.cfg.PageSize)
	return pages - m.Pages + m.Owed + m.Takes, s.growth(r, pages)
}

func (s *Scheduler) match(r *request) index.Match {
	return s.x.Match(r.space, r.tokens[:r.prompt])
}

// encodeAdmit builds the batch that the coming tick's admit answers, from replicated state alone: candidates
// first (retracted ones before new ones), then what runs.
func (s *Scheduler) encodeAdmit() {
	s.cand, s.nOut, s.nativeRun = s.cand[:0], 0, false
	for _, i := range s.retracted {
		if s.reqs[i].saveOp < 0 {
			s.cand = append(s.cand, candidate{i, s.reqs[i].id})
		}
	}
	for _, i := range s.prealloc[:s.lay.pre] {
		s.cand = append(s.cand, candidate{i, s.reqs[i].id})
	}
	s.nOut = len(s.cand)
	if s.nOut == 0 {
		return
	}
	n := s.nOut + len(s.running)
	size := abi.BatchSize(abi.Admit, n, s.nOut)
	s.batch = slices.Grow(s.batch[:0], size)[:size]
	b, err := abi.Begin(s.batch, abi.Admit, s.tick, s.policyEpoch, n, s.nOut)
	if err != nil {
		s.keep(err)
		return
	}
	p := s.cfg.PageSize
	free, available := s.x.Books(index.L1).Free, s.x.Available()
	held := max(s.heldLast, s.floor())
	growth := s.growths()
	var running uint64
	for _, i := range s.running {
		running += uint64(len(s.reqs[i].tokens))
	}
	b.PutAdmitGlobals(&abi.AdmitGlobals{
		TimeNS: s.timeNS, PageSize: uint32(p), Candidates: uint32(s.nOut),
		TotalTokens: uint64(s.cfg.L1Pages * p), FreeTokens: uint64(free * p), EvictableTokens: uint64((available - free) * p),
		HeldTokens: uint64(held * p), GrowthTokens: uint64(growth * p),
		BudgetTokens: uint64(max(available-held-growth, 0) * p),
		Running:      uint32(len(s.running)), Transfer: uint32(len(s.transfer)), Waiting: uint32(len(s.waiting)), Retracted: uint32(len(s.retracted)),
		FreeRows: uint32(max(s.rows(), 0)), FreeSlots: uint32(len(s.freeSlots)),
		ReservedDecodeTokens: uint32(s.cfg.ReservedDecodeTokens), ClipMaxNew: uint32(s.cfg.MaxNewTokens),
		RunningTokens: running, PrebuiltLast: uint32(s.prebuilt),
	})
	hints := 0
	for n, c := range s.cand {
		s.putCandidate(b, n, c.req, &hints)
	}
	for n, i := range s.running {
		r := &s.reqs[i]
		b.PutAdmit(s.nOut+n, &abi.AdmitRecord{ReqKey: r.id, Kind: abi.AdmitRunning, Tenant: r.tenant, Priority: r.priority,
			WaitTicks: s.ticksSince(r.entered), PromptTokens: uint32(r.prompt), OutputTokens: uint32(r.outputs()),
			MaxNewTokens: uint32(r.limit), GrowthTokens: uint32(s.growth(r, len(r.pages)) * p), Retractions: r.retracts})
	}
}

func (s *Scheduler) putCandidate(b abi.Batch, n int, i int32, hints *int) {
	r := &s.reqs[i]
	p := s.cfg.PageSize
	rec := abi.AdmitRecord{ReqKey: r.id, Tenant: r.tenant, Priority: r.priority, WaitTicks: s.ticksSince(r.entered),
		PromptTokens: uint32(r.prompt), OutputTokens: uint32(r.outputs()), MaxNewTokens: uint32(r.limit), Retractions: r.retracts}
	var need, growth int
	if r.queue == QueueRetracted {
		rec.Kind, rec.Flags = abi.AdmitResume, abi.AdmitFlagReady
		need, growth = s.resumeNeed(r)
	} else {
		if r.handshake >= WaitingForInput {
			rec.Flags = abi.AdmitFlagReady
		}
		if v := s.x.Structure(); r.seen != v+1 && *hints < hintsPerTick {
			*hints++
			r.matched, r.seen = s.match(r), v+1
		}
		need, growth = s.newNeed(r, r.matched)
		rec.MatchL1Tokens = uint32(r.matched.L1 * p)
		rec.MatchRestoreTokens = uint32((r.matched.Pages - r.matched.L1) * p)
	}
	rec.NeedTokens, rec.GrowthTokens = uint32(need*p), uint32(growth*p)
	b.PutAdmit(n, &rec)
}

func (s *Scheduler) ticksSince(t uint64) uint32 { return uint32(min(s.tick-t, 1<<32-1)) }

// rows is how many more requests may hold a row.
func (s *Scheduler) rows() int {
	return s.cfg.MaxRunning + s.cfg.MetadataSlots - len(s.running) - len(s.waiting) - len(s.transfer) - len(s.resuming) - len(s.quarantine)
}

// AdmitBatch says how many records the coming tick's admit batch has and how many of them are answered; 0, 0
// when nobody asks.
func (s *Scheduler) AdmitBatch() (n, nOut int) {
	if s.nOut == 0 {
		return 0, 0
	}
	return s.nOut + len(s.running), s.nOut
}

// EncodeAdmit copies the batch's globals and input records into b, which was begun with AdmitBatch's counts.
func (s *Scheduler) EncodeAdmit(b abi.Batch) {
	n, nOut := s.AdmitBatch()
	from, err := abi.View(s.batch, abi.Admit, n, nOut)
	if err != nil {
		return
	}
	copy(b.Globals, from.Globals)
	copy(b.In, from.In)
}

// validOrder checks what abi.CheckAdmitOut does (length, known verdicts, reserved bytes of zero, a permutation) and fills
// order with the candidates in walking order.
func validOrder(out []byte, n int, order *[]int32) bool {
	if len(out) != n*abi.AdmitOutStride {
		return false
	}
	o := slices.Grow((*order)[:0], n)[:n]
	for i := range o {
		o[i] = -1
	}
	*order = o
	for i := range n {
		a := abi.GetAdmitOut(out[i*abi.AdmitOutStride:])
		if a.Verdict > abi.VerdictReject || int64(a.Order) >= int64(n) || o[a.Order] >= 0 || out[i*abi.AdmitOutStride+2]|out[i*abi.AdmitOutStride+3] != 0 {
			return false
		}
		o[a.Order] = int32(i)
	}
	return true
}

// runNative answers the batch as it was shown with the native rule.
func (s *Scheduler) runNative() []byte {
	size := s.nOut * abi.AdmitOutStride
	if s.nativeRun {
		return s.native[:size]
	}
	s.nativeRun = true
	n, nOut := int(abi.GetHeader(s.batch).N), s.nOut
	s.native = slices.Grow(s.native[:0], size)[:size]
	f, err := nativeAdmit(s.cfg.AdmitNative)
	if err != nil {
		s.keep(err)
		return s.native
	}
	b, err := abi.View(s.batch, abi.Admit, n, nOut)
	if err != nil {
		s.keep(err)
		return s.native
	}
	clear(b.Out)
	v, ok := guest.OpenAdmit(s.batch)
	if !ok {
		s.keep(fmt.Errorf("schedule: the admit batch of tick %d is malformed", s.tick))
		return s.native
	}
	f(v)
	copy(s.native, b.Out)
	return s.native
}

// admit is step 8.
func (s *Scheduler) admit(b *Ballot, p Proposals, valid bool, setAside int, e *Effects) {
	s.takeHandshakes(b, e)
	total := s.cfg.L1Pages
	agreed := total - int(min(b.U64[s.lay.scalar(laneBudget)], uint64(total)))
	held := max(agreed-setAside, s.floor())
	s.heldLast = held
	if s.nOut == 0 {
		s.busy = s.tick
		return
	}
	// Without a policy's answer, nobody decides in its place where that is configured: not after a fault, and not until
	// every rank has the successor. All of this is replicated, so all ranks hold alike.
	hold := !valid && s.cfg.HoldOnFault[hookAdmit] && !s.hooks[hookAdmit].quarantined
	answer := p.Admit
	if !valid && !hold {
		answer = s.runNative()
		if !validOrder(answer, s.nOut, &s.order) {
			s.keep(fmt.Errorf("schedule: the native admit %q gave no permutation", s.cfg.AdmitNative))
			return
		}
	}
	switch {
	case !hold && s.letIn(answer, valid, held, e):
		s.busy = s.tick
		s.passed(hookReserve)
		if valid {
			s.passed(hookAdmit)
		}
	case s.relieve(valid || hold && !s.faulted(hookAdmit), held, e):
		s.heldLast = s.floor()
	case hold:
		s.counts.AdmitHeld++
	}
	// Only candidates can have left, and a queue may be far longer than what was shown.
	if slices.ContainsFunc(s.cand, func(c candidate) bool {
		r := &s.reqs[c.req]
		return r.id != c.id || r.queue != QueuePrealloc && r.queue != QueueRetracted
	}) {
		s.prealloc = slices.DeleteFunc(s.prealloc, func(i int32) bool { return s.reqs[i].queue != QueuePrealloc })
		s.retracted = slices.DeleteFunc(s.retracted, func(i int32) bool { return s.reqs[i].queue != QueueRetracted })
	}
}

// takeHandshakes reads the prealloc lanes; a peer that failed before any page was held ends its request.
func (s *Scheduler) takeHandshakes(b *Ballot, e *Effects) {
	gone := false
	for k := range s.lay.pre {
		// watchPeers may have removed entries; the lanes keep the order of the shown batch.
		i := s.laneRequest(k)
		if i < 0 {
			continue
		}
		r := &s.reqs[i]
		o := parseLane(b.U32[k])
		r.handshake = o.Value
		if o.Value == Failed {
			s.answer(i, FinishFailed, o.Reason, o.Rank, 0, e)
			e.add(Effect{Kind: EffectCancel, Request: r.id, Room: r.room, Peer: r.peer})
			gone = true
		}
	}
	if gone {
		s.prealloc = slices.DeleteFunc(s.prealloc, func(i int32) bool {
			if !s.reqs[i].answered {
				return false
			}
			s.release(i, e)
			s.dropRequest(i)
			return true
		})
	}
}

// laneRequest maps prealloc lane k to its request, -1 when it has left since the ballot was laid out.
func (s *Scheduler) laneRequest(k int) int32 {
	c := s.cand[s.nOut-s.lay.pre+k]
	if j, ok := s.byID[c.id]; !ok || j != c.req || s.reqs[c.req].queue != QueuePrealloc {
		return -1
	}
	return c.req
}

// letIn walks an answer and says whether anybody was admitted or resumed.
func (s *Scheduler) letIn(answer []byte, policy bool, held int, e *Effects) bool {
	before := s.counts.Admitted + s.opID
	s.walk(answer, policy, held, e)
	return s.counts.Admitted+s.opID != before
}

// walk admits in the agreed order until one does not fit.
func (s *Scheduler) walk(answer []byte, policy bool, held int, e *Effects) {
	budget := s.budget(held)
	owedBack := s.owedBack()
	for _, n := range s.order[:s.nOut] {
		c := s.cand[n]
		i := c.req
		r := &s.reqs[i]
		if j, ok := s.byID[c.id]; !ok || j != i {
			continue // it left earlier in this apply
		}
		a := abi.GetAdmitOut(answer[int(n)*abi.AdmitOutStride:])
		switch {
		case a.Verdict == abi.VerdictReject && r.queue == QueuePrealloc:
			s.note(0x72656a, r.id)
			e.add(Effect{Kind: EffectCancel, Request: r.id, Room: r.room, Peer: r.peer})
			s.end(i, FinishRefused, rejectReason(a.Reason), -1, 0, e)
			continue
		case a.Verdict != abi.VerdictAdmit:
			continue
		case r.queue == QueueRetracted:
			need, growth := s.resumeNeed(r)
			if need+growth > budget || s.rows() < 1 || s.room(OperationResume) == 0 {
				s.overruled(n, policy)
				return
			}
			budget -= need + growth
			owedBack -= need + growth
			s.resume(i, e)
		case r.queue == QueuePrealloc && r.handshake >= WaitingForInput:
			m := s.match(r)
			need, growth := s.newNeed(r, m)
			if need+growth > budget-owedBack || s.rows() < 1 || len(s.freeSlots) == 0 {
				s.overruled(n, policy)
				return
			}
			budget -= need + growth
			s.admitNew(i, m, e)
		}
	}
}

// owedBack is the pages of the retracted requests, which are theirs first, whatever an order says.
func (s *Scheduler) owedBack() (pages int) {
	for _, i := range s.retracted {
		need, growth := s.resumeNeed(&s.reqs[i])
		pages += need + growth
	}
	return pages
}

func rejectReason(r abi.Reason) abi.Reason {
	if r == 0 {
		return abi.ReasonRejected
	}
	return r
}

// overruled ends the walk at candidate n. It trips the rail only where the native rule would not have admitted it
// on the batch the policy was shown; what this tick's own changes took away is no fault of the policy's.
func (s *Scheduler) overruled(n int32, policy bool) {
	if !policy {
		return
	}
	s.counts.Overruled++
	if abi.GetAdmitOut(s.runNative()[int(n)*abi.AdmitOutStride:]).Verdict == abi.VerdictAdmit {
		s.counts.DeferredStale++
		return
	}
	s.counts.Rails[OverCapacity]++
}

// admitNew pins the promise, sets the suffix's pages aside and tells the peer where to write.
func (s *Scheduler) admitNew(i int32, m index.Match, e *Effects) {
	r := &s.reqs[i]
	s.clock++
	rc, node, err := s.x.Pin(r.space, r.tokens[:r.prompt], m.Pages, s.clock)
	if err != nil {
		s.keep(err)
		return
	}
	r.receipt, r.node, r.promise = rc, node, m.Pages
	if s.cfg.Score {
		s.keep(s.x.NoteFound(node))
	}
	n := ceilDiv(r.prompt, s.cfg.PageSize) - m.Pages
	if free := s.x.Books(index.L1).Free; free < n {
		s.x.Evict(index.L1, n-free)
	}
	// Room for all it can become, so that a step allocates nothing.
	r.pages, r.tokens = slices.Grow(r.pages[:0], r.full), slices.Grow(r.tokens, r.limit)
	for range m.Pages {
		r.pages = append(r.pages, index.NoPage)
	}
	pages, err := s.x.Alloc(index.L1, n, index.Private, r.pages)
	if err != nil {
		s.keep(err)
		return
	}
	r.pages, r.tree, r.held = pages, m.Pages, index.Private
	r.hitL1 = m.L1 * s.cfg.PageSize
	r.hitL2 = (m.Pages - m.L1) * s.cfg.PageSize
	r.setAside = m.L1 == m.Pages
	r.prev = Bootstrapping
	r.slot = s.freeSlots[0]
	s.freeSlots = append(s.freeSlots[:0], s.freeSlots[1:]...)
	s.counts.Admitted++
	s.counts.HitL1 += uint64(r.hitL1)
	s.counts.HitL2 += uint64(r.hitL2)
	s.counts.InputTokens += uint64(r.prompt)
	s.note(0x61646d, r.id<<24|uint64(m.Pages))
	s.move(i, QueueTransfer)
	s.transfer = append(s.transfer, i)
	promise := uint32(m.Pages * s.cfg.PageSize)
	e.add(Effect{Kind: EffectSend, Request: r.id, Room: r.room, Peer: r.peer, Row: uint32(i), Slot: uint32(r.slot),
		Promise: promise, Prompt: uint32(r.prompt), dst: e.pages(r.pages[m.Pages:])})
	e.add(Effect{Kind: EffectAdmitted, Request: r.id, Promise: promise, L1: uint32(r.hitL1), Prompt: uint32(r.prompt)})
}
