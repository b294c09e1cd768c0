package model

import "math/bits"

// prime is 2^61-1. Sums are kept below it.
const prime = 1<<61 - 1

// add is a+b modulo prime, for a and b below it.
func add(a, b uint64) uint64 {
	s := a + b
	if s >= prime {
		s -= prime
	}
	return s
}

// mul is a*b modulo prime, for any a and for b below prime.
func mul(a, b uint64) uint64 { return fold(bits.Mul64(a, b)) }

// fold is hi*2^64 + lo modulo prime.
func fold(hi, lo uint64) uint64 {
	// 2^61 is 1 modulo prime, so 2^64 is 8; with hi below 2^61, hi<<3 fits.
	hi = reduce(hi&prime+hi>>61) << 3
	return add(reduce(lo&prime+lo>>61), reduce(hi&prime+hi>>61))
}

// reduce is s modulo prime, for s below twice prime.
func reduce(s uint64) uint64 {
	if s >= prime {
		s -= prime
	}
	return s
}

// inverse is 1/a modulo prime, by Fermat's little theorem; a is not 0 modulo prime.
func inverse(a uint64) uint64 {
	result, base := uint64(1), a%prime
	for e := uint64(prime - 2); e > 0; e >>= 1 {
		if e&1 == 1 {
			result = mul(result, base)
		}
		base = mul(base, base)
	}
	return result
}

// mix is a bijection of 64 bits in which each input bit reaches every output bit (the finaliser of
// SplitMix64: Steele, Lea and Flood, 2014, with the constants of Stafford's variant 13).
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// Odd constants without structure, one for each use, so that equal numbers in different uses do not
// meet: the fractional part of the golden ratio and of square roots of small primes.
const (
	golden      = 0x9e3779b97f4a7c15
	keyWeight   = 0x510e527fade682d1
	keyPage     = 0x9b05688c2b3e6c1f
	keyContent  = 0x1f83d9abfb41bd6b
	keyToken    = 0x5be0cd19137e2179
	keyStart    = 0xcbbb9d5dc1059ed9
	keyStamp    = 0x629a292a367cd507
	keySplinter = 0x9159015a3070dd17
)

// weight is a number from 1 to prime-1 that depends on n and use.
func weight(use, n uint64) uint64 { return mix(n*golden^use)%(prime-1) + 1 }

// pageWeight is what a page's digest is multiplied by at its place in the sequence.
func pageWeight(page int) uint64 { return weight(keyPage, uint64(page)) }
