package collective

import "encoding/binary"

// Reduce computes the exchange of a whole group: vs[r] is rank r's vector. Each lane becomes the
// minimum over ranks and the leader section becomes rank 0's bytes (what other ranks hold there is
// the identity and is not read), in place in every vector, so that all of them end equal.
//
// If the shapes differ it returns a *ShapeError that names each rank's shape, and changes nothing.
// An empty vs is an exchange of nobody and returns nil. It allocates only to report an error.
func Reduce(vs []*Vector) error {
	if len(vs) == 0 {
		return nil
	}
	first := vs[0].Shape()
	for _, v := range vs[1:] {
		if v.Shape() != first {
			return newShapeError(vs)
		}
	}
	acc := vs[0]
	for _, v := range vs[1:] {
		minU64(acc.U64, v.U64)
		minU32(acc.U32, v.U32)
		minU8(acc.U8, v.U8)
	}
	for _, v := range vs[1:] {
		copy(v.U64, acc.U64)
		copy(v.U32, acc.U32)
		copy(v.U8, acc.U8)
		copy(v.Leader, acc.Leader)
	}
	return nil
}

func minU64(dst, src []uint64) {
	src = src[:len(dst)]
	for i, s := range src {
		dst[i] = min(dst[i], s)
	}
}

func minU32(dst, src []uint32) {
	src = src[:len(dst)]
	for i, s := range src {
		dst[i] = min(dst[i], s)
	}
}

// minU8 takes eight lanes at a time: a ballot has far more byte lanes than wide ones.
func minU8(dst, src []byte) {
	src = src[:len(dst)]
	i := 0
	for ; i+8 <= len(dst); i += 8 {
		d, s := dst[i:i+8], src[i:i+8]
		binary.LittleEndian.PutUint64(d, minLanes(binary.LittleEndian.Uint64(d), binary.LittleEndian.Uint64(s)))
	}
	for ; i < len(dst); i++ {
		dst[i] = min(dst[i], src[i])
	}
}

// minLanes is the unsigned minimum of each of the eight bytes of x and y.
//
// The low seven bits of each byte are compared by a subtraction with a guard bit at the top of
// each byte, so that no borrow crosses into the next one; the top bits decide where they differ.
func minLanes(x, y uint64) uint64 {
	const high = 0x8080808080808080
	lowGE := ((x | high) - (y &^ high)) & high   // low bits of x >= low bits of y
	ge := ((x &^ y) | (^(x ^ y) & lowGE)) & high // x >= y, as the top bit of each byte
	take := (ge >> 7) * 0xff                     // 0xff in each byte where y is the smaller
	return (y & take) | (x &^ take)
}
