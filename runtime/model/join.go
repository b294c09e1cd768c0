package model

import "fmt"

const (
	firstPrintable = 32
	printable      = 95
)

// Join is the model's own reduction: dst[i] is the token that the sums of all ranks make for item
// i. partials holds one slice a rank, each as long as dst. Tokens are printable ASCII ids, 32 to
// 126, below vocab where that is smaller (0 = no limit), so that text made of them can be read.
// ErrStep where the lengths differ or vocab leaves no token.
func Join(partials [][]uint64, dst []uint32, vocab int) error {
	for rank, p := range partials {
		if len(p) != len(dst) {
			return fmt.Errorf("%w: rank %d has sums of %d items, wanted %d", ErrStep, rank, len(p), len(dst))
		}
	}
	if len(partials) == 0 || vocab < 0 || vocab > 0 && vocab <= firstPrintable {
		return fmt.Errorf("%w: %d ranks and a vocabulary of %d; wanted at least one rank and a vocabulary over %d", ErrStep, len(partials), vocab, firstPrintable)
	}
	for i := range dst {
		var sum uint64
		for _, p := range partials {
			sum = add(sum, p[i]%prime)
		}
		dst[i] = tokenOf(sum, vocab)
	}
	return nil
}

// tokenOf draws the token from a sum below prime.
func tokenOf(sum uint64, vocab int) uint32 {
	n := uint64(printable)
	if vocab > firstPrintable && vocab < firstPrintable+printable {
		n = uint64(vocab - firstPrintable)
	}
	return firstPrintable + uint32(mix(sum^keyToken)%n)
}
