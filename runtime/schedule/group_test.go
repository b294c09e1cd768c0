package schedule

import (
	"fmt"
	"slices"
	"testing"

	"sluice/abi"
	"sluice/kvcache/index"
)

// group drives n schedulers in lock-step with scripted local facts and no device: the smallest thing that can
// show two ranks deciding differently. The oracles (books, sameness) run after every tick.
type group struct {
	t     *testing.T
	ranks []*Scheduler
	tick  uint64

	stream []byte
	urgent []uint64
	nextID uint64

	// Facts, by rank. Absent entries mean the healthy default.
	shake     func(rank int, id uint64) abi.Poll                                            // handshake poll; default WaitingForInput
	raw       func(rank int, id uint64, age uint32) abi.Poll                                // transfer poll; default Success
	reason    func(rank int, id uint64) abi.Reason                                          // of a failed transfer
	vote      func(rank int, raw abi.Poll, r abi.RestoreStatus, id uint64) (abi.Poll, bool) // gate; default restore-gated
	load      func(rank int, op OperationView, first bool) (ended bool, good int, bad bool) // default: ends at once, all good
	drain     func(rank int, id uint64) bool                                                // default true
	held      func(rank int) uint64                                                         // reserve; default 0 (the floor)
	token     func(id uint64, n int) uint32
	admit     func(rank int, out []byte, n int) []byte // tampers with a rank's proposal; nil = it faulted
	score     func(rank int, out []byte, n int) []byte // likewise of the lfu keys
	hookOK    func(rank int, h abi.Hook) bool          // validity of gate and reserve; default true
	peerUp    func(rank int, p PeerView) bool          // default true
	usable    func(rank int) (l1, l2 int)              // default all
	ready     func(rank int) uint64                    // generation of the admit instance; default far ahead
	lost      func(rank int, h abi.Hook) bool          // the instance is gone though the hook is not down
	epoch     func(rank int) uint64                    // highest policy epoch ready; default the one in force
	now       func() uint64                            // rank 0's clock, ns
	lastVotes []map[uint64]Value                       // this tick's votes by rank and request
	tap       func(b *Ballot, p Proposals)             // sees each reduced ballot before it is applied

	prompts map[uint64][]uint32
	devices []*device
	results []map[uint64]opResult
	effects []Effects
	events  [][]event // by rank
	rails   [NumRails]int
	prop    [][]byte // this tick's admit answers by rank; nil = faulted
	scores  [][]byte // likewise of score
}

type opResult struct {
	ended bool
	good  int
	bad   bool
}

type event struct {
	tick uint64
	Effect
}

func testConfig(ranks, pageSize, l1, l2 int) Config {
	return Config{Ranks: ranks, PageSize: pageSize, L1Pages: l1, L2Pages: l2, MaxRunning: 64, MetadataSlots: 64,
		MaxNewTokens: 4096, MaxQueue: 1024, Overcommit: 1, HoldTicks: 50, StarveTicks: 50, AdmitWindow: 64,
		Operations: 64, LoadFailures: 3, Quarantine: QuarantineAll(3, 1000), IngressSlice: 1 << 16,
		EOS: NoToken, AdmitNative: "greedy"}
}

func newGroup(t *testing.T, cfg Config) *group {
	t.Helper()
	g := newGroupWithout(t, cfg)
	g.stream = AppendPeer(nil, 1, 1)
	g.steps(2)
	return g
}

// newGroupWithout is a group that knows no peer.
func newGroupWithout(t *testing.T, cfg Config) *group {
	t.Helper()
	g := &group{t: t, prop: make([][]byte, cfg.Ranks), scores: make([][]byte, cfg.Ranks), prompts: map[uint64][]uint32{}}
	for range cfg.Ranks {
		s, err := New(cfg, 1)
		if err != nil {
			t.Fatal(err)
		}
		g.ranks = append(g.ranks, s)
		g.results = append(g.results, map[uint64]opResult{})
		g.effects = append(g.effects, Effects{})
		g.events = append(g.events, nil)
		g.devices = append(g.devices, newDevice(cfg))
		g.lastVotes = append(g.lastVotes, map[uint64]Value{})
	}
	return g
}

// add queues a request of the given prompt; its tokens count up from base so that equal bases share a prefix.
func (g *group) add(base, prompt, limit int) uint64 {
	return g.addRequest(Request{Limit: uint32(limit), Tokens: counting(base, prompt)})
}

func counting(base, n int) (tokens []uint32) {
	for i := range n {
		tokens = append(tokens, uint32(base+i))
	}
	return tokens
}

// addRequest numbers a request, fills in what it leaves out, and queues it.
func (g *group) addRequest(r Request) uint64 {
	g.nextID++
	r.ID = g.nextID
	if r.Room == 0 {
		r.Room = 1000 + r.ID
	}
	if r.Peer == 0 {
		r.Peer = 1
	}
	if r.Key == nil {
		r.Key = Space("default", "m", "l")
	}
	g.prompts[r.ID] = r.Tokens
	g.stream = AppendAdd(g.stream, &r)
	return r.ID
}

// abort puts a request into the urgent slot.
func (g *group) abort(id uint64) { g.urgent = append(g.urgent, id) }

func (g *group) ballots() []*Ballot {
	var out []*Ballot
	for rank, s := range g.ranks {
		out = append(out, g.fill(rank, s))
	}
	return out
}

func newBallot(sh Shape) *Ballot {
	b := &Ballot{U64: make([]uint64, sh.U64), U32: make([]uint32, sh.U32), U8: make([]byte, sh.U8), Leader: make([]byte, sh.Leader)}
	for i := range b.U64 {
		b.U64[i] = ^uint64(0)
	}
	for i := range b.U32 {
		b.U32[i] = ^uint32(0)
	}
	for i := range b.U8 {
		b.U8[i] = 255
	}
	for i := range b.Leader {
		b.Leader[i] = 255
	}
	return b
}

func (g *group) restore(rank int, e Entry) abi.RestoreStatus {
	s := g.ranks[rank]
	switch {
	case e.RestoreFailed:
		return abi.RestoreFailed
	case !e.SetAside:
		return abi.RestorePending
	case e.Pending == 0:
		return abi.RestoreReady
	}
	pending, failed := false, false
	for i := range s.NumOperations() {
		waits, owner := s.Waits(e.Row, i)
		if !waits {
			continue
		}
		op := s.Operation(i)
		r := g.results[rank][op.ID]
		switch {
		case !r.ended:
			pending = true
		case r.good == op.Pages:
		case owner || r.bad:
			failed = true
		default:
			pending = true
		}
	}
	switch {
	case pending:
		return abi.RestorePending
	case failed:
		return abi.RestoreFailed
	}
	return abi.RestoreReady
}

func (g *group) fill(rank int, s *Scheduler) *Ballot {
	b := newBallot(s.Shape())
	ready := s.PolicyEpoch()
	if g.epoch != nil {
		ready = g.epoch(rank)
	}
	if err := s.FillHeader(b, rank, ready); err != nil {
		g.t.Fatal(err)
	}
	g.fillOperations(rank, s, b)
	for i := range s.NumHandshake() {
		poll := abi.PollWaitingForInput
		if g.shake != nil {
			poll = g.shake(rank, s.Handshake(i).ID)
		}
		s.SetHandshake(b, i, GateHandshake(poll, 0, rank))
	}
	g.fillTransfers(rank, s, b)
	for i := range s.NumQuarantine() {
		id := s.Quarantine(i).ID
		drained := g.drain == nil || g.drain(rank, id)
		if drained {
			g.devices[rank].letGo(id)
		} else {
			g.devices[rank].scribble(id)
		}
		s.SetDrained(b, i, drained)
	}
	for i := range s.NumPeers() {
		s.SetPeer(b, i, g.peerUp == nil || g.peerUp(rank, s.Peer(i)))
	}
	l1, l2 := s.cfg.L1Pages, s.cfg.L2Pages
	if g.usable != nil {
		l1, l2 = g.usable(rank)
	}
	s.SetUsable(b, l1, l2)
	var held uint64
	if g.held != nil {
		held = g.held(rank)
	}
	s.SetBudget(b, held)
	s.SetHook(b, abi.Gate, g.hookOK == nil || g.hookOK(rank, abi.Gate))
	s.SetHook(b, abi.Reserve, g.hookOK == nil || g.hookOK(rank, abi.Reserve))
	asked := g.proposal(rank, s)
	s.SetHook(b, abi.Admit, !asked || g.prop[rank] != nil)
	gen := uint64(1 << 40)
	if g.ready != nil {
		gen = g.ready(rank)
	}
	has := func(h abi.Hook) uint64 {
		if g.lost != nil && g.lost(rank, h) {
			return s.Health(h).Generation - 1
		}
		return gen
	}
	s.SetAdmit(b, g.prop[rank], has(abi.Admit))
	asked = g.propose(rank, s)
	s.SetHook(b, abi.Score, !asked || g.scores[rank] != nil)
	s.SetScore(b, g.scores[rank], has(abi.Score))
	s.SetTokenDigest(b, 0)
	if rank == 0 {
		g.fillLeader(s, b)
	}
	return b
}

func (g *group) fillOperations(rank int, s *Scheduler, b *Ballot) {
	for i := range s.NumOperations() {
		op := s.Operation(i)
		r, seen := g.results[rank][op.ID]
		if !r.ended {
			r = opResult{ended: true, good: op.Pages}
			if g.load != nil {
				r.ended, r.good, r.bad = g.load(rank, op, !seen)
			}
			g.results[rank][op.ID] = r
			if r.ended {
				g.devices[rank].copy(op.ID, r.good)
			}
		}
		s.SetOperation(b, i, r.ended, r.good, r.bad)
	}
}

func (g *group) fillTransfers(rank int, s *Scheduler, b *Ballot) {
	clear(g.lastVotes[rank])
	for i := range s.NumTransfer() {
		e := s.Transfer(i)
		raw := abi.PollSuccess
		if g.raw != nil {
			raw = g.raw(rank, e.ID, e.Age)
		}
		if raw == abi.PollSuccess {
			g.devices[rank].write(e.ID, g.prompts[e.ID], s.cfg.PageSize)
		} else {
			g.devices[rank].scribble(e.ID)
		}
		st := g.restore(rank, e)
		vote, giveUp := raw, false
		if raw == abi.PollSuccess && st == abi.RestorePending {
			vote = abi.PollTransferring
		}
		if raw == abi.PollSuccess && st == abi.RestoreFailed {
			vote = abi.PollFailed
		}
		if g.vote != nil {
			vote, giveUp = g.vote(rank, raw, st, e.ID)
		}
		o := Observation{Raw: raw, Restore: st}
		if g.reason != nil {
			o.Reason = g.reason(rank, e.ID)
		}
		v, rail := Gate(o, vote, 0, rank)
		g.rails[rail]++
		g.lastVotes[rank][e.ID] = v.Value()
		s.SetTransfer(b, i, v, giveUp, raw == abi.PollSuccess && st != abi.RestorePending, true)
		if rank == 0 && raw == abi.PollSuccess {
			s.SetFirstToken(b, i, g.tokenOf(e.ID, 0))
		}
	}
}

func (g *group) fillLeader(s *Scheduler, b *Ballot) {
	now := g.tick * 1e6
	if g.now != nil {
		now = g.now()
	}
	s.SetLeaderTime(b, now)
	for i := range s.NumStep() {
		v := s.Step(i)
		s.SetStepToken(b, i, g.tokenOf(v.Request, v.Len))
	}
	k := s.SetUrgent(b, g.urgent)
	g.urgent = g.urgent[k:]
	n := s.IngressLen()
	if err := s.SetIngress(b, g.stream[:n], len(g.stream)-n); err != nil {
		g.t.Fatal(err)
	}
	g.stream = g.stream[n:]
}

func (g *group) tokenOf(id uint64, n int) uint32 {
	if g.token != nil {
		return g.token(id, n)
	}
	return uint32(100000 + int(id)*1000 + n)
}

// proposal answers the rank's admit batch with the native rule, then lets the test tamper with it.
// It says whether the policy was asked.
func (g *group) proposal(rank int, s *Scheduler) bool {
	g.prop[rank] = nil
	if s.nOut == 0 || !s.PolicyAnswers(abi.Admit) {
		return false
	}
	s.nativeRun = false
	out := slices.Clone(s.runNative())
	s.nativeRun = false
	if g.admit != nil {
		out = g.admit(rank, out, s.nOut)
	}
	g.prop[rank] = out
	return true
}

func reduce(bs []*Ballot) {
	for _, b := range bs[1:] {
		for i, v := range b.U64 {
			bs[0].U64[i] = min(bs[0].U64[i], v)
		}
		for i, v := range b.U32 {
			bs[0].U32[i] = min(bs[0].U32[i], v)
		}
		for i, v := range b.U8 {
			bs[0].U8[i] = min(bs[0].U8[i], v)
		}
		for i, v := range b.Leader {
			bs[0].Leader[i] = min(bs[0].Leader[i], v)
		}
	}
	for _, b := range bs[1:] {
		copy(b.U64, bs[0].U64)
		copy(b.U32, bs[0].U32)
		copy(b.U8, bs[0].U8)
		copy(b.Leader, bs[0].Leader)
	}
}

// step is one tick of the whole group, with the oracles after it.
func (g *group) step() {
	g.t.Helper()
	g.tick++
	bs := g.ballots()
	reduce(bs)
	if g.tap != nil {
		g.tap(bs[0], Proposals{Admit: g.prop[0], Score: g.scores[0]})
	}
	for rank, s := range g.ranks {
		g.effects[rank].Reset()
		if err := s.Apply(bs[rank], Proposals{Admit: g.prop[rank], Score: g.scores[rank]}, &g.effects[rank]); err != nil {
			g.t.Fatalf("tick %d, rank %d: %v", g.tick, rank, err)
		}
		for _, f := range g.effects[rank].List {
			g.events[rank] = append(g.events[rank], event{g.tick, f})
		}
		g.oracles(rank, s)
	}
	for rank, s := range g.ranks[1:] {
		if s.Digest() != g.ranks[0].Digest() || s.Shape() != g.ranks[0].Shape() {
			g.t.Fatalf("tick %d: rank %d has left rank 0: digest %#x against %#x", g.tick, rank+1, s.Digest(), g.ranks[0].Digest())
		}
	}
}

// oracles checks one rank after an apply: the books and invariants, the floor, and what the model reads.
func (g *group) oracles(rank int, s *Scheduler) {
	g.t.Helper()
	if err := s.Check(); err != nil {
		g.t.Fatalf("tick %d, rank %d: %v", g.tick, rank, err)
	}
	for _, tier := range [...]index.Tier{index.L1, index.L2} {
		b := s.Books(tier)
		total := s.cfg.L1Pages
		if tier == index.L2 {
			total = s.cfg.L2Pages
		}
		if b.Total() != total || min(b.Free, b.Evictable, b.Locked, b.Private, b.Saving, b.Loading, b.Quarantined) < 0 {
			g.t.Fatalf("tick %d, rank %d: tier %v: books %+v do not sum to %d", g.tick, rank, tier, b, total)
		}
	}
	d := g.devices[rank]
	err := d.take(&g.effects[rank])
	if err == nil {
		err = d.step(s)
	}
	if err != nil {
		g.t.Fatalf("tick %d, rank %d: %v", g.tick, rank, err)
	}
}

func (g *group) steps(n int) {
	g.t.Helper()
	for range n {
		g.step()
	}
}

// until steps until cond holds, at most 500 ticks.
func (g *group) until(what string, cond func() bool) {
	g.t.Helper()
	for range 500 {
		if cond() {
			return
		}
		g.step()
	}
	g.t.Fatalf("tick %d: still waiting for: %s", g.tick, what)
}

func (g *group) where(id uint64) Queue { return g.ranks[0].Where(id) }

func (g *group) idle() bool {
	return len(g.stream) == 0 && g.ranks[0].Idle()
}

// finished returns the terminal event of a request on a rank.
func (g *group) finished(rank int, id uint64) (event, bool) {
	for _, e := range g.events[rank] {
		if e.Kind == EffectFinish && e.Request == id {
			return e, true
		}
	}
	return event{}, false
}

// wantFinish checks that a request ended in the same tick with the same words on every rank, once.
func (g *group) wantFinish(id uint64, k FinishKind, reason abi.Reason) event {
	g.t.Helper()
	first, ok := g.finished(0, id)
	if !ok {
		g.t.Fatalf("request %d has not ended", id)
	}
	for rank := range g.ranks {
		n := 0
		for _, e := range g.events[rank] {
			if e.Kind != EffectFinish || e.Request != id {
				continue
			}
			n++
			if e.tick != first.tick || e.Finish != k || e.Reason != reason {
				g.t.Errorf("request %d on rank %d: %v %q at tick %d, want %v %q at tick %d", id, rank, e.Finish, e.Reason, e.tick, k, reason, first.tick)
			}
		}
		if n != 1 {
			g.t.Errorf("request %d has %d terminal events on rank %d, want 1", id, n, rank)
		}
	}
	return first
}

func (g *group) books(t index.Tier) index.Books { return g.ranks[0].Books(t) }

func (g *group) wantBooks(t index.Tier, want string) {
	g.t.Helper()
	b := g.books(t)
	got := fmt.Sprintf("free %d evictable %d locked %d private %d saving %d loading %d quarantined %d",
		b.Free, b.Evictable, b.Locked, b.Private, b.Saving, b.Loading, b.Quarantined)
	if got != want {
		g.t.Errorf("tick %d: tier %d: books are %s; want %s", g.tick, t, got, want)
	}
}
