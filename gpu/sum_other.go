//go:build !amd64

package gpu

// copyPieces copies and sums whole pieces from the start of src, and returns how many bytes they
// were.
func copyPieces(s0, s1 uint64, dst, src []byte) (r0, r1 uint64, n int) {
	return copyPiecesCached(s0, s1, dst, src)
}
