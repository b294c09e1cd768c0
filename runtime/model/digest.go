package model

import (
	"encoding/binary"
	"math/bits"
)

// digester turns the bytes of a page into a number below prime. It is a table of weights, made
// once; using it allocates nothing.
//
// The digests of all shards of a page add up to one number whatever the number of shards, because
// the weight of a byte depends on its place in the item over all shards.
type digester struct {
	shape Shape
	shard int
	word  []uint64 // full layout, by (layer, slot, word over all shards)
	parts []uint64 // shards whose bytes are not whole words: by (layer, slot, byte of the shard)
	share uint64   // stamp layout: 1/Shards, so that equal stamps on all shards add up to one
}

func newDigester(shape Shape, shard int) *digester {
	d := &digester{shape: shape, shard: shard, share: inverse(uint64(shape.Shards))}
	if shape.Stamp {
		return d
	}
	d.word = make([]uint64, shape.Layers*shape.PageSize*shape.words())
	for i := range d.word {
		d.word[i] = weight(keyWeight, uint64(i))
	}
	w := shape.width()
	if w%8 == 0 {
		return d
	}
	d.parts = make([]uint64, shape.PageBytes())
	for i := range d.parts {
		column := shard*w + i%w
		d.parts[i] = mul(1<<(8*(column%8)), d.word[i/w*shape.words()+column/8])
	}
	return d
}

// page is the digest of a page that holds tokens tokens, 1 to PageSize. Bytes behind them do not
// count.
func (d *digester) page(b []byte, tokens int) uint64 {
	if d.shape.Stamp {
		return mul(stampDigest(binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])), d.share)
	}
	w := d.shape.width()
	var sum uint64
	for layer := range d.shape.Layers {
		first := layer * d.shape.PageSize
		seg := b[first*w : (first+tokens)*w]
		if d.parts != nil {
			sum = add(sum, bytesDigest(seg, d.parts[first*w:]))
			continue
		}
		words := d.shape.words()
		if d.shape.Shards == 1 {
			sum = add(sum, wordsDigest(seg, d.word[first*words:]))
			continue
		}
		for slot := range tokens {
			at := (first+slot)*words + d.shard*(w/8)
			sum = add(sum, wordsDigest(seg[slot*w:(slot+1)*w], d.word[at:]))
		}
	}
	return sum
}

// wordsDigest is the sum over b's 8-byte words, each times its weight.
//
// Four products fit into 128 bits, each being below 2^125, and are reduced together.
func wordsDigest(b []byte, weights []uint64) uint64 {
	weights = weights[:len(b)/8]
	var sum uint64
	for len(weights) >= 4 && len(b) >= 32 {
		w, q := weights[:4:4], b[:32:32]
		hi, lo := bits.Mul64(binary.LittleEndian.Uint64(q), w[0])
		for i := 1; i < 4; i++ {
			h, l := bits.Mul64(binary.LittleEndian.Uint64(q[8*i:]), w[i])
			var carry uint64
			lo, carry = bits.Add64(lo, l, 0)
			hi += h + carry
		}
		sum = add(sum, fold(hi, lo))
		weights, b = weights[4:], b[32:]
	}
	for i, w := range weights {
		sum = add(sum, mul(binary.LittleEndian.Uint64(b[8*i:]), w))
	}
	return sum
}

// bytesDigest is the same sum, byte by byte.
func bytesDigest(b []byte, weights []uint64) uint64 {
	weights = weights[:len(b)]
	var sum uint64
	for i, w := range weights {
		sum = add(sum, mul(uint64(b[i]), w))
	}
	return sum
}

// stampDigest is the digest of a stamp over all shards.
func stampDigest(hash, place uint64) uint64 {
	return add(mul(hash, weight(keyStamp, 1)), mul(place, weight(keyStamp, 2)))
}
