#include "textflag.h"

// func copyRounds(dst, src *byte, rounds int, s0, s1 uint64) (r0, r1 uint64)
//
// The words of a block are x0 to x7, in order. The block is read once for the copy, by vector, and
// once for the sum, by word, from the cache line that the first read brought. The copy is stored past
// the cache (MOVNTO), which spares reading the destination first; SFENCE makes it visible in order.
TEXT ·copyRounds(SB), NOSPLIT, $0-56
	MOVQ  dst+0(FP), DI
	MOVQ  src+8(FP), SI
	MOVQ  rounds+16(FP), CX
	MOVQ  s0+24(FP), R8
	MOVQ  s1+32(FP), R9
	MOVQ  $0x6a09e667f3bcc909, R10 // sumK0
	MOVQ  $0xbb67ae8584caa73b, R11 // sumK1
	MOVQ  $0x3c6ef372fe94f82b, R12 // sumK2
	MOVQ  $0xa54ff53a5f1d36f1, R13 // sumK3
	TESTQ CX, CX
	JLE   end

round:
	MOVOU  0(SI), X0
	MOVOU  16(SI), X1
	MOVOU  32(SI), X2
	MOVOU  48(SI), X3
	MOVNTO X0, 0(DI)
	MOVNTO X1, 16(DI)
	MOVNTO X2, 32(DI)
	MOVNTO X3, 48(DI)

	// s0 = fold(x0^s0, x1^sumK0) + fold(x4^sumK1, x5^s0)
	MOVQ 0(SI), AX
	MOVQ 8(SI), BX
	XORQ R8, AX
	XORQ R10, BX
	MULQ BX
	XORQ DX, AX
	MOVQ AX, BX
	MOVQ 32(SI), AX
	XORQ 40(SI), R8
	XORQ R11, AX
	MULQ R8
	XORQ DX, AX
	LEAQ (AX)(BX*1), R8

	// s1 = fold(x2^s1, x3^sumK2) + fold(x6^sumK3, x7^s1)
	MOVQ 16(SI), AX
	MOVQ 24(SI), BX
	XORQ R9, AX
	XORQ R12, BX
	MULQ BX
	XORQ DX, AX
	MOVQ AX, BX
	MOVQ 48(SI), AX
	XORQ 56(SI), R9
	XORQ R13, AX
	MULQ R9
	XORQ DX, AX
	LEAQ (AX)(BX*1), R9

	ADDQ $64, SI
	ADDQ $64, DI
	DECQ CX
	JNZ  round

end:
	SFENCE
	MOVQ R8, r0+40(FP)
	MOVQ R9, r1+48(FP)
	RET
