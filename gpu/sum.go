package gpu

import (
	"encoding/binary"
	"math/bits"
)

const (
	sumRound = 64   // bytes that one round of the checksum takes in
	sumPiece = 1024 // bytes that copyPiecesCached sums and then copies; in the L1 cache twice over
)

// Odd constants with about as many ones as zeros: the fractional parts of the square roots of 2, 3,
// 5 and 7, in 64 bits, with the lowest bit set.
const (
	sumK0 = 0x6a09e667f3bcc909
	sumK1 = 0xbb67ae8584caa73b
	sumK2 = 0x3c6ef372fe94f82b
	sumK3 = 0xa54ff53a5f1d36f1
)

// Sum is the checksum of a page: 64 bits, the same on every machine and in every run. It finds
// broken memory and misplaced pages (a random change goes unseen once in about 2^64); it is no
// defence against someone who makes pages to collide.
//
// Each round multiplies four pairs of words to 128 bits and folds the products into two running
// words, the way of wyhash (Wang Yi, 2019).
func Sum(b []byte) uint64 {
	s0, s1 := sumSeed(len(b))
	whole := len(b) &^ (sumRound - 1)
	s0, s1 = sumRounds(s0, s1, b[:whole])
	return sumTail(s0, s1, b[whole:])
}

// CopySum copies src to dst and returns Sum of the bytes copied. dst and src do not overlap; as
// with copy, the shorter of them bounds what is copied.
func CopySum(dst, src []byte) uint64 {
	n := min(len(dst), len(src))
	dst, src = dst[:n], src[:n]
	s0, s1 := sumSeed(n)
	s0, s1, done := copyPieces(s0, s1, dst, src)
	dst, src = dst[done:], src[done:]
	whole := len(src) &^ (sumRound - 1)
	s0, s1 = sumRounds(s0, s1, src[:whole])
	copy(dst, src)
	return sumTail(s0, s1, src[whole:])
}

// copyPiecesCached copies and sums piece by piece, the sum first: the sum brings the piece into the
// cache, and the copy, which would have waited for memory, finds it there. n is the bytes of the
// whole pieces it took from the start of src.
func copyPiecesCached(s0, s1 uint64, dst, src []byte) (r0, r1 uint64, n int) {
	for ; len(src)-n >= sumPiece; n += sumPiece {
		piece := src[n : n+sumPiece]
		s0, s1 = sumRounds(s0, s1, piece)
		copy(dst[n:n+sumPiece], piece)
	}
	return s0, s1, n
}

// sumSeed starts the running words from the length, so that padding is not mistaken for content.
func sumSeed(n int) (s0, s1 uint64) { return sumK2 ^ uint64(n), sumK1 + uint64(n) }

// sumRounds takes in b, a whole number of rounds.
func sumRounds(s0, s1 uint64, b []byte) (uint64, uint64) {
	for ; len(b) >= sumRound; b = b[sumRound:] {
		q := b[:sumRound:sumRound]
		x0, x1 := binary.LittleEndian.Uint64(q[0:]), binary.LittleEndian.Uint64(q[8:])
		x2, x3 := binary.LittleEndian.Uint64(q[16:]), binary.LittleEndian.Uint64(q[24:])
		x4, x5 := binary.LittleEndian.Uint64(q[32:]), binary.LittleEndian.Uint64(q[40:])
		x6, x7 := binary.LittleEndian.Uint64(q[48:]), binary.LittleEndian.Uint64(q[56:])
		s0, s1 = fold(x0^s0, x1^sumK0)+fold(x4^sumK1, x5^s0), fold(x2^s1, x3^sumK2)+fold(x6^sumK3, x7^s1)
	}
	return s0, s1
}

// sumTail takes in what is left of a page, less than one round, padded with zeros to whole pairs of
// words, and mixes the running words to the sum.
func sumTail(s0, s1 uint64, b []byte) uint64 {
	for len(b) > 0 {
		var q [16]byte
		n := copy(q[:], b)
		b = b[n:]
		s0, s1 = s1, fold(binary.LittleEndian.Uint64(q[:8])^s0, binary.LittleEndian.Uint64(q[8:])^sumK3)+s0
	}
	return fold(s0^sumK3, fold(s1^sumK2, sumK0))
}

// fold is the exclusive or of the two halves of a*b.
func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}
