package schedule

import (
	"slices"

	"sluice/kvcache/index"
)

// Entry is one request of the prealloc, transfer or quarantine queue by value: what a rank needs to form its
// local facts about it. Everything here is replicated.
type Entry struct {
	ID, Room      uint64
	Peer          uint32
	Row           uint32
	Slot          int32 // metadata slot, -1 for none
	Tenant        uint16
	Priority      uint16
	Age           uint32 // ticks in its queue
	Prompt        int    // tokens
	Promise       int    // tokens promised at admission
	RestoreTokens int    // of them not on the device then
	OwedTokens    int    // of them without a device number still
	SetAside      bool   // every promised page has a device number
	Pending       int    // operations it waits for
	RestoreFailed bool   // agreed
	Prev          Value  // last reduced value
}

func (s *Scheduler) entry(i int32) (v Entry) {
	s.entryTo(i, &v)
	return v
}

func (s *Scheduler) entryTo(i int32, v *Entry) {
	r := &s.reqs[i]
	*v = Entry{ID: r.id, Room: r.room, Peer: r.peer, Row: uint32(i), Slot: r.slot, Tenant: r.tenant, Priority: r.priority,
		Age: s.ticksSince(r.entered), Prompt: r.prompt, Promise: r.promise * s.cfg.PageSize, RestoreTokens: r.hitL2,
		SetAside: r.setAside, Pending: r.pending, RestoreFailed: r.failed, Prev: r.prev}
	if !r.setAside && r.queue == QueueTransfer {
		v.OwedTokens = s.x.Owed(r.node) * s.cfg.PageSize
	}
}

// NumHandshake, NumTransfer, NumQuarantine, NumOperations, NumPeers and NumStep count the entries that have
// lanes in the coming ballot.
func (s *Scheduler) NumHandshake() int { return s.lay.pre }

// NumTransfer counts the transfer queue.
func (s *Scheduler) NumTransfer() int { return s.lay.xfer }

// NumQuarantine counts the quarantined requests.
func (s *Scheduler) NumQuarantine() int { return s.lay.quar }

// NumOperations counts the outstanding operations.
func (s *Scheduler) NumOperations() int { return s.lay.ops }

// NumPeers counts the known peers.
func (s *Scheduler) NumPeers() int { return s.lay.peer }

// NumStep counts the requests of the model step that follows the last apply.
func (s *Scheduler) NumStep() int { return s.lay.step }

// Handshake returns prealloc entry i, 0..NumHandshake()-1.
func (s *Scheduler) Handshake(i int) Entry { return s.entry(s.prealloc[i]) }

// Transfer returns transfer entry i, 0..NumTransfer()-1.
func (s *Scheduler) Transfer(i int) Entry { return s.entry(s.transfer[i]) }

// Transfers appends all transfer entries, in order.
func (s *Scheduler) Transfers(dst []Entry) []Entry {
	from := len(dst)
	dst = slices.Grow(dst, s.lay.xfer)[:from+s.lay.xfer]
	for i, q := range s.transfer[:s.lay.xfer] {
		s.entryTo(q, &dst[from+i])
	}
	return dst
}

// Quarantine returns quarantine entry i, 0..NumQuarantine()-1.
func (s *Scheduler) Quarantine(i int) Entry { return s.entry(s.quarantine[i]) }

// OperationView is one outstanding operation by value.
type OperationView struct {
	ID    uint64
	Kind  OperationKind
	Pages int
}

// Operation returns outstanding operation i in issue order, 0..NumOperations()-1.
func (s *Scheduler) Operation(i int) OperationView {
	o := &s.ops[s.opList[i]]
	return OperationView{ID: o.id, Kind: o.kind, Pages: o.pages}
}

// Waits says whether the transfer entry with this row waits for an operation, and whether it started it: the
// one that fails with it if this rank could not copy.
func (s *Scheduler) Waits(row uint32, operation int) (waits, owner bool) {
	o := &s.ops[s.opList[operation]]
	if o.kind != OperationLoad {
		return false, false
	}
	for _, r := range o.joined {
		if uint32(r) == row {
			return true, o.owner == r || o.retry
		}
	}
	return false, false
}

// PeerView is one known peer by value.
type PeerView struct {
	ID          uint32
	Incarnation uint64
}

// Peer returns known peer i, 0..NumPeers()-1.
func (s *Scheduler) Peer(i int) PeerView { return PeerView{s.peers[i].id, s.peers[i].incarnation} }

// StepView is one request of the model step: the model writes the KV of Token at position Len-1 and reads
// positions 0..Len-1 through the row to make the next token.
type StepView struct {
	Request uint64
	Row     uint32
	Len     int // tokens that have KV after the step
	Token   uint32
}

// Step returns request i of the model step, 0..NumStep()-1.
func (s *Scheduler) Step(i int) StepView {
	k := s.step[i]
	r := &s.reqs[k]
	return StepView{Request: r.id, Row: uint32(k), Len: len(r.tokens), Token: r.tokens[len(r.tokens)-1]}
}

// Where returns where a live request is, by its internal number.
func (s *Scheduler) Where(id uint64) Queue {
	if i, ok := s.byID[id]; ok {
		return s.reqs[i].queue
	}
	return QueueNone
}

// AppendTable appends the page numbers of a live request's table; index.NoPage where a promised page is not
// part of it yet. For tests and oracles.
func (s *Scheduler) AppendTable(dst []index.Page, id uint64) []index.Page {
	if i, ok := s.byID[id]; ok {
		return append(dst, s.reqs[i].pages...)
	}
	return dst
}

// AppendTokens appends the prompt and output tokens of a live request.
func (s *Scheduler) AppendTokens(dst []uint32, id uint64) []uint32 {
	if i, ok := s.byID[id]; ok {
		return append(dst, s.reqs[i].tokens...)
	}
	return dst
}

// AppendKey appends the canonical key of a live request's space.
func (s *Scheduler) AppendKey(dst []byte, id uint64) []byte {
	if i, ok := s.byID[id]; ok {
		return append(dst, s.reqs[i].key...)
	}
	return dst
}

// PoolTokens are what the reserve hook sees of the pools, in tokens.
type PoolTokens struct{ Total, Free, Evictable, Floor, SetAside uint64 }

// Pools returns the pools for the reserve batch.
func (s *Scheduler) Pools() PoolTokens {
	b, p := s.x.Books(index.L1), uint64(s.cfg.PageSize)
	return PoolTokens{Total: uint64(s.cfg.L1Pages) * p, Free: uint64(b.Free) * p, Evictable: uint64(b.Evictable) * p,
		Floor: uint64(s.floor()) * p, SetAside: uint64(b.Loading) * p}
}
