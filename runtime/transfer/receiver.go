package transfer

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"sluice/abi"
	"sluice/gpu"
	"sluice/runtime/model"
)

// ReceiverOptions make a receiver.
type ReceiverOptions struct {
	Rank   int
	Device gpu.Device
	Pages  gpu.ArenaID // the rank's device pages
	Shape  model.Shape // of those pages; Shards is the number of decode ranks
	Slots  int         // metadata slots

	// The staged path, for peers with another number of shards; without an arena they are refused.
	Ring   gpu.ArenaID // pages of the same size; every page of it is the ring's
	Stream gpu.Stream  // for the scatters

	RevokeDelay time.Duration // how long revoking a peer's right to write takes
	Poll        time.Duration // Run looks for ended scatters that often; 0 = 1 ms
	Logger      *slog.Logger
}

// Receiver is one decode rank's end of all its transfers. Any goroutine may call it; nothing blocks.
type Receiver struct {
	o    ReceiverOptions
	log  *slog.Logger
	kick chan struct{} // one token when there may be work for Pump

	mu       sync.Mutex
	now      time.Duration
	current  map[uint32]*conn // the newest registration of each peer
	conns    map[connKey]*conn
	fenced   map[uint32]uint64 // highest incarnation fenced, by peer
	hands    map[uint64]*hand  // by room, until Send
	entries  map[uint64]*entry // by request, from Send to Forget
	rooms    map[uint64]*entry // by room: those a peer was told of
	attempt  uint64            // last one given
	slots    []Record
	ring     ring
	scatters []*scatter
	waiters  []*Prefill // peers with a chunk that waits for the ring
	counts   ReceiverCounts
}

// ReceiverCounts add up what a receiver has seen.
type ReceiverCounts struct {
	Chunks       uint64 // chunks that landed
	Duplicates   uint64 // of them, those that had landed before
	Refused      uint64 // messages and writes of a request or incarnation that is no more
	Scattered    uint64 // pages moved from the ring to their place
	RingFull     uint64 // times a chunk was told to wait
	Failed       uint64 // requests whose raw poll became Failed other than by Cancel
	Cancelled    uint64
	RevokedPeers uint64
}

type connKey struct {
	peer        uint32
	incarnation uint64
}

// conn is one incarnation of one peer.
type conn struct {
	key       connKey
	p         *Prefill
	connected bool
	staged    bool
	refusal   error // the peer's layout does not fit
	fenced    bool
	revoking  bool
	revokeAt  time.Duration
	revoked   bool // nothing of this incarnation can write here any more
	writers   int  // writes into this rank's memory under way this moment
	entries   int
}

// open says whether the peer can be talked to.
func (c *conn) open() bool { return c != nil && c.connected && !c.fenced && c.refusal == nil }

// hand is a room asked about and not yet sent.
type hand struct {
	conn    *conn
	attempt uint64
	poll    abi.Poll
	failure failure
}

// failure is why something failed, in the words of who failed it.
type failure struct {
	reason  abi.Reason
	message string
	status  int
}

// NewReceiver makes a rank's end. ErrOptions where the arenas do not fit the shape.
func NewReceiver(o ReceiverOptions) (*Receiver, error) {
	if o.Device == nil || o.Rank < 0 || o.Slots < 0 || o.RevokeDelay < 0 || o.Poll < 0 {
		return nil, fmt.Errorf("%w: receiver of rank %d with %d slots; a device is needed and nothing may be negative", ErrOptions, o.Rank, o.Slots)
	}
	if err := o.Shape.Check(); err != nil {
		return nil, fmt.Errorf("%w: receiver of rank %d: %w", ErrOptions, o.Rank, err)
	}
	if o.Rank >= o.Shape.Shards {
		return nil, fmt.Errorf("%w: receiver of rank %d with a shape of %d shards", ErrOptions, o.Rank, o.Shape.Shards)
	}
	if o.Poll == 0 {
		o.Poll = time.Millisecond
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Receiver{
		o: o, log: o.Logger.With("rank", o.Rank), kick: make(chan struct{}, 1),
		current: make(map[uint32]*conn), conns: make(map[connKey]*conn), fenced: make(map[uint32]uint64),
		hands: make(map[uint64]*hand), entries: make(map[uint64]*entry), rooms: make(map[uint64]*entry),
		slots: make([]Record, o.Slots),
	}
	if _, err := r.arena(o.Pages); err != nil {
		return nil, err
	}
	if o.Ring != 0 {
		pages, err := r.arena(o.Ring)
		if err != nil {
			return nil, err
		}
		r.ring = ring{arena: o.Ring, size: uint64(pages)}
	}
	return r, nil
}

// arena is the number of pages of an arena, whose pages must be the shape's.
func (r *Receiver) arena(id gpu.ArenaID) (pages int, err error) {
	spec, err := r.o.Device.Arena(id)
	if err != nil {
		return 0, fmt.Errorf("%w: receiver of rank %d: %w", ErrOptions, r.o.Rank, err)
	}
	if spec.PageBytes != r.o.Shape.PageBytes() {
		return 0, fmt.Errorf("%w: receiver of rank %d: pages of arena %q have %d bytes, the shape's have %d",
			ErrOptions, r.o.Rank, spec.Name, spec.PageBytes, r.o.Shape.PageBytes())
	}
	return spec.Pages, nil
}

// Handshake asks the peer about a room, at the first call, and says how far that is: Bootstrapping
// until the peer knows the room, WaitingForInput from then on, Failed with a reason where it refused,
// is refused itself, or is lost.
func (r *Receiver) Handshake(room uint64, peer uint32) (abi.Poll, abi.Reason) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h := r.hands[room]; h != nil {
		if h.poll != abi.PollFailed && !h.conn.open() {
			h.poll, h.failure = abi.PollFailed, failure{reason: abi.ReasonPeerLost}
		}
		return h.poll, h.failure.reason
	}
	c := r.current[peer]
	switch {
	case room == 0:
		return abi.PollFailed, abi.ReasonHandshakeFailed
	case r.rooms[room] != nil:
		return abi.PollFailed, abi.ReasonDuplicate
	case c == nil:
		return abi.PollBootstrapping, abi.ReasonNone
	case c.refusal != nil:
		return abi.PollFailed, abi.ReasonHandshakeFailed
	case !c.open():
		return abi.PollFailed, abi.ReasonPeerLost
	}
	r.attempt++
	h := &hand{conn: c, attempt: r.attempt, poll: abi.PollBootstrapping}
	r.hands[room] = h
	c.p.post(message{kind: msgQuery, rank: r.o.Rank, incarnation: c.key.incarnation, room: room, attempt: h.attempt})
	return h.poll, abi.ReasonNone
}

// Send tells the peer where to write. From here on the request exists, until Forget; a second Send
// of it does nothing. What cannot be sent shows as a Failed poll.
func (r *Receiver) Send(i Info) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.entries[i.Request] != nil {
		return
	}
	h := r.hands[i.Room]
	delete(r.hands, i.Room)
	r.attempt++
	e := &entry{info: i, attempt: r.attempt, conn: r.conns[connKey{i.Peer, i.Incarnation}], arrived: make([]bool, len(i.Dst))}
	r.entries[i.Request] = e
	size := r.o.Shape.PageSize
	switch {
	case h != nil && h.poll == abi.PollFailed:
		r.fail(e, h.failure)
	case !e.conn.open():
		r.fail(e, failure{reason: abi.ReasonPeerLost, message: fmt.Sprintf("peer %d is not connected with incarnation %d", i.Peer, i.Incarnation)})
	case r.rooms[i.Room] != nil:
		r.fail(e, failure{reason: abi.ReasonDuplicate, message: fmt.Sprintf("room %d is held by request %d", i.Room, r.rooms[i.Room].info.Request)})
	case i.Room == 0 || int64(i.Slot) >= int64(len(r.slots)):
		r.fail(e, failure{reason: abi.ReasonHandshakeFailed, message: fmt.Sprintf("room %d with metadata slot %d of %d", i.Room, i.Slot, len(r.slots))})
	case i.PromiseTokens < 0 || i.PromiseTokens%size != 0 || i.PromiseTokens > i.PromptTokens || len(i.Dst) != r.o.Shape.Pages(i.PromptTokens-i.PromiseTokens):
		r.fail(e, failure{reason: abi.ReasonCoverageDiffers, message: fmt.Sprintf("%d pages of %d tokens for tokens [%d, %d)", len(i.Dst), size, i.PromiseTokens, i.PromptTokens)})
	default:
		e.sent, e.conn.entries = true, e.conn.entries+1
		r.rooms[i.Room] = e
		r.slots[i.Slot] = Record{}
		e.conn.p.post(message{kind: msgInfo, rank: r.o.Rank, incarnation: i.Incarnation, room: i.Room, attempt: e.attempt, info: i})
	}
}

// Poll is what this rank knows of a request. One that was never sent, or was forgotten, is
// Bootstrapping.
func (r *Receiver) Poll(request uint64) Poll {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entries[request]
	if e == nil {
		return Poll{Raw: abi.PollBootstrapping}
	}
	r.harvest()
	r.settle(e)
	p := Poll{Raw: e.raw(), ArrivedPages: e.pages, Progress: e.progress, StagingEmpty: e.staging == 0, Closed: r.closed(e)}
	if e.sent {
		p.Staged = e.conn.staged
		p.StampSeen = r.slots[e.info.Slot].Stamp == e.info.Room
	}
	switch p.Raw {
	case abi.PollFailed:
		p.Reason, p.Message, p.Status = e.failure.reason, e.failure.message, e.failure.status
	case abi.PollSuccess:
		slot := &r.slots[e.info.Slot]
		p.First, p.Cached, p.HasFirst = slot.First, slot.Cached, true
	}
	return p
}

// Cancel tells the peer, once, to stop writing for a request and to acknowledge that it has. It may
// come in any state; for a room that was only asked about, or never, nothing stays behind.
func (r *Receiver) Cancel(request, room uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entries[request]
	if e == nil {
		if h := r.hands[room]; h != nil {
			delete(r.hands, room)
			if h.conn.open() {
				h.conn.p.post(message{kind: msgWithdraw, rank: r.o.Rank, incarnation: h.conn.key.incarnation, room: room, attempt: h.attempt})
			}
		}
		return
	}
	if e.cancelled {
		return
	}
	r.counts.Cancelled++
	if !e.done() {
		e.failed, e.failure = true, failure{reason: abi.ReasonAborted}
	}
	r.cancel(e)
}

// cancel tells the peer, once.
func (r *Receiver) cancel(e *entry) {
	if e.cancelled {
		return
	}
	e.cancelled = true
	if e.sent && e.conn.open() {
		e.conn.p.post(message{kind: msgCancel, rank: r.o.Rank, incarnation: e.conn.key.incarnation, room: e.info.Room, attempt: e.attempt})
	}
}

// Drained says that nothing can write the request's pages on this rank any more: the peer has
// acknowledged it, or finished well, or has lost its right to write here; and no scatter of the
// request is queued or running. A request that was never sent is drained.
func (r *Receiver) Drained(request uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entries[request]
	if e == nil {
		return true
	}
	r.harvest()
	return e.scatters == 0 && e.writers == 0 && r.closed(e)
}

// Forget ends a request on this rank: its slot's stamp goes back to 0, its room is free, and what
// comes for it from then on is refused. The caller has seen it drained or successful; otherwise the
// peer is told to stop and its later writes are refused.
func (r *Receiver) Forget(request uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entries[request]
	if e == nil {
		return
	}
	delete(r.entries, request)
	if !e.sent {
		return
	}
	r.slots[e.info.Slot] = Record{}
	if !r.closed(e) {
		r.cancel(e)
	}
	delete(r.rooms, e.info.Room)
	e.forgotten = true
	r.releaseRegions(e)
	e.conn.entries--
	r.dropConn(e.conn)
}

// Fence ends an incarnation of a peer here: it counts as not connected, what it has not finished
// fails, and its right to write is revoked, which completes in a later Pump. Only then do its
// requests count as drained.
func (r *Receiver) Fence(peer uint32, incarnation uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fenced[peer] = max(r.fenced[peer], incarnation)
	c := r.conns[connKey{peer, incarnation}]
	if c == nil || c.fenced {
		return
	}
	c.fenced, c.connected, c.revoking, c.revokeAt = true, false, true, r.now+r.o.RevokeDelay
	for _, e := range r.entries {
		if e.conn == c && !e.done() {
			r.settle(e)
			r.fail(e, failure{reason: abi.ReasonPeerLost})
		}
	}
	c.p.post(message{kind: msgClosed, rank: r.o.Rank, incarnation: incarnation})
	r.wake()
}

// Connected says whether this rank can reach that incarnation of a peer.
func (r *Receiver) Connected(peer uint32, incarnation uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.conns[connKey{peer, incarnation}].open()
}

// Peers appends the state of every peer that has ever registered here, in order of their numbers.
func (r *Receiver) Peers(dst []PeerState) []PeerState {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := len(dst)
	for id, c := range r.current {
		dst = append(dst, PeerState{ID: id, Incarnation: c.key.incarnation, Connected: c.open(), Err: c.refusal})
	}
	sortPeers(dst[first:])
	return dst
}

// InFlight appends the request's pages that may still be written on this rank, by the peer or by a
// scatter. It is what tests hold the free lists against.
func (r *Receiver) InFlight(dst []gpu.Ref, request uint64) []gpu.Ref {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entries[request]
	if e == nil || !e.sent {
		return dst
	}
	r.harvest()
	if !e.conn.staged && (e.writers > 0 || !r.closed(e)) {
		return append(dst, e.info.Dst...)
	}
	if e.conn.staged && !e.done() && !r.closed(e) {
		return append(dst, e.info.Dst...)
	}
	for _, s := range r.scatters {
		if s.region.owner == e {
			dst = append(dst, s.dst()...)
		}
	}
	return dst
}

// Watermark is how many pages of the ring were ever granted, and below which count all are free
// again. Their difference is at most the ring's size.
func (r *Receiver) Watermark() (granted, free uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ring.next, r.ring.watermark
}

// Counts returns the receiver's counters.
func (r *Receiver) Counts() ReceiverCounts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts
}

// wake has Run call Pump.
func (r *Receiver) wake() {
	select {
	case r.kick <- struct{}{}:
	default:
	}
}
