package schedule

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"sluice/abi"
	"sluice/kvcache/index"
)

// The ingress stream carries what the outside asks of the group. Rank 0 writes it, the ballots carry it in
// slices, every rank reads the same bytes. A message is a u32 length of what follows, a u8 kind and a body;
// integers are little-endian.
const (
	messageAdd   = 1 // a request, see AppendAdd
	messageAbort = 2 // u64 internal number
	messagePeer  = 3 // u32 peer, u64 incarnation (not 0): connected on every rank
	messageFlush = 4 // drop what the cache holds unlocked; only while idle
	messageVoid  = 5 // replaces a request that was cancelled before it was sent whole: u64 internal number
)

// maxMessage bounds one message: a prompt of 2^28 tokens is no request.
const maxMessage = 1 << 30

// ErrIngress marks a stream that breaks its own format; every rank finds it in the same tick.
var ErrIngress = errors.New("malformed ingress stream")

// Request is what AppendAdd puts on the stream.
type Request struct {
	ID        uint64 // internal number, rank 0's, strictly increasing from 1
	Room      uint64 // unique among live requests, quarantined ones included; 0 = none
	Peer      uint32
	Tenant    uint16
	Priority  uint16
	Limit     uint32 // most output tokens; 0 = what the device holds
	IgnoreEOS bool
	Key       []byte   // canonical key space, see kvcache/index
	Stops     []uint32 // stop tokens
	Tokens    []uint32 // prompt, at least one
}

// AppendAdd appends a request to a stream.
func AppendAdd(dst []byte, r *Request) []byte {
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0, messageAdd)
	dst = binary.LittleEndian.AppendUint64(dst, r.ID)
	dst = binary.LittleEndian.AppendUint64(dst, r.Room)
	dst = binary.LittleEndian.AppendUint32(dst, r.Peer)
	dst = binary.LittleEndian.AppendUint16(dst, r.Tenant)
	dst = binary.LittleEndian.AppendUint16(dst, r.Priority)
	dst = binary.LittleEndian.AppendUint32(dst, r.Limit)
	dst = append(dst, flag(r.IgnoreEOS))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(r.Key)))
	dst = append(dst, r.Key...)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(r.Stops)))
	for _, t := range r.Stops {
		dst = binary.LittleEndian.AppendUint32(dst, t)
	}
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(r.Tokens)))
	dst = slices.Grow(dst, 4*len(r.Tokens))
	for _, t := range r.Tokens {
		dst = binary.LittleEndian.AppendUint32(dst, t)
	}
	binary.LittleEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
	return dst
}

// RequestOf is the internal number of the request that a whole message of the stream adds, 0 for other messages.
func RequestOf(message []byte) uint64 {
	if len(message) < 13 || message[4] != messageAdd {
		return 0
	}
	return binary.LittleEndian.Uint64(message[5:])
}

// AppendAbort appends the abort of a request.
func AppendAbort(dst []byte, id uint64) []byte { return appendNumber(dst, messageAbort, id) }

// AppendVoid appends the mark that takes the place of a request cancelled before it was sent.
func AppendVoid(dst []byte, id uint64) []byte { return appendNumber(dst, messageVoid, id) }

func appendNumber(dst []byte, kind byte, id uint64) []byte {
	return binary.LittleEndian.AppendUint64(append(dst, 9, 0, 0, 0, kind), id)
}

// AppendPeer appends a peer that has registered; incarnation is never 0.
func AppendPeer(dst []byte, peer uint32, incarnation uint64) []byte {
	dst = binary.LittleEndian.AppendUint32(append(dst, 13, 0, 0, 0, messagePeer), peer)
	return binary.LittleEndian.AppendUint64(dst, incarnation)
}

// AppendFlush appends the wish to empty the cache.
func AppendFlush(dst []byte) []byte { return append(dst, 1, 0, 0, 0, messageFlush) }

// ingress is the reading end: bytes of a message that is not whole yet, and aborts that came before it was.
type ingress struct {
	partial []byte
	next    int // agreed length of the next slice
	lastID  uint64
	early   []uint64 // aborted before whole
}

// maxEarly bounds the aborts remembered for requests that are still on their way.
const maxEarly = 4096

func (in *ingress) idle() bool { return len(in.partial) == 0 && in.next == 0 }

// ingressSlice returns this ballot's slice of the stream.
func (s *Scheduler) ingressSlice(b *Ballot) []byte {
	at := s.lay.ingressAt()
	return b.Leader[at : at+s.lay.ingress]
}

// checkIngress refuses a damaged slice before anything of the ballot is used.
func (s *Scheduler) checkIngress(b *Ballot) error {
	n := s.lay.ingress
	if n == 0 {
		return nil
	}
	sum := binary.LittleEndian.Uint32(b.Leader[s.lay.ingressAt()+n:])
	if got := crc32.Checksum(s.ingressSlice(b), castagnoli()); got != sum {
		return fmt.Errorf("schedule: tick %d: %w: slice of %d bytes has CRC %#x, its sender says %#x", s.tick, ErrIngress, n, got, sum)
	}
	return nil
}

// takeIngress is step 11: the urgent slot, then the stream.
func (s *Scheduler) takeIngress(b *Ballot, e *Effects) error {
	at := s.lay.urgent()
	for i := range min(binary.LittleEndian.Uint64(b.Leader[at:]), UrgentSlots) {
		s.abort(binary.LittleEndian.Uint64(b.Leader[at+8+8*int(i):]), e)
	}
	p := s.ingressSlice(b)
	s.in.next = int(min(binary.LittleEndian.Uint32(b.Leader[len(b.Leader)-leaderTail:]), uint32(s.cfg.IngressSlice)))
	if len(s.in.partial) > 0 {
		s.in.partial = append(s.in.partial, p...)
		p = s.in.partial
	}
	for len(p) >= 4 {
		n := binary.LittleEndian.Uint32(p)
		if n < 1 || n > maxMessage {
			return fmt.Errorf("%w: message of %d bytes, must be 1 to %d", ErrIngress, n, maxMessage)
		}
		if uint64(len(p)-4) < uint64(n) {
			break
		}
		if err := s.message(p[4:4+n], e); err != nil {
			return err
		}
		p = p[4+n:]
	}
	s.in.partial = append(s.in.partial[:0], p...)
	return nil
}

func (s *Scheduler) message(p []byte, e *Effects) error {
	kind, c := p[0], cursor{p: p[1:]}
	switch kind {
	case messageAdd:
		return s.add(&c, e)
	case messageAbort:
		id := c.u64()
		if err := c.end("abort"); err != nil {
			return err
		}
		s.abort(id, e)
	case messageVoid:
		id := c.u64()
		if err := c.end("void"); err != nil {
			return err
		}
		if err := s.number(id); err != nil {
			return err
		}
		s.in.early = slices.DeleteFunc(s.in.early, func(a uint64) bool { return a == id })
	case messagePeer:
		id, inc := c.u32(), c.u64()
		if err := c.end("peer"); err != nil {
			return err
		}
		return s.addPeer(id, inc)
	case messageFlush:
		if err := c.end("flush"); err != nil {
			return err
		}
		if len(s.byID) == 0 && len(s.opList) == 0 {
			s.unbacked = s.unbacked[:0]
			clear(s.loadFails)
			s.keep(s.x.Reset())
		}
	default:
		return fmt.Errorf("%w: message kind %d", ErrIngress, kind)
	}
	return nil
}

// number takes a request's internal number; they come in order, so one seen before is a broken sender.
func (s *Scheduler) number(id uint64) error {
	if id <= s.in.lastID {
		return fmt.Errorf("%w: request number %d after %d", ErrIngress, id, s.in.lastID)
	}
	s.in.lastID = id
	s.in.early = slices.DeleteFunc(s.in.early, func(a uint64) bool { return a < id })
	return nil
}

func (s *Scheduler) addPeer(id uint32, incarnation uint64) error {
	if incarnation == 0 {
		return fmt.Errorf("%w: peer %d with incarnation 0", ErrIngress, id)
	}
	at := slices.IndexFunc(s.peers, func(p peer) bool { return p.id == id })
	if at < 0 {
		s.peers = append(s.peers, peer{id: id, incarnation: incarnation})
	} else if s.peers[at].incarnation != incarnation {
		return fmt.Errorf("%w: peer %d joins as incarnation %d while %d is not fenced", ErrIngress, id, incarnation, s.peers[at].incarnation)
	}
	s.note(0x70656572, uint64(id)<<32^incarnation)
	return nil
}

// add takes a request in: refused when it can never fit or the queues are full, else to the prealloc queue.
func (s *Scheduler) add(c *cursor, e *Effects) error {
	id, room := c.u64(), c.u64()
	peerID := c.u32()
	tenant, priority := c.u16(), c.u16()
	limit := c.u32()
	ignoreEOS := c.u8() != 0
	key := c.bytes(int(c.u32()))
	stops := c.bytes(4 * int(c.u32()))
	tokens := c.bytes(4 * int(c.u32()))
	if err := c.end("request"); err != nil {
		return err
	}
	if len(tokens) == 0 {
		return fmt.Errorf("%w: request %d has no prompt", ErrIngress, id)
	}
	if err := s.number(id); err != nil {
		return err
	}
	if slices.Contains(s.in.early, id) {
		s.in.early = slices.DeleteFunc(s.in.early, func(a uint64) bool { return a == id })
		s.counts.Finished[FinishAborted]++
		e.add(Effect{Kind: EffectFinish, Request: id, Finish: FinishAborted, Reason: abi.ReasonAborted, Rank: -1})
		return nil
	}
	i := s.newRequest()
	r := &s.reqs[i]
	r.id, r.room, r.peer, r.tenant, r.priority, r.ignoreEOS = id, room, peerID, tenant, priority, ignoreEOS
	r.live, r.slot, r.saveOp = true, -1, -1
	r.arrived = s.tick
	r.handshake = Bootstrapping
	for at := 0; at < len(stops); at += 4 {
		r.stops = append(r.stops, binary.LittleEndian.Uint32(stops[at:]))
	}
	r.tokens = slices.Grow(r.tokens, len(tokens)/4)
	for at := 0; at < len(tokens); at += 4 {
		r.tokens = append(r.tokens, binary.LittleEndian.Uint32(tokens[at:]))
	}
	r.prompt = len(r.tokens)
	r.limit = s.clipLimit(r.prompt, int(limit))
	r.full = s.footprint(r)
	s.byID[id] = i
	taken := room != 0 && s.rooms[room]
	s.note(0x616464, id<<24|uint64(r.prompt))
	switch {
	case r.full > s.cfg.L1Pages:
		s.counts.Rails[NeverFits]++
		s.refuse(i, abi.ReasonNeverFits, e)
	case taken:
		// No cancel: the room's transfer is another request's.
		s.end(i, FinishRefused, abi.ReasonDuplicate, -1, 0, e)
	case len(s.byID) > s.cfg.MaxQueue:
		s.refuse(i, abi.ReasonQueueFull, e)
	case !slices.ContainsFunc(s.peers, func(p peer) bool { return p.id == peerID }):
		s.refuse(i, abi.ReasonPeerLost, e)
	default:
		r.space, r.key = s.x.Space(key), append(r.key, key...)
		if room != 0 {
			s.rooms[room], r.ownsRoom = true, true
		}
		s.move(i, QueuePrealloc)
		s.prealloc = append(s.prealloc, i)
	}
	return nil
}

// clipLimit is m: the asked limit clipped by the configured one; no limit means what fills the device alone.
func (s *Scheduler) clipLimit(prompt, asked int) int {
	m := asked
	if m == 0 {
		m = max(s.cfg.L1Pages*s.cfg.PageSize-prompt+1, 1)
	}
	return min(m, s.cfg.MaxNewTokens)
}

func (s *Scheduler) refuse(i int32, reason abi.Reason, e *Effects) {
	r := &s.reqs[i]
	e.add(Effect{Kind: EffectCancel, Request: r.id, Room: r.room, Peer: r.peer})
	s.end(i, FinishRefused, reason, -1, 0, e)
}

// abort ends a request wherever it is. In transfer its pages go to quarantine in the next settle; where an
// operation copies its pages it is answered now and released when that has ended on every rank.
func (s *Scheduler) abort(id uint64, e *Effects) {
	i, ok := s.byID[id]
	if !ok {
		if id > s.in.lastID && len(s.in.early) < maxEarly && !slices.Contains(s.in.early, id) {
			s.in.early = append(s.in.early, id)
		}
		return
	}
	r := &s.reqs[i]
	if r.aborted || r.answered {
		return
	}
	r.aborted = true
	s.note(0x61626f72, id)
	s.answer(i, FinishAborted, abi.ReasonAborted, -1, 0, e)
	switch r.queue {
	case QueuePrealloc:
		e.add(Effect{Kind: EffectCancel, Request: r.id, Room: r.room, Peer: r.peer})
		s.prealloc = remove(s.prealloc, i)
	case QueueWaiting:
		s.waiting = remove(s.waiting, i)
	case QueueRunning:
		s.running = remove(s.running, i)
		s.step = remove(s.step, i)
	case QueueRetracted:
		if r.saveOp >= 0 {
			return
		}
		s.retracted = remove(s.retracted, i)
	default:
		return
	}
	s.release(i, e)
	s.dropRequest(i)
}

// Space makes the canonical key of requests; see kvcache/index.
func Space(namespace, fingerprint, layout string) []byte {
	return index.Key{Namespace: namespace, Fingerprint: fingerprint, Layout: layout}.AppendCanonical(nil)
}

// cursor reads a message; a read past the end is noted and yields zero.
type cursor struct {
	p     []byte
	short bool
}

func (c *cursor) bytes(n int) []byte {
	if n < 0 || n > len(c.p) {
		c.short, c.p = true, nil
		return nil
	}
	v := c.p[:n]
	c.p = c.p[n:]
	return v
}

func (c *cursor) u8() byte {
	if b := c.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (c *cursor) u16() uint16 {
	if b := c.bytes(2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

func (c *cursor) u32() uint32 {
	if b := c.bytes(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (c *cursor) u64() uint64 {
	if b := c.bytes(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (c *cursor) end(what string) error {
	if c.short || len(c.p) > 0 {
		return fmt.Errorf("%w: %s message has the wrong length", ErrIngress, what)
	}
	return nil
}
