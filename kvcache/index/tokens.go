package index

import (
	"bytes"
	"math/bits"
	"unsafe"
)

// asBytes views words as their bytes in memory. Only equality and the seeded page hash look at the view, so
// byte order never shows.
func asBytes[T ~uint32](w []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(w))), 4*len(w))
}

// equalWords reports whether a and b hold the same words, at the speed of a memory comparison.
func equalWords[T ~uint32](a, b []T) bool { return bytes.Equal(asBytes(a), asBytes(b)) }

// Block sizes, in tokens, of the narrowing search in commonPrefix: the first is large enough that the cost of
// a call vanishes in the comparison, the last is small enough to walk.
const (
	wideBlock   = 1024
	middleBlock = 128
	narrowBlock = 16
)

// commonPrefix returns the number of leading tokens that a and b share.
func commonPrefix(a, b []uint32) int {
	n := min(len(a), len(b))
	a, b = a[:n], b[:n]
	i := 0
	for _, step := range [...]int{wideBlock, middleBlock, narrowBlock} {
		for i+step <= n && equalWords(a[i:i+step], b[i:i+step]) {
			i += step
		}
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}

// Odd constants with about half of their bits set; they carry no other meaning.
const (
	mulA = 0x9e3779b97f4a7c15
	mulB = 0xd6e8feb86659fd93
	mulC = 0xa0761d6478bd642f
	mulD = 0xe7037ed1a0b428db
)

// fold multiplies to 128 bits and folds the halves together.
func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// hashWords digests words. It is the same on every machine, so it may enter Digest and Checksum. Four lanes
// keep four multiplications in flight.
func hashWords[T ~uint32](w []T) uint64 {
	h0, h1, h2, h3 := uint64(len(w))^mulC, uint64(mulD), uint64(mulA), uint64(mulB)
	for len(w) >= 16 {
		q := w[:16:16]
		h0 = fold(h0^pair(q[0], q[1]), mulA^pair(q[2], q[3]))
		h1 = fold(h1^pair(q[4], q[5]), mulB^pair(q[6], q[7]))
		h2 = fold(h2^pair(q[8], q[9]), mulC^pair(q[10], q[11]))
		h3 = fold(h3^pair(q[12], q[13]), mulD^pair(q[14], q[15]))
		w = w[16:]
	}
	for _, v := range w {
		h0 = fold(h0^uint64(v), mulA)
	}
	return step(step(h0, h1, h2), h3, 0)
}

func pair[T ~uint32](lo, hi T) uint64 { return uint64(lo) | uint64(hi)<<32 }

// hashText digests bytes, the same on every machine.
func hashText(s []byte) uint64 {
	h := uint64(len(s)) ^ mulD
	for _, c := range s {
		h = fold(h^uint64(c), mulA)
	}
	return h
}

// step chains two values into a rolling hash.
func step(h, a, b uint64) uint64 {
	return fold(fold(h^a, mulA)^b, mulB) + mulC
}
