package guest

import "sluice/abi"

// Bad is the status for a batch whose header makes no sense to this SDK.
const Bad = int32(abi.StatusBadBatch)

// parts is what every batch view shares: where the records are and how far apart.
type parts struct {
	globals, in, out    []byte
	inStride, outStride int
	n, outs             int
	tick, epoch         uint64
}

// Len is the number of input records.
func (p *parts) Len() int { return p.n }

// Tick is the scheduler's tick.
func (p *parts) Tick() uint64 { return p.tick }

// Epoch is the generation of the policies, the same on all ranks.
func (p *parts) Epoch() uint64 { return p.epoch }

// open checks the header at the start of buf and finds the parts, outputs aside. Strides and sizes may be larger than
// this version's, never smaller.
func open(buf []byte, hook abi.Hook, globalsSize, inStride, outStride int) (parts, abi.Header, bool) {
	if len(buf) < abi.HeaderSize {
		return parts{}, abi.Header{}, false
	}
	h := abi.GetHeader(buf)
	if !marked(buf) || h.Major != abi.Major || u32(buf, 12) != uint32(hook) || h.N > abi.MaxRecords ||
		int(h.GlobalsSize) < globalsSize || int(h.InStride) < inStride || int(h.OutStride) < outStride {
		return parts{}, h, false
	}
	globals, ok := part(buf, h.GlobalsOff, uint64(h.GlobalsSize))
	if !ok {
		return parts{}, h, false
	}
	in, ok := part(buf, h.InOff, uint64(h.N)*uint64(h.InStride))
	if !ok {
		return parts{}, h, false
	}
	return parts{
		globals: globals, in: in, inStride: int(h.InStride), outStride: int(h.OutStride),
		n: int(h.N), tick: h.Tick, epoch: h.Epoch,
	}, h, true
}

// outputs finds the outs output records.
func (p *parts) outputs(buf []byte, h abi.Header, outs int) bool {
	out, ok := part(buf, h.OutOff, uint64(outs)*uint64(h.OutStride))
	p.out, p.outs = out, outs
	return ok
}

// marked says whether buf starts with the batch's magic and a header of at least this version's size.
func marked(buf []byte) bool {
	return u32(buf, 0) == abi.Magic && u32(buf, 8) >= abi.HeaderSize
}

func u32(b []byte, at int) uint32 {
	return uint32(b[at]) | uint32(b[at+1])<<8 | uint32(b[at+2])<<16 | uint32(b[at+3])<<24
}

func part(buf []byte, off uint32, size uint64) ([]byte, bool) {
	end := uint64(off) + size
	if end > uint64(len(buf)) {
		return nil, false
	}
	return buf[off:end:end], true
}

// GateBatch is a view of a gate batch: input record i is answered by output record i.
type GateBatch struct{ parts }

// OpenGate takes the view of the gate batch at the start of buf; false for bytes that are none.
func OpenGate(buf []byte) (GateBatch, bool) {
	p, h, ok := open(buf, abi.Gate, abi.GateGlobalsSize, abi.GateStride, abi.GateOutStride)
	ok = ok && p.outputs(buf, h, p.n)
	return GateBatch{p}, ok
}

// Globals is what all records share.
func (b *GateBatch) Globals() GateGlobals {
	return GateGlobals{(*[abi.GateGlobalsSize]byte)(b.globals)}
}

// At is input record i, 0 <= i < Len().
func (b *GateBatch) At(i int) GateRecord {
	return GateRecord{(*[abi.GateStride]byte)(b.in[i*b.inStride:])}
}

// Answer is output record i, 0 <= i < Len().
func (b *GateBatch) Answer(i int) GateAnswer {
	return GateAnswer{(*[abi.GateOutStride]byte)(b.out[i*b.outStride:])}
}

// SetVote answers record i with a vote and no reason.
func (b *GateBatch) SetVote(i int, v abi.Poll) { b.Answer(i).SetVote(v) }

// Fail answers record i with a vote of Failed and the reason for it.
func (b *GateBatch) Fail(i int, why abi.Reason) {
	a := b.Answer(i)
	a.SetVote(abi.PollFailed)
	a.SetReason(why)
}

// GiveUp ends the request of record i on all ranks, whatever its transfer does, with the reason; v is the vote beside it.
func (b *GateBatch) GiveUp(i int, v abi.Poll, why abi.Reason) {
	a := b.Answer(i)
	a.SetVote(v)
	a.SetReason(why)
	a.SetFlags(abi.GateOutGiveUp)
}

// ReserveBatch is a view of a reserve batch: all input records are answered by one output record.
type ReserveBatch struct{ parts }

// OpenReserve takes the view of the reserve batch at the start of buf; false for bytes that are none.
func OpenReserve(buf []byte) (ReserveBatch, bool) {
	p, h, ok := open(buf, abi.Reserve, abi.ReserveGlobalsSize, abi.ReserveStride, abi.ReserveOutStride)
	ok = ok && p.outputs(buf, h, 1)
	return ReserveBatch{p}, ok
}

// Globals is the state of the device tier.
func (b *ReserveBatch) Globals() ReserveGlobals {
	return ReserveGlobals{(*[abi.ReserveGlobalsSize]byte)(b.globals)}
}

// At is input record i, 0 <= i < Len().
func (b *ReserveBatch) At(i int) ReserveRecord {
	return ReserveRecord{(*[abi.ReserveStride]byte)(b.in[i*b.inStride:])}
}

// Answer is the output record.
func (b *ReserveBatch) Answer() ReserveAnswer {
	return ReserveAnswer{(*[abi.ReserveOutStride]byte)(b.out)}
}

// Hold answers with the tokens to hold back.
func (b *ReserveBatch) Hold(tokens uint64) { b.Answer().SetHeldTokens(tokens) }

// AdmitBatch is a view of an admit batch: the first Candidates() input records are answered, the rest is context.
type AdmitBatch struct{ parts }

// OpenAdmit takes the view of the admit batch at the start of buf; false for bytes that are none.
func OpenAdmit(buf []byte) (AdmitBatch, bool) {
	p, h, ok := open(buf, abi.Admit, abi.AdmitGlobalsSize, abi.AdmitStride, abi.AdmitOutStride)
	if !ok {
		return AdmitBatch{}, false
	}
	b := AdmitBatch{p}
	c := int(b.Globals().Candidates())
	ok = c <= p.n && b.outputs(buf, h, c)
	return b, ok
}

// Globals is the state that admission starts from.
func (b *AdmitBatch) Globals() AdmitGlobals {
	return AdmitGlobals{(*[abi.AdmitGlobalsSize]byte)(b.globals)}
}

// Candidates is how many records are answered.
func (b *AdmitBatch) Candidates() int { return b.outs }

// At is input record i, 0 <= i < Len().
func (b *AdmitBatch) At(i int) AdmitRecord {
	return AdmitRecord{(*[abi.AdmitStride]byte)(b.in[i*b.inStride:])}
}

// Answer is output record i, 0 <= i < Candidates().
func (b *AdmitBatch) Answer(i int) AdmitAnswer {
	return AdmitAnswer{(*[abi.AdmitOutStride]byte)(b.out[i*b.outStride:])}
}

// Set answers candidate i with a verdict and its position in the walk. The positions of all candidates together must be
// a permutation of 0..Candidates()-1.
func (b *AdmitBatch) Set(i int, v abi.Verdict, order int) {
	a := b.Answer(i)
	a.SetVerdict(v)
	a.SetOrder(uint32(order))
}

// ScoreBatch is a view of a score batch: every input record is a cache node and is given a key.
type ScoreBatch struct{ parts }

// OpenScore takes the view of the score batch at the start of buf; false for bytes that are none.
func OpenScore(buf []byte) (ScoreBatch, bool) {
	p, h, ok := open(buf, abi.Score, abi.ScoreGlobalsSize, abi.ScoreStride, abi.ScoreOutStride)
	ok = ok && p.outputs(buf, h, p.n)
	return ScoreBatch{p}, ok
}

// Globals is the state of the cache.
func (b *ScoreBatch) Globals() ScoreGlobals {
	return ScoreGlobals{(*[abi.ScoreGlobalsSize]byte)(b.globals)}
}

// At is input record i, 0 <= i < Len().
func (b *ScoreBatch) At(i int) ScoreRecord {
	return ScoreRecord{(*[abi.ScoreStride]byte)(b.in[i*b.inStride:])}
}

// Answer is output record i, 0 <= i < Len().
func (b *ScoreBatch) Answer(i int) ScoreAnswer {
	return ScoreAnswer{(*[abi.ScoreOutStride]byte)(b.out[i*b.outStride:])}
}

// Set gives node i its key; the smallest is evicted first.
func (b *ScoreBatch) Set(i int, key int64) { b.Answer(i).SetKey(uint64(key)) }
