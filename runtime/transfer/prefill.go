package transfer

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"sluice/abi"
	"sluice/runtime/model"
)

// DefaultBootstrapTimeout is how long a peer waits for all ranks' pages where the options do not say.
const DefaultBootstrapTimeout = 300 * time.Second

// PrefillOptions make a peer.
type PrefillOptions struct {
	ID          uint32
	Incarnation uint64      // the first one; 0 = 1
	Shape       model.Shape // Shards is the number of prefill ranks
	Ranks       int         // decode ranks that a room waits for
	ChunkPages  int         // pages sent at once; 0 = 16
	Vocab       int         // as in model.Join
	MaxTokens   int         // longer prompts are refused; 0 = no limit
	Script      Script      // nil = everything lands at once

	BootstrapTimeout time.Duration // 0 = DefaultBootstrapTimeout
	RestartDelay     time.Duration // from a crash to the next registration; below 0 = never by itself
	Logger           *slog.Logger
}

// Request is a prompt to prefill.
type Request struct {
	Room      uint64 // never 0; one live request a room
	Namespace string // what the KV depends on besides the tokens
	Tokens    []uint32
	// OnEnd is told once how the room ended: nil when every rank has its metadata, else why not. It
	// runs on the goroutine that pumps, with no lock held. May be nil.
	OnEnd func(room uint64, err error)
}

// Prefill is one peer: it computes the KV of prompts and writes the suffix that decode does not have
// into the decode ranks' pages. Any goroutine may call it; nothing blocks but on another Pump.
type Prefill struct {
	o      PrefillOptions
	log    *slog.Logger
	script Script
	kick   chan struct{} // one token when there may be work for Pump

	mu          sync.Mutex // never held while a receiver is called
	inbox       []message
	live        map[uint64]*submission // by room, which may not be submitted again
	submitted   uint64
	incarnation uint64
	down        bool
	counts      PrefillCounts

	pump pump // guarded by its own mutex
}

// PrefillCounts add up what a peer has done.
type PrefillCounts struct {
	Rooms     uint64 // submitted
	Done      uint64 // of them, those that ended well
	Failed    uint64
	Chunks    uint64 // written, each rank and each duplicate counted
	Waited    uint64 // times a chunk found the ring full
	Acks      uint64 // drain acks sent
	Dropped   uint64 // messages of another incarnation, or from a rank that is cut off
	Restarted uint64
}

// NewPrefill makes a peer that knows no decode rank yet.
func NewPrefill(o PrefillOptions) (*Prefill, error) {
	if o.Incarnation == 0 {
		o.Incarnation = 1
	}
	if o.ChunkPages == 0 {
		o.ChunkPages = 16
	}
	if o.BootstrapTimeout == 0 {
		o.BootstrapTimeout = DefaultBootstrapTimeout
	}
	if o.Ranks < 1 || o.ChunkPages < 1 || o.MaxTokens < 0 || o.BootstrapTimeout < 0 {
		return nil, fmt.Errorf("%w: peer %d with %d ranks, chunks of %d pages, %d tokens at most; ranks and chunks must be 1 or more, nothing negative",
			ErrOptions, o.ID, o.Ranks, o.ChunkPages, o.MaxTokens)
	}
	if _, err := model.Reference(o.Shape, "", nil, o.Vocab); err != nil {
		return nil, fmt.Errorf("%w: peer %d: %w", ErrOptions, o.ID, err)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Script == nil {
		o.Script = Pace{}.Script()
	}
	p := &Prefill{o: o, log: o.Logger.With("peer", o.ID), script: o.Script, kick: make(chan struct{}, 1), live: make(map[uint64]*submission), incarnation: o.Incarnation}
	oracle, err := model.NewOracle(o.Shape, "")
	if err != nil {
		return nil, fmt.Errorf("%w: peer %d: %w", ErrOptions, o.ID, err)
	}
	p.pump.init(p, oracle)
	return p, nil
}

// Connect registers the peer with its decode ranks, which compare the layouts: a *LayoutError from
// any of them means that this peer will serve nobody. receivers are all ranks, in order; the call
// comes once, before any Pump.
func (p *Prefill) Connect(receivers ...*Receiver) error {
	if len(receivers) != p.o.Ranks {
		return fmt.Errorf("%w: peer %d serves %d ranks and was given %d", ErrOptions, p.o.ID, p.o.Ranks, len(receivers))
	}
	for i, r := range receivers {
		if r.o.Rank != i || r.o.Shape.Shards != p.o.Ranks {
			return fmt.Errorf("%w: peer %d: receiver %d is rank %d of %d", ErrOptions, p.o.ID, i, r.o.Rank, r.o.Shape.Shards)
		}
	}
	p.pump.mu.Lock()
	defer p.pump.mu.Unlock()
	p.pump.receivers = receivers
	return p.pump.register()
}

// Submit takes a prompt in. ErrRoom for room 0, ErrDuplicateRoom while the room is live, ErrDown
// while the peer is, ErrRefused for a prompt that is empty or too long; of the last the decode ranks
// learn in their handshake.
func (p *Prefill) Submit(r Request) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case r.Room == 0:
		return fmt.Errorf("%w: room 0 means that no metadata was written; choose another", ErrRoom)
	case p.down:
		return fmt.Errorf("%w: peer %d; retry with another", ErrDown, p.o.ID)
	case p.live[r.Room] != nil:
		return fmt.Errorf("%w: room %d at peer %d; choose another", ErrDuplicateRoom, r.Room, p.o.ID)
	}
	p.submitted++
	p.counts.Rooms++
	s := &submission{request: r}
	m := message{kind: msgSubmit, incarnation: p.incarnation, room: r.Room, submission: s, nth: p.submitted}
	var err error
	switch {
	case len(r.Tokens) == 0:
		err = fmt.Errorf("%w: room %d has no token", ErrRefused, r.Room)
	case p.o.MaxTokens > 0 && len(r.Tokens) > p.o.MaxTokens:
		err = fmt.Errorf("%w: room %d has %d tokens; peer %d takes %d at most", ErrRefused, r.Room, len(r.Tokens), p.o.ID, p.o.MaxTokens)
	}
	if err != nil {
		m.failure = &failure{reason: abi.ReasonHandshakeFailed, message: err.Error(), status: 400}
		s.request.OnEnd = nil
	}
	p.live[r.Room] = s
	p.push(m)
	return err
}

// Abort ends a room from the peer's side, as its client's leaving does. The ranks are told.
func (p *Prefill) Abort(room uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.push(message{kind: msgAbort, incarnation: p.incarnation, room: room})
}

// Forget drops a room whose client has left and of which decode wants no more: a prompt that no Pump has looked at goes
// at once, a room that no rank has asked about at the next Pump. Nobody else would tell the peer. The ranks that know a
// room tell the peer themselves that they want no more of it, so for such a room this does nothing.
func (p *Prefill) Forget(room uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.live[room]; s != nil && !s.taken {
		s.gone, s.request.Tokens = true, nil
		return
	}
	p.push(message{kind: msgForget, incarnation: p.incarnation, room: room})
}

// Crash kills the peer at its next Pump: rooms and connections are gone, chunks that are under way
// still land.
func (p *Prefill) Crash() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.push(message{kind: msgCrash, incarnation: p.incarnation})
}

// Cut has one rank lose the peer at the peer's next Pump: neither hears of the other, and chunks
// under way do not land there, until the peer registers again.
func (p *Prefill) Cut(rank int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.push(message{kind: msgCut, incarnation: p.incarnation, rank: rank})
}

// Incarnation is the peer's present one.
func (p *Prefill) Incarnation() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.incarnation
}

// Counts returns the peer's counters.
func (p *Prefill) Counts() PrefillCounts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts
}

// Pump brings the peer up to now: it takes in messages, lets chunks land, and sends what is due. now
// does not go back. Pumps exclude each other.
func (p *Prefill) Pump(now time.Duration) {
	for _, end := range p.pump.run(now) {
		end.f(end.room, end.err)
	}
}

// Next is when the peer next has something to do by itself; ok is false where it has nothing. A
// driver in virtual time may skip to it.
func (p *Prefill) Next() (at time.Duration, ok bool) {
	p.mu.Lock()
	waiting := len(p.inbox) > 0
	p.mu.Unlock()
	return p.pump.next(waiting)
}

// post is how receivers and the peer itself leave it a message.
func (p *Prefill) post(m message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.push(m)
}

func (p *Prefill) push(m message) {
	p.inbox = append(p.inbox, m)
	p.wake()
}

func (p *Prefill) wake() {
	select {
	case p.kick <- struct{}{}:
	default:
	}
}

// count changes the counters.
func (p *Prefill) count(f func(*PrefillCounts)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(&p.counts)
}

// over frees the room's number for another request.
func (p *Prefill) over(room uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.live, room)
}

// roomError is a room's end as its client is told it.
func roomError(room uint64, f failure) error {
	text := f.message
	if text == "" {
		text = abi.ReasonText(f.reason)
	}
	return fmt.Errorf("%w: room %d: %w", ErrFailed, room, errors.New(text))
}
