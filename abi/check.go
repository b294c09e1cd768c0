package abi

import (
	"encoding/binary"
	"errors"
	"strconv"
)

// ErrIllegalAnswer is what every answer that is not well-formed wraps: a vote over 4, an unknown flag bit, an order that
// is no permutation, a reserved byte that is not zero. It is a fault of the policy; a well-formed answer that the host
// overrules is not.
var ErrIllegalAnswer = errors.New("illegal answer")

// ErrScratch is returned by CheckAdmitOut when the caller's bitmap is too small.
var ErrScratch = errors.New("scratch bitmap is too small")

// AnswerError names the record, the field and the value that make an answer illegal.
type AnswerError struct {
	Hook   Hook
	Record int    // index of the output record
	Field  string // name of its field
	Value  uint64 // what it holds
}

// Error says which record and field, and the value.
func (e *AnswerError) Error() string {
	return ErrIllegalAnswer.Error() + ": " + e.Hook.String() + " record " + strconv.Itoa(e.Record) + ": " + e.Field + " is " + strconv.FormatUint(e.Value, 10)
}

// Unwrap is ErrIllegalAnswer.
func (e *AnswerError) Unwrap() error { return ErrIllegalAnswer }

// CheckGateOut says whether the n answers of a gate batch are well-formed: votes 0..4, no flag bit but GateOutGiveUp.
// It allocates only for the error, an *AnswerError.
func CheckGateOut(b Batch, n int) error {
	if len(b.Out) < n*GateOutStride {
		return sizeError(Gate, n, n, len(b.Out))
	}
	for i := range n {
		o := (*[GateOutStride]byte)(b.Out[i*GateOutStride:])
		if o[0] > uint8(PollSuccess) {
			return &AnswerError{Gate, i, "vote", uint64(o[0])}
		}
		if f := binary.LittleEndian.Uint16(o[2:]); f&^GateOutGiveUp != 0 {
			return &AnswerError{Gate, i, "flags", uint64(f)}
		}
	}
	return nil
}

// CheckReserveOut says whether the one answer of a reserve batch is well-formed: its reserved bytes are zero. n is the
// number of output records, 1. It allocates only for the error, an *AnswerError.
func CheckReserveOut(b Batch, n int) error {
	if n != 1 || len(b.Out) < ReserveOutStride {
		return sizeError(Reserve, 0, n, len(b.Out))
	}
	o := (*[ReserveOutStride]byte)(b.Out)
	if t := binary.LittleEndian.Uint64(o[8:]) >> 8; t != 0 {
		return &AnswerError{Reserve, 0, "reserved bytes", t}
	}
	return nil
}

// SeenWords is how many 64-bit words CheckAdmitOut needs for n candidates.
func SeenWords(n int) int { return (n + 63) / 64 }

// CheckAdmitOut says whether the n answers of an admit batch are well-formed: verdicts 0..2, reserved bytes zero, and
// orders a permutation of 0..n-1. seen is scratch of SeenWords(n) words or more, whose contents do not matter. It
// allocates only for the error: an *AnswerError, or ErrScratch.
func CheckAdmitOut(b Batch, n int, seen []uint64) error {
	if n < 0 || len(b.Out) < n*AdmitOutStride {
		return sizeError(Admit, n, n, len(b.Out))
	}
	if len(seen) < SeenWords(n) {
		return ErrScratch
	}
	seen = seen[:SeenWords(n)]
	clear(seen)
	for i := range n {
		o := (*[AdmitOutStride]byte)(b.Out[i*AdmitOutStride:])
		if o[0] > uint8(VerdictReject) {
			return &AnswerError{Admit, i, "verdict", uint64(o[0])}
		}
		if t := binary.LittleEndian.Uint16(o[2:]); t != 0 {
			return &AnswerError{Admit, i, "reserved bytes", uint64(t)}
		}
		p := binary.LittleEndian.Uint32(o[4:])
		if uint64(p) >= uint64(n) || seen[p/64]&(1<<(p%64)) != 0 {
			return &AnswerError{Admit, i, "order", uint64(p)}
		}
		seen[p/64] |= 1 << (p % 64)
	}
	return nil
}

// CheckScoreOut says whether the n answers of a score batch are there: every key is legal. It allocates only for the error.
func CheckScoreOut(b Batch, n int) error {
	if n < 0 || len(b.Out) < n*ScoreOutStride {
		return sizeError(Score, n, n, len(b.Out))
	}
	return nil
}
