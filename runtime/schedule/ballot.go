package schedule

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"sluice/abi"
)

// Shape counts the lanes of a ballot. It is a function of replicated state, so all ranks always send the same.
type Shape struct {
	U64, U32, U8 int
	Leader       int // bytes that rank 0 alone sends; the others leave all ones, the identity of MIN
}

// Ballot is one rank's vector before the exchange, and the group's after it. The slices belong to the caller
// and must have the lengths of Shape; before the Set methods are called every lane holds all ones.
type Ballot struct {
	U64    []uint64
	U32    []uint32
	U8     []byte
	Leader []byte
}

// Header fields, gathered: lane field*ranks+r holds rank r's value, so a mismatch names field, ranks and values.
const (
	fieldMagic = iota
	fieldEpoch
	fieldTick
	fieldConfig
	fieldLayout
	fieldState
	fieldPolicy
	fieldReady // the highest policy epoch this rank has ready; the one field that may differ
	numFields
)

var fieldNames = [numFields]string{"magic", "group epoch", "tick", "config hash", "layout hash", "state digest",
	"policy epoch", "ready policy epoch"}

const magic = 0x31_45_43_49_55_4c_53 // "SLUICE1", little-endian

// Scalars of the 64-bit section, after the header.
const (
	laneBudget = iota // total - min(held back, total), device pages
	laneUsableL1
	laneUsableL2
	laneAdmitDigest // x and ~x: equal on all ranks iff min(x) == ^min(^x)
	laneAdmitDigestNot
	laneAdmitReady // generation of the replicated instance that this rank has ready
	laneTokenDigest
	laneTokenDigestNot
	num64
)

// Scalars of the score hook, after the others and only where a score policy is asked.
const (
	laneScoreDigest = num64 + iota // as for admit
	laneScoreDigestNot
	laneScoreReady
	num64Score = iota
)

// Per-hook validity lanes, one byte each: 0 = this rank's policy faulted.
const (
	hookGate = iota
	hookReserve
	hookAdmit
	numFixed // hooks with a lane in every ballot

	hookScore = numFixed // its lane is the last of the bytes, and only where a score policy is asked
	numHooks  = hookScore + 1
)

func hookLane(h abi.Hook) int {
	switch h {
	case abi.Gate:
		return hookGate
	case abi.Reserve:
		return hookReserve
	case abi.Score:
		return hookScore
	}
	return hookAdmit
}

// UrgentSlots is how many aborts one ballot's urgent slot carries.
const UrgentSlots = 31

const (
	urgentBytes  = 8 + 8*UrgentSlots // count, then internal request numbers: the fixed 256-byte slot
	leaderFixed  = 8 + urgentBytes   // agreed time, urgent slot
	leaderTail   = 4                 // length of the next ingress slice
	ingressCheck = 4                 // CRC-32C of this slice, present when it is not empty
)

// layout places every lane. All counts are replicated.
type layout struct {
	ranks                      int
	pre, xfer, quar, ops, peer int // entries with lanes
	step                       int // requests of the last model step
	ingress                    int // bytes of this ballot's ingress slice
	score                      int // 1 where a score policy is asked
}

func (l layout) shape() Shape {
	s := Shape{
		U64:    numFields*l.ranks + num64 + num64Score*l.score,
		U32:    l.pre + l.xfer + l.ops,
		U8:     numFixed + 3*l.xfer + l.quar + l.ops + l.peer + l.score,
		Leader: leaderFixed + 4*l.step + 4*l.xfer + l.ingress + leaderTail,
	}
	if l.ingress > 0 {
		s.Leader += ingressCheck
	}
	return s
}

func (l layout) hash() uint64 {
	h := uint64(l.ranks)
	for _, v := range [...]int{l.pre, l.xfer, l.quar, l.ops, l.peer, l.step, l.ingress} {
		h = mix(h, uint64(v))
	}
	if l.score > 0 {
		h = mix(h, uint64(l.score))
	}
	return h
}

func (l layout) String() string {
	return fmt.Sprintf("%d prealloc, %d transfer, %d quarantined, %d operations, %d peers, %d running, %d ingress bytes",
		l.pre, l.xfer, l.quar, l.ops, l.peer, l.step, l.ingress)
}

func (l layout) scalar(i int) int  { return numFields*l.ranks + i }
func (l layout) giveUp(i int) int  { return numFixed + 3*i }
func (l layout) ready(i int) int   { return numFixed + 3*i + 1 }
func (l layout) staged(i int) int  { return numFixed + 3*i + 2 }
func (l layout) drained(i int) int { return numFixed + 3*l.xfer + i }
func (l layout) opGood(i int) int  { return numFixed + 3*l.xfer + l.quar + i }
func (l layout) peerUp(i int) int  { return numFixed + 3*l.xfer + l.quar + l.ops + i }

// hook is the place of a hook's validity lane, which score has only where a score policy is asked.
func (l layout) hook(h int) int {
	if h == hookScore {
		return l.peerUp(l.peer)
	}
	return h
}

func (l layout) urgent() int      { return 8 }
func (l layout) stepTokens() int  { return leaderFixed }
func (l layout) firstTokens() int { return leaderFixed + 4*l.step }
func (l layout) ingressAt() int   { return leaderFixed + 4*l.step + 4*l.xfer }

// Shape returns the lane counts of the next ballot.
func (s *Scheduler) Shape() Shape { return s.lay.shape() }

func (s *Scheduler) fits(b *Ballot) error {
	want := s.lay.shape()
	got := Shape{len(b.U64), len(b.U32), len(b.U8), len(b.Leader)}
	if got != want {
		return &ShapeError{Tick: s.tick, Want: want, Got: got}
	}
	return nil
}

// ShapeError reports a ballot whose lane counts are not those of the replicated state.
type ShapeError struct {
	Tick      uint64
	Want, Got Shape
}

func (e *ShapeError) Error() string {
	return fmt.Sprintf("schedule: tick %d: ballot has lanes %+v, replicated state asks for %+v", e.Tick, e.Got, e.Want)
}

// FillHeader writes rank's lane of every header field. ready is the highest policy epoch the rank has ready.
func (s *Scheduler) FillHeader(b *Ballot, rank int, ready uint64) error {
	if err := s.fits(b); err != nil {
		return err
	}
	if rank < 0 || rank >= s.cfg.Ranks {
		return fmt.Errorf("schedule: rank %d of a group of %d", rank, s.cfg.Ranks)
	}
	for f, v := range [numFields]uint64{magic, s.epoch, s.tick, s.cfgHash, s.lay.hash(), s.Digest(), s.policyEpoch, ready} {
		b.U64[f*s.cfg.Ranks+rank] = v
	}
	return nil
}

// Mismatch reports ranks that disagree on a header field: a divergence, found before anything else of the
// ballot is used.
type Mismatch struct {
	Field  string
	Tick   uint64
	Values []uint64 // by rank
	Here   string   // this rank's lane counts by queue, where Field is the layout hash
}

func (e *Mismatch) Error() string {
	msg := fmt.Sprintf("schedule: tick %d: ranks disagree on the %s:", e.Tick, e.Field)
	for r, v := range e.Values {
		msg += fmt.Sprintf(" rank %d has %#x", r, v)
	}
	if e.Here != "" {
		msg += "; this rank lays out " + e.Here
	}
	return msg
}

// checkHeader reads the header, which lies at a fixed place, before the lane counts are compared: a rank that laid
// its ballot out differently is named by its layout hash.
func (s *Scheduler) checkHeader(b *Ballot) error {
	if len(b.U64) < numFields*s.cfg.Ranks {
		return s.fits(b)
	}
	own := [numFields]uint64{magic, s.epoch, s.tick, s.cfgHash, s.lay.hash(), s.Digest(), s.policyEpoch, 0}
	for f := range numFields {
		if f == fieldReady {
			continue
		}
		lanes := b.U64[f*s.cfg.Ranks : (f+1)*s.cfg.Ranks]
		for _, v := range lanes {
			if v != lanes[0] {
				m := &Mismatch{Field: fieldNames[f], Tick: s.tick, Values: append([]uint64(nil), lanes...)}
				if f == fieldLayout {
					m.Here = s.lay.String()
				}
				return m
			}
		}
		if want := own[f]; lanes[0] != want {
			return fmt.Errorf("schedule: tick %d: the reduced %s is %#x, this rank holds %#x: the exchange altered it",
				s.tick, fieldNames[f], lanes[0], want)
		}
	}
	return nil
}

// SetHandshake writes the lane of prealloc entry i, 0..NumHandshake()-1.
func (s *Scheduler) SetHandshake(b *Ballot, i int, v Vote) {
	if v.made && i >= 0 && i < s.lay.pre {
		b.U32[i] = v.lane
	}
}

// SetTransfer writes the lanes of transfer entry i. giveUp ends the request as an abort would; ready says that
// this rank's raw poll is Success and its restore terminal; staged that its staging ring holds nothing more for the entry.
func (s *Scheduler) SetTransfer(b *Ballot, i int, v Vote, giveUp, ready, staged bool) {
	if !v.made || i < 0 || i >= s.lay.xfer {
		return
	}
	b.U32[s.lay.pre+i] = v.lane
	b.U8[s.lay.giveUp(i)] = flag(!giveUp)
	b.U8[s.lay.ready(i)] = flag(ready)
	b.U8[s.lay.staged(i)] = flag(staged)
}

// SetDrained writes the lane of quarantine entry i: the peer's writes, the restore's copies and the scatters
// into its pages have all ended on this rank.
func (s *Scheduler) SetDrained(b *Ballot, i int, drained bool) {
	if i >= 0 && i < s.lay.quar {
		b.U8[s.lay.drained(i)] = flag(drained)
	}
}

// SetOperation writes the lanes of outstanding operation i: whether it has ended on this rank, with how many
// leading pages good, and whether the first bad one was copied with wrong bytes (as against not copied).
func (s *Scheduler) SetOperation(b *Ballot, i int, ended bool, good int, badBytes bool) {
	if i < 0 || i >= s.lay.ops {
		return
	}
	var lane uint32
	if ended {
		lane = 1 + uint32(max(good, 0))
	}
	b.U32[s.lay.pre+s.lay.xfer+i] = lane
	b.U8[s.lay.opGood(i)] = flag(!badBytes)
}

// SetPeer writes the lane of known peer i: connected to the incarnation in the replicated state.
func (s *Scheduler) SetPeer(b *Ballot, i int, connected bool) {
	if i >= 0 && i < s.lay.peer {
		b.U8[s.lay.peerUp(i)] = flag(connected)
	}
}

// SetHook writes the validity lane of a hook: 0 when this rank's policy faulted in this tick.
func (s *Scheduler) SetHook(b *Ballot, h abi.Hook, valid bool) {
	if lane := hookLane(h); lane < numFixed+s.lay.score {
		b.U8[s.lay.hook(lane)] = flag(valid)
	}
}

// SetBudget writes what this rank lets admission use: heldTokens is the reserve hook's answer, raised to the
// host's floor. It returns whether the floor had to raise it.
func (s *Scheduler) SetBudget(b *Ballot, heldTokens uint64) (raised bool) {
	total := uint64(s.cfg.L1Pages)
	held := heldTokens / uint64(s.cfg.PageSize)
	if heldTokens%uint64(s.cfg.PageSize) != 0 {
		held++
	}
	if floor := uint64(s.floor()); held < floor {
		held, raised = floor, true
	}
	b.U64[s.lay.scalar(laneBudget)] = total - min(held, total)
	return raised
}

// SetUsable writes the highest usable page number + 1 of each tier on this rank.
func (s *Scheduler) SetUsable(b *Ballot, l1, l2 int) {
	b.U64[s.lay.scalar(laneUsableL1)] = uint64(max(l1, 0))
	b.U64[s.lay.scalar(laneUsableL2)] = uint64(max(l2, 0))
}

// SetAdmit writes the digest of this rank's admit answer and the generation of the replicated instance it has
// ready. answer is the out area of the batch; an invalid one is announced by SetHook and its digest is ignored.
func (s *Scheduler) SetAdmit(b *Ballot, answer []byte, generation uint64) {
	x := hashBytes(answer)
	b.U64[s.lay.scalar(laneAdmitDigest)] = x
	b.U64[s.lay.scalar(laneAdmitDigestNot)] = ^x
	b.U64[s.lay.scalar(laneAdmitReady)] = generation
}

// SetScore is SetAdmit for the score hook. It does nothing where no score policy is asked.
func (s *Scheduler) SetScore(b *Ballot, answer []byte, generation uint64) {
	if s.lay.score == 0 {
		return
	}
	x := hashBytes(answer)
	b.U64[s.lay.scalar(laneScoreDigest)] = x
	b.U64[s.lay.scalar(laneScoreDigestNot)] = ^x
	b.U64[s.lay.scalar(laneScoreReady)] = generation
}

// SetTokenDigest writes the digest of this rank's own tokens of the last step.
func (s *Scheduler) SetTokenDigest(b *Ballot, x uint64) {
	b.U64[s.lay.scalar(laneTokenDigest)] = x
	b.U64[s.lay.scalar(laneTokenDigestNot)] = ^x
}

// SetLeaderTime writes the tick's time in nanoseconds. The leader lanes are rank 0's alone.
func (s *Scheduler) SetLeaderTime(b *Ballot, ns uint64) {
	binary.LittleEndian.PutUint64(b.Leader, ns)
}

// SetStepToken writes the token that request i of the last step produced; NoToken where it made none.
func (s *Scheduler) SetStepToken(b *Ballot, i int, token uint32) {
	if i >= 0 && i < s.lay.step {
		binary.LittleEndian.PutUint32(b.Leader[s.lay.stepTokens()+4*i:], token)
	}
}

// SetFirstToken writes the first token that came with transfer entry i, NoToken before it is known.
func (s *Scheduler) SetFirstToken(b *Ballot, i int, token uint32) {
	if i >= 0 && i < s.lay.xfer {
		binary.LittleEndian.PutUint32(b.Leader[s.lay.firstTokens()+4*i:], token)
	}
}

// SetUrgent writes the urgent slot: internal numbers of requests to abort, at most UrgentSlots. It returns how
// many fitted.
func (s *Scheduler) SetUrgent(b *Ballot, aborts []uint64) int {
	n := min(len(aborts), UrgentSlots)
	at := s.lay.urgent()
	clear(b.Leader[at : at+urgentBytes])
	binary.LittleEndian.PutUint64(b.Leader[at:], uint64(n))
	for i := range n {
		binary.LittleEndian.PutUint64(b.Leader[at+8+8*i:], aborts[i])
	}
	return n
}

// IngressLen is how many bytes of the ingress stream this ballot carries, as agreed the tick before.
func (s *Scheduler) IngressLen() int { return s.lay.ingress }

// SetIngress writes this ballot's slice, which must be IngressLen bytes, and the length of the next one.
func (s *Scheduler) SetIngress(b *Ballot, slice []byte, next int) error {
	if len(slice) != s.lay.ingress {
		return fmt.Errorf("schedule: ingress slice of %d bytes, %d were agreed", len(slice), s.lay.ingress)
	}
	at := s.lay.ingressAt()
	copy(b.Leader[at:], slice)
	at += len(slice)
	if len(slice) > 0 {
		binary.LittleEndian.PutUint32(b.Leader[at:], crc32.Checksum(slice, castagnoli()))
		at += ingressCheck
	}
	binary.LittleEndian.PutUint32(b.Leader[at:], uint32(min(max(next, 0), s.cfg.IngressSlice)))
	return nil
}

// castagnoli is cached by the standard library; MakeTable does not build it twice.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

func flag(ok bool) byte {
	if ok {
		return 1
	}
	return 0
}

// hashBytes digests an answer eight bytes at a time. It only has to tell ranks apart that disagree by fault,
// not by design.
func hashBytes(p []byte) uint64 {
	h := mix(0x61646d6974, uint64(len(p)))
	for len(p) >= 8 {
		h = mix(h, binary.LittleEndian.Uint64(p))
		p = p[8:]
	}
	for _, c := range p {
		h = mix(h, uint64(c))
	}
	return h
}
