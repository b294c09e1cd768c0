package model

import "encoding/binary"

// Prefix identifies a namespace and the tokens so far, in order, by a rolling 64-bit hash.
type Prefix uint64

// Start is the prefix of no token in a namespace.
func Start(namespace string) Prefix {
	h := mix(uint64(len(namespace))*golden ^ keyStart)
	for len(namespace) >= 8 {
		h = mix(h^binary.LittleEndian.Uint64([]byte(namespace[:8])))*golden + keySplinter
		namespace = namespace[8:]
	}
	var tail [8]byte
	copy(tail[:], namespace)
	return Prefix(mix(h ^ binary.LittleEndian.Uint64(tail[:])))
}

// Next is the prefix with one more token.
func (p Prefix) Next(token uint32) Prefix {
	return Prefix(mix((uint64(p)+golden)*keySplinter ^ (uint64(token)+1)*golden))
}

// Extend is the prefix with more tokens.
func (p Prefix) Extend(tokens []uint32) Prefix {
	for _, t := range tokens {
		p = p.Next(t)
	}
	return p
}
