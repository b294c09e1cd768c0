package rank

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"sluice/abi"
	"sluice/collective"
	"sluice/gpu"
	"sluice/kvcache"
	"sluice/kvcache/index"
	"sluice/runtime/model"
	"sluice/runtime/schedule"
	"sluice/runtime/transfer"
)

// Transport is the receiving end of prefill-to-decode transfers on one rank. It never blocks.
type Transport interface {
	Handshake(room uint64, peer uint32) (abi.Poll, abi.Reason)
	Send(transfer.Info)
	Poll(request uint64) transfer.Poll
	Cancel(request, room uint64)
	Drained(request uint64) bool
	Forget(request uint64)
	Fence(peer uint32, incarnation uint64)
	Connected(peer uint32, incarnation uint64) bool
}

// Model is this rank's shard of the engine: for each item it writes the KV of the newest token and adds up what
// it reads into partial.
type Model interface {
	Step(items []model.Item, partial []uint64) error
}

// Sink receives what clients are told. Only rank 0 has one; its methods must not block.
type Sink interface {
	Admitted(request uint64, promise, l1, prompt int)
	Token(request uint64, token uint32)
	Finish(request uint64, kind schedule.FinishKind, reason abi.Reason, rank int, token uint32)
}

// Options make a rank.
type Options struct {
	Rank      int
	Schedule  schedule.Config
	Epoch     uint64 // group epoch
	Device    gpu.Device
	L1, L2    gpu.ArenaID // L2 is unused when Schedule.L2Pages is 0
	Store     *kvcache.Store
	Transport Transport
	Model     Model
	Hooks     Hooks
	Leader    *Leader // rank 0 only
	Sink      Sink    // rank 0 only
	Logger    *slog.Logger

	TransferTicks uint32 // ticks without progress after which this rank gives a transfer up, or a room the peer does not know
	DrainTicks    uint32 // ticks without a drain ack after which this rank revokes the peer's right to write
}

// Rank is one decode rank. One goroutine owns it.
type Rank struct {
	o     Options
	sched *schedule.Scheduler
	log   *slog.Logger

	vec     collective.Vector
	effects schedule.Effects
	prop    schedule.Proposals

	rows    []row
	results map[uint64]kvcache.Result // ended operations that are still outstanding in the ballot
	ended   []kvcache.Result
	over    []uint64 // operations that the last apply ended

	hands    []hand // handshakes begun, as of the last Prepare, in order of requests
	polls    []transfer.Poll
	restores []abi.RestoreStatus
	entries  []schedule.Entry // the transfer queue as this tick's Prepare sees it; polls and restores go with it

	items   []model.Item
	partial []uint64
	tokens  []uint32

	swaps  swaps
	resync *schedule.Resync // under way
	before before

	encodeGate, encodeReserve, encodeAdmit, encodeScore func(abi.Batch)

	refA, refB []gpu.Ref
	toks       []uint32
	key        []byte
	counts     Counts
}

// row is the local mirror of one row of the page table, and what the model knows of its sequence.
type row struct {
	refs   []gpu.Ref
	prefix model.Prefix
	known  int // tokens in prefix, 0 = none

	request  uint64 // transfer entry the facts below belong to
	prev     abi.Poll
	progress uint64
	moved    uint32 // age at the last progress
	revoked  bool

	incarnation uint64 // of the peer that was told the row's pages; 0 = not known any more
}

// Counts are this rank's own counters; they may differ between ranks.
type Counts struct {
	Rails         [schedule.NumRails]uint64 // gate and reserve answers the host did not let stand
	GiveUps       uint64
	EffectErrors  uint64 // local effects that could not start
	StepErrors    uint64
	TransferPages uint64
	RaisedFloor   uint64
}

// New makes a rank of a freshly formed group.
func New(o Options) (*Rank, error) {
	switch {
	case o.Device == nil || o.Store == nil || o.Transport == nil || o.Model == nil:
		return nil, errors.New("rank: device, store, transport and model are all needed")
	case o.Hooks.missing(o.Schedule.Score) != "":
		return nil, errors.New("rank: " + o.Hooks.missing(o.Schedule.Score))
	case (o.Rank == 0) != (o.Leader != nil):
		return nil, fmt.Errorf("rank: rank %d: rank 0 and no other has a leader", o.Rank)
	}
	s, err := schedule.New(o.Schedule, o.Epoch)
	if err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Rank{o: o, sched: s, log: o.Logger.With("rank", o.Rank), results: make(map[uint64]kvcache.Result)}
	r.encodeGate, r.encodeReserve, r.encodeAdmit, r.encodeScore = r.putGate, r.putReserve, s.EncodeAdmit, s.EncodeScore
	return r, nil
}

// Schedule is the replicated state. Only the rank's goroutine may use it.
func (r *Rank) Schedule() *schedule.Scheduler { return r.sched }

// Counts returns the rank's own counters.
func (r *Rank) Counts() Counts { return r.counts }

// Effects are those of the last Commit, valid until the next.
func (r *Rank) Effects() *schedule.Effects { return &r.effects }

// Prepare observes, asks the policies and fills this rank's ballot for the coming exchange. now is this
// rank's clock, of which only rank 0's counts. The vector belongs to the rank and is reduced in place.
func (r *Rank) Prepare(now time.Duration) (*collective.Vector, error) {
	s := r.sched
	shape := s.Shape()
	r.vec.Reset(collective.Shape{U64: shape.U64, U32: shape.U32, U8: shape.U8, Leader: shape.Leader})
	b := r.ballot()
	if err := s.FillHeader(&b, r.o.Rank, r.Ready()); err != nil {
		return nil, err
	}
	r.observeOperations(&b)
	r.observeHandshakes(&b)
	r.observeTransfers(&b)
	for i := range s.NumQuarantine() {
		s.SetDrained(&b, i, r.drained(s.Quarantine(i)))
	}
	for i := range s.NumPeers() {
		p := s.Peer(i)
		s.SetPeer(&b, i, r.o.Transport.Connected(p.ID, p.Incarnation))
	}
	s.SetUsable(&b, r.o.Schedule.L1Pages, r.o.Schedule.L2Pages)
	r.askReserve(&b)
	r.askAdmit(&b)
	r.askScore(&b)
	digest := tokenDigest(r.tokens)
	s.SetTokenDigest(&b, digest)
	if r.o.Leader != nil {
		if err := r.o.Leader.fill(s, &b, now, r.o.Schedule.IngressSlice); err != nil {
			return nil, err
		}
		r.fillTokens(&b)
	}
	return &r.vec, nil
}

func (r *Rank) ballot() schedule.Ballot {
	return schedule.Ballot{U64: r.vec.U64, U32: r.vec.U32, U8: r.vec.U8, Leader: r.vec.Leader}
}

// observeOperations fills the lanes of outstanding copies from what has ended here.
func (r *Rank) observeOperations(b *schedule.Ballot) {
	r.ended = r.o.Store.Poll(r.ended[:0])
	for _, res := range r.ended {
		if r.before.ops[res.Op] {
			delete(r.before.ops, res.Op) // of an epoch that is over
			continue
		}
		r.results[res.Op] = res
	}
	for i := range r.sched.NumOperations() {
		res, ok := r.results[r.sched.Operation(i).ID]
		r.sched.SetOperation(b, i, ok, res.Good, res.BadBytes)
	}
}

// hand is a handshake that this rank has begun.
type hand struct {
	request uint64
	since   uint64 // tick
}

// observeHandshakes asks the peers about the prealloc entries that have lanes. A room that its peer never gets to
// know would wait for ever; no page is held for it yet, so one rank may fail it at any time.
func (r *Rank) observeHandshakes(b *schedule.Ballot) {
	s := r.sched
	was := r.hands
	r.hands = r.hands[:0]
	for i := range s.NumHandshake() {
		e := s.Handshake(i)
		raw, reason := r.o.Transport.Handshake(e.Room, e.Peer)
		// The prealloc queue is in order of request numbers and grows at its end, so the list is rewritten in place.
		for len(was) > 0 && was[0].request < e.ID {
			was = was[1:]
		}
		h := hand{e.ID, s.Tick()}
		if len(was) > 0 && was[0].request == e.ID {
			h = was[0]
		}
		r.hands = append(r.hands, h)
		if raw == abi.PollBootstrapping && r.o.TransferTicks > 0 && s.Tick()-h.since >= uint64(r.o.TransferTicks) {
			raw, reason = abi.PollFailed, abi.ReasonDeadline
		}
		s.SetHandshake(b, i, schedule.GateHandshake(raw, reason, r.o.Rank))
	}
}

// restore is this rank's restore status of a transfer entry. FAILED only once no copy of the restore is queued
// or running here.
func (r *Rank) restore(e *schedule.Entry) abi.RestoreStatus {
	switch {
	case e.RestoreFailed:
		return abi.RestoreFailed
	case !e.SetAside:
		return abi.RestorePending
	case e.Pending == 0:
		return abi.RestoreReady
	}
	pending, failed := false, false
	for i := range r.sched.NumOperations() {
		waits, owner := r.sched.Waits(e.Row, i)
		if !waits {
			continue
		}
		op := r.sched.Operation(i)
		res, ended := r.results[op.ID]
		switch {
		case !ended:
			pending = true
		case res.Good == op.Pages:
		case owner || res.BadBytes:
			failed = true
		default:
			// Another request's copy fell short here; the group issues the rest once more for this one.
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

// observeTransfers polls every transfer entry, asks the gate and fills the entries' lanes.
func (r *Rank) observeTransfers(b *schedule.Ballot) {
	s := r.sched
	n := s.NumTransfer()
	r.polls, r.restores, r.entries = r.polls[:0], r.restores[:0], s.Transfers(r.entries[:0])
	for i := range n {
		e := &r.entries[i]
		r.polls = append(r.polls, r.o.Transport.Poll(e.ID))
		r.restores = append(r.restores, r.restore(e))
		w := r.row(e.Row)
		if w.request != e.ID {
			w.request, w.prev, w.progress, w.moved, w.revoked = e.ID, r.polls[i].Raw, 0, 0, false
		}
	}
	if n == 0 {
		s.SetHook(b, abi.Gate, true)
		return
	}
	answers, valid := r.o.Hooks.Gate.Ask(s.Tick(), s.PolicyEpoch(), n, n, r.encodeGate)
	s.SetHook(b, abi.Gate, valid)
	for i := range n {
		e, p := &r.entries[i], &r.polls[i]
		a := answers.GateOut(i)
		w := &r.rows[e.Row]
		vote, rail := schedule.Gate(schedule.Observation{Raw: p.Raw, Restore: r.restores[i], Reason: p.Reason}, a.Vote, a.Reason, r.o.Rank)
		r.counts.Rails[rail]++
		w.prev = a.Vote
		giveUp := a.Flags&abi.GateOutGiveUp != 0 || r.stuck(w, e, p)
		if giveUp {
			r.counts.GiveUps++
		}
		ready := p.Raw == abi.PollSuccess && r.restores[i] != abi.RestorePending
		s.SetTransfer(b, i, vote, giveUp, ready, !p.Staged || p.StagingEmpty)
		if r.o.Leader != nil && p.HasFirst {
			s.SetFirstToken(b, i, p.First)
		}
	}
}

// stuck says whether the transfer has made no progress on this rank for too long. A transfer that is done here
// waits for others and is not stuck.
func (r *Rank) stuck(w *row, e *schedule.Entry, p *transfer.Poll) bool {
	if p.Raw == abi.PollSuccess || p.Progress != w.progress || r.o.TransferTicks == 0 {
		w.progress, w.moved = p.Progress, e.Age
		return false
	}
	return e.Age-w.moved >= r.o.TransferTicks
}

// drained says whether nothing can write the entry's pages on this rank any more: the peer's ack has come, or
// its right to write was revoked.
func (r *Rank) drained(e schedule.Entry) bool {
	if e.ID == 0 {
		return r.beforeIsOver()
	}
	if r.o.Transport.Drained(e.ID) {
		return true
	}
	// A peer that has acknowledged is not to blame for what this rank still scatters.
	if w := r.row(e.Row); r.o.DrainTicks > 0 && e.Age >= r.o.DrainTicks && !w.revoked && !r.o.Transport.Poll(e.ID).Closed {
		w.revoked = true
		for i := range r.sched.NumPeers() {
			// The right of an incarnation before the present one is already being revoked; the present one has no part in it.
			if p := r.sched.Peer(i); p.ID == e.Peer && (w.incarnation == 0 || w.incarnation == p.Incarnation) {
				r.log.Warn("no drain ack: revoking the peer's right to write", "request", e.ID, "peer", p.ID, "ticks", e.Age)
				r.o.Transport.Fence(p.ID, p.Incarnation)
			}
		}
	}
	return false
}

func (r *Rank) row(i uint32) *row {
	for int(i) >= len(r.rows) {
		r.rows = append(r.rows, row{})
	}
	return &r.rows[i]
}

func (r *Rank) putGate(b abi.Batch) {
	s := r.sched
	b.PutGateGlobals(&abi.GateGlobals{TimeNS: s.TimeNS()})
	for i := range r.polls {
		e, p := &r.entries[i], &r.polls[i]
		rec := abi.GateRecord{ReqKey: e.ID, RawPoll: p.Raw, Restore: r.restores[i], PrevVote: r.rows[e.Row].prev, AgeTicks: e.Age,
			RestoreTokens: uint32(e.RestoreTokens), TransferredPages: uint32(p.ArrivedPages), Tenant: e.Tenant, Priority: e.Priority}
		if e.SetAside {
			rec.Flags |= abi.GateFlagSetAside
		}
		if p.Staged {
			rec.Flags |= abi.GateFlagStaged
		}
		if p.StagingEmpty {
			rec.Flags |= abi.GateFlagStagingEmpty
		}
		if p.StampSeen {
			rec.Flags |= abi.GateFlagStampSeen
		}
		if e.RestoreTokens == 0 {
			rec.Flags |= abi.GateFlagNothingToRestore
		}
		b.PutGate(i, &rec)
	}
}

func (r *Rank) putReserve(b abi.Batch) {
	s := r.sched
	p := s.Pools()
	b.PutReserveGlobals(&abi.ReserveGlobals{TimeNS: s.TimeNS(), PageSize: uint32(s.PageSize()), TotalTokens: p.Total,
		FreeTokens: p.Free, EvictableTokens: p.Evictable, FloorTokens: p.Floor, SetAsideTokens: p.SetAside})
	for i := range r.entries {
		e := &r.entries[i]
		rec := abi.ReserveRecord{ReqKey: e.ID, Restore: r.restores[i], RestoreTokens: uint32(e.RestoreTokens), OwedTokens: uint32(e.OwedTokens)}
		if e.SetAside {
			rec.SetAside = 1
		}
		b.PutReserve(i, &rec)
	}
}

func (r *Rank) fillTokens(b *schedule.Ballot) {
	for i := range r.sched.NumStep() {
		t := uint32(schedule.NoToken)
		if i < len(r.tokens) {
			t = r.tokens[i]
		}
		r.sched.SetStepToken(b, i, t)
	}
}

func tokenDigest(tokens []uint32) uint64 {
	h := uint64(len(tokens)) + 0x9e3779b97f4a7c15
	for _, t := range tokens {
		h = (h ^ uint64(t)) * 0xff51afd7ed558ccd
		h ^= h >> 33
	}
	return h
}

// refs turns page numbers into references under their present generation; fresh ones are assigned it first.
func (r *Rank) refs(dst []gpu.Ref, t index.Tier, pages []index.Page, fresh bool) []gpu.Ref {
	arena := r.o.L1
	if t == index.L2 {
		arena = r.o.L2
	}
	from := len(dst)
	for _, p := range pages {
		dst = append(dst, gpu.Ref{Arena: arena, Index: uint32(p), Generation: r.sched.Generation(t, p)})
	}
	if fresh {
		if err := r.o.Device.Assign(dst[from:]); err != nil {
			r.counts.EffectErrors++
			r.log.Error("pages were handed out while in use", "error", err)
		}
	}
	return dst
}

// Restore is this rank's restore status of transfer entry i as its last Prepare saw it: a local fact, for
// reports and for the experiment that shows what acting on it does.
func (r *Rank) Restore(i int) abi.RestoreStatus { return r.restores[i] }

// Proposal is this rank's admit answer of the last Prepare, empty where none counts; for logs of a run.
func (r *Rank) Proposal() []byte { return r.prop.Admit }

// Scores is this rank's score answer of the last Prepare, likewise.
func (r *Rank) Scores() []byte { return r.prop.Score }

// Raw is the raw poll of a request in transfer as the last Prepare saw it; false when it was not in transfer.
func (r *Rank) Raw(request uint64) (abi.Poll, bool) {
	for i := range r.entries {
		if r.entries[i].ID == request {
			return r.polls[i].Raw, true
		}
	}
	return abi.PollFailed, false
}
