package collective

import (
	"fmt"
	"math"
	"slices"
)

// Shape is the number of lanes of each width in one ballot. It is a function of replicated state,
// so all ranks of a group use the same shape in the same tick.
type Shape struct {
	U64    int // lanes of 64 bits
	U32    int // lanes of 32 bits
	U8     int // lanes of 8 bits
	Leader int // bytes that only rank 0 sends; on every other rank they are all ones
}

// Bytes is the size in bytes of one rank's vector of this shape, without any framing.
func (s Shape) Bytes() int { return 8*s.U64 + 4*s.U32 + s.U8 + s.Leader }

// String gives the counts by width, as errors print them.
func (s Shape) String() string {
	return fmt.Sprintf("u64=%d u32=%d u8=%d leader=%d", s.U64, s.U32, s.U8, s.Leader)
}

// Vector is one rank's part of an exchange before it, and the reduced ballot after it.
//
// The slices belong to the rank that owns the vector; an engine reads and writes them only between
// the start and the return of that rank's call to Min. Resize with Reset, never by appending.
type Vector struct {
	U64    []uint64
	U32    []uint32
	U8     []byte
	Leader []byte
}

// Reset gives v the shape s and sets every lane to all ones, which is the identity of MIN. It
// reuses what capacity the slices have, so it allocates only while the shape still grows. A
// negative count is read as 0.
func (v *Vector) Reset(s Shape) {
	v.U64 = ones(v.U64, s.U64, math.MaxUint64)
	v.U32 = ones(v.U32, s.U32, math.MaxUint32)
	v.U8 = ones(v.U8, s.U8, math.MaxUint8)
	v.Leader = ones(v.Leader, s.Leader, math.MaxUint8)
}

// Shape is the shape v has now.
func (v *Vector) Shape() Shape {
	return Shape{U64: len(v.U64), U32: len(v.U32), U8: len(v.U8), Leader: len(v.Leader)}
}

func ones[T uint64 | uint32 | uint8](b []T, n int, one T) []T {
	n = max(n, 0)
	b = slices.Grow(b[:0], n)[:n]
	// Ones are copied from ones, twice as many each time: a copy moves many lanes an instruction.
	const first = 16
	for i := range min(n, first) {
		b[i] = one
	}
	for done := first; done < n; done *= 2 {
		copy(b[done:], b[:done])
	}
	return b
}
