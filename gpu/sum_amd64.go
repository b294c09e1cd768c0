package gpu

import "unsafe"

const (
	streamFrom  = 4096     // shorter copies are as fast through the cache, and are wanted there
	streamPiece = 64 << 10 // bytes a call of copyRounds takes at most: it cannot be preempted
	streamAlign = 16       // of dst, for stores that go past the cache
)

// copyRounds copies rounds rounds from src to dst and takes them into the running words, as
// sumRounds does. dst is a multiple of streamAlign.
//
//go:noescape
func copyRounds(dst, src *byte, rounds int, s0, s1 uint64) (r0, r1 uint64)

// copyPieces copies and sums from the start of src as many whole rounds as can be taken the fast way,
// and returns how many bytes they were.
func copyPieces(s0, s1 uint64, dst, src []byte) (r0, r1 uint64, n int) {
	if len(src) < streamFrom || uintptr(unsafe.Pointer(unsafe.SliceData(dst)))%streamAlign != 0 {
		return copyPiecesCached(s0, s1, dst, src)
	}
	for whole := len(src) &^ (sumRound - 1); n < whole; {
		size := min(whole-n, streamPiece)
		s0, s1 = copyRounds(&dst[n], &src[n], size/sumRound, s0, s1)
		n += size
	}
	return s0, s1, n
}
