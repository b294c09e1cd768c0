package abi

import (
	"encoding/binary"
	"errors"
	"strconv"
)

// ErrBatchSize is returned by Begin and Open for counts or a buffer that cannot hold a batch.
var ErrBatchSize = errors.New("batch does not fit")

// ErrBatchHeader is returned by Open for bytes whose header is not this version's.
var ErrBatchHeader = errors.New("batch header is not valid")

// MaxRecords is the most input records of one batch: far above any queue, and low enough that no offset overflows.
const MaxRecords = 1 << 20

// Batch is one call's bytes as four views: header, globals, input records, output records. The views alias the buffer
// given to Begin or Open and live as long as it does; the zero Batch holds no record.
type Batch struct{ Header, Globals, In, Out []byte }

// layout holds the offsets of a batch's parts, in bytes from its start.
type layout struct{ globals, in, out, end int }

// strides returns the hook's globals size, input stride and output stride; all zero for a number that is no hook.
func strides(hook Hook) (globals, in, out int) {
	switch hook {
	case Gate:
		return GateGlobalsSize, GateStride, GateOutStride
	case Reserve:
		return ReserveGlobalsSize, ReserveStride, ReserveOutStride
	case Admit:
		return AdmitGlobalsSize, AdmitStride, AdmitOutStride
	case Score:
		return ScoreGlobalsSize, ScoreStride, ScoreOutStride
	}
	return 0, 0, 0
}

func layoutOf(hook Hook, n, nOut int) (layout, bool) {
	g, in, out := strides(hook)
	if g == 0 || n < 0 || nOut < 0 || n > MaxRecords || nOut > MaxRecords {
		return layout{}, false
	}
	var l layout
	l.globals = HeaderSize
	l.in = align(l.globals + g)
	l.out = align(l.in + n*in)
	l.end = align(l.out + nOut*out)
	return l, true
}

func align(n int) int { return (n + Align - 1) &^ (Align - 1) }

// BatchSize is how many bytes a batch of n input and nOut output records takes, a multiple of Align. It is 0 for a
// number that is no hook and for counts outside 0..MaxRecords.
func BatchSize(hook Hook, n, nOut int) int {
	l, _ := layoutOf(hook, n, nOut)
	return l.end
}

// Outs is how many output records a batch of the hook has: n for gate and score, 1 for reserve, candidates for admit.
func Outs(hook Hook, n, candidates int) int {
	switch hook {
	case Gate, Score:
		return n
	case Reserve:
		return 1
	case Admit:
		return candidates
	}
	return 0
}

// Begin lays a batch out at the start of buf: it clears the bytes that the batch will use and writes the header, with
// offsets from the start of buf. n is the number of input records, nOut that of output records (see Outs). The caller
// then fills globals and input records. Errors: ErrBatchSize.
func Begin(buf []byte, hook Hook, tick, epoch uint64, n, nOut int) (Batch, error) {
	l, ok := layoutOf(hook, n, nOut)
	if !ok || l.end > len(buf) {
		return Batch{}, sizeError(hook, n, nOut, len(buf))
	}
	clear(buf[:l.end])
	g, in, out := strides(hook)
	h := Header{
		Major: Major, Minor: Minor, Kind: hook, Tick: tick, Epoch: epoch, N: uint32(n),
		InStride: uint32(in), InOff: uint32(l.in), OutStride: uint32(out), OutOff: uint32(l.out),
		GlobalsOff: uint32(l.globals), GlobalsSize: uint32(g),
	}
	PutHeader(buf, &h)
	return views(buf, hook, l, n, nOut), nil
}

// Open takes the views of a batch that Begin laid out in the same bytes, or in bytes that were copied from there: it
// writes nothing and checks that the header is what Begin wrote for these counts. A host that let a guest run uses it to
// look at the answers. Errors: ErrBatchSize, ErrBatchHeader.
func Open(buf []byte, hook Hook, n, nOut int) (Batch, error) {
	l, ok := layoutOf(hook, n, nOut)
	if !ok || l.end > len(buf) {
		return Batch{}, sizeError(hook, n, nOut, len(buf))
	}
	h := GetHeader(buf)
	if binary.LittleEndian.Uint32(buf[12:]) != uint32(hook) || int(h.N) != n || int(h.InOff) != l.in || int(h.OutOff) != l.out || int(h.GlobalsOff) != l.globals {
		return Batch{}, ErrBatchHeader
	}
	return views(buf, hook, l, n, nOut), nil
}

// View is Open without a look at the header: the layout is a function of the arguments alone, so a guest that scribbled
// on its header cannot move what the host reads. Errors: ErrBatchSize.
func View(buf []byte, hook Hook, n, nOut int) (Batch, error) {
	l, ok := layoutOf(hook, n, nOut)
	if !ok || l.end > len(buf) {
		return Batch{}, sizeError(hook, n, nOut, len(buf))
	}
	return views(buf, hook, l, n, nOut), nil
}

func views(buf []byte, hook Hook, l layout, n, nOut int) Batch {
	g, in, out := strides(hook)
	return Batch{
		Header:  buf[0:HeaderSize:HeaderSize],
		Globals: buf[l.globals : l.globals+g : l.globals+g],
		In:      buf[l.in : l.in+n*in : l.in+n*in],
		Out:     buf[l.out : l.out+nOut*out : l.out+nOut*out],
	}
}

type batchSizeError struct {
	hook         Hook
	n, nOut, got int
}

func sizeError(hook Hook, n, nOut, got int) error {
	return &batchSizeError{hook: hook, n: n, nOut: nOut, got: got}
}

func (e *batchSizeError) Error() string {
	return ErrBatchSize.Error() + ": " + e.hook.String() + " with " + strconv.Itoa(e.n) + " input and " + strconv.Itoa(e.nOut) +
		" output records needs " + strconv.Itoa(BatchSize(e.hook, e.n, e.nOut)) + " bytes, the buffer has " + strconv.Itoa(e.got)
}

func (e *batchSizeError) Unwrap() error { return ErrBatchSize }

// Hook is the batch's kind as its header says.
func (b Batch) Hook() Hook { return GetHeader(b.Header).Kind }

// Info reads the header.
func (b Batch) Info() Header { return GetHeader(b.Header) }

// PutGateGlobals writes the globals of a gate batch.
func (b Batch) PutGateGlobals(g *GateGlobals) { PutGateGlobals(b.Globals, g) }

// PutReserveGlobals writes the globals of a reserve batch.
func (b Batch) PutReserveGlobals(g *ReserveGlobals) { PutReserveGlobals(b.Globals, g) }

// PutAdmitGlobals writes the globals of an admit batch. Its Candidates must be the batch's number of output records.
func (b Batch) PutAdmitGlobals(g *AdmitGlobals) { PutAdmitGlobals(b.Globals, g) }

// PutScoreGlobals writes the globals of a score batch.
func (b Batch) PutScoreGlobals(g *ScoreGlobals) { PutScoreGlobals(b.Globals, g) }

// PutGate writes input record i of a gate batch.
func (b Batch) PutGate(i int, r *GateRecord) { PutGateRecord(b.In[i*GateStride:], r) }

// PutReserve writes input record i of a reserve batch.
func (b Batch) PutReserve(i int, r *ReserveRecord) { PutReserveRecord(b.In[i*ReserveStride:], r) }

// PutAdmit writes input record i of an admit batch.
func (b Batch) PutAdmit(i int, r *AdmitRecord) { PutAdmitRecord(b.In[i*AdmitStride:], r) }

// PutScore writes input record i of a score batch.
func (b Batch) PutScore(i int, r *ScoreRecord) { PutScoreRecord(b.In[i*ScoreStride:], r) }

// GateIn reads input record i of a gate batch.
func (b Batch) GateIn(i int) GateRecord { return GetGateRecord(b.In[i*GateStride:]) }

// ReserveIn reads input record i of a reserve batch.
func (b Batch) ReserveIn(i int) ReserveRecord { return GetReserveRecord(b.In[i*ReserveStride:]) }

// AdmitIn reads input record i of an admit batch.
func (b Batch) AdmitIn(i int) AdmitRecord { return GetAdmitRecord(b.In[i*AdmitStride:]) }

// ScoreIn reads input record i of a score batch.
func (b Batch) ScoreIn(i int) ScoreRecord { return GetScoreRecord(b.In[i*ScoreStride:]) }

// GateOut reads the answer for record i.
func (b Batch) GateOut(i int) GateOut { return GetGateOut(b.Out[i*GateOutStride:]) }

// ReserveOut reads the one answer of a reserve batch.
func (b Batch) ReserveOut() ReserveOut { return GetReserveOut(b.Out) }

// AdmitOut reads the answer for candidate i.
func (b Batch) AdmitOut(i int) AdmitOut { return GetAdmitOut(b.Out[i*AdmitOutStride:]) }

// ScoreKey reads the key that record i is given.
func (b Batch) ScoreKey(i int) int64 { return int64(GetScoreOut(b.Out[i*ScoreOutStride:]).Key) }

// ScoreGlobals reads the globals of a score batch.
func (b Batch) ScoreGlobals() ScoreGlobals { return GetScoreGlobals(b.Globals) }

// AdmitGlobals reads the globals of an admit batch.
func (b Batch) AdmitGlobals() AdmitGlobals { return GetAdmitGlobals(b.Globals) }

// ReserveGlobals reads the globals of a reserve batch.
func (b Batch) ReserveGlobals() ReserveGlobals { return GetReserveGlobals(b.Globals) }

// GateGlobals reads the globals of a gate batch.
func (b Batch) GateGlobals() GateGlobals { return GetGateGlobals(b.Globals) }
