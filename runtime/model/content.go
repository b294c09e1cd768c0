package model

import (
	"encoding/binary"
	"fmt"
)

// FillPage writes one whole page as prefill does: the KV of tokens, which follow the prefix start
// and are at positions page*PageSize on, and zeros behind them. It returns the prefix after the
// last of them.
//
// dst has the shape's PageBytes; tokens has one to PageSize entries. ErrShape otherwise.
func FillPage(dst []byte, shape Shape, shard int, start Prefix, page int, tokens []uint32) (Prefix, error) {
	if err := checkPage(dst, shape, shard); err != nil {
		return start, err
	}
	if len(tokens) < 1 || len(tokens) > shape.PageSize || page < 0 {
		return start, fmt.Errorf("%w: %d tokens for page %d of %d tokens", ErrShape, len(tokens), page, shape.PageSize)
	}
	if shape.Stamp {
		end := start.Extend(tokens)
		putStamp(dst, end, page, len(tokens))
		return end, nil
	}
	if len(tokens) < shape.PageSize {
		clear(dst)
	}
	w := shape.width()
	for slot, t := range tokens {
		start = start.Next(t)
		for layer := range shape.Layers {
			off := (layer*shape.PageSize + slot) * w
			putKV(dst[off:off+w], start, page*shape.PageSize+slot, layer, shard*w)
		}
	}
	return start, nil
}

// WriteToken writes the KV of the token at position into dst, the bytes of the page it is in, as
// decode does. prefix is the one after that token. ErrShape where dst is not a page of the shape.
func WriteToken(dst []byte, shape Shape, shard int, prefix Prefix, position int) error {
	if err := checkPage(dst, shape, shard); err != nil {
		return err
	}
	if position < 0 {
		return fmt.Errorf("%w: position %d", ErrShape, position)
	}
	page, slot := position/shape.PageSize, position%shape.PageSize
	if shape.Stamp {
		putStamp(dst, prefix, page, slot+1)
		return nil
	}
	w := shape.width()
	for layer := range shape.Layers {
		off := (layer*shape.PageSize + slot) * w
		putKV(dst[off:off+w], prefix, position, layer, shard*w)
	}
	return nil
}

func checkPage(dst []byte, shape Shape, shard int) error {
	if err := shape.checkShard(shard); err != nil {
		return err
	}
	if len(dst) != shape.PageBytes() {
		return fmt.Errorf("%w: %d bytes for a page of %d", ErrShape, len(dst), shape.PageBytes())
	}
	return nil
}

// contentKey is what the bytes of one token in one layer are drawn from.
func contentKey(prefix Prefix, position, layer int) uint64 {
	return mix(uint64(prefix)^keyContent) + mix(uint64(position)<<16^uint64(layer)^keySplinter)
}

// contentWord is 8 bytes of that, the first at column 8*word of the token's bytes over all shards.
func contentWord(key uint64, word int) uint64 { return mix(key + uint64(word+1)*golden) }

// putKV fills dst with the bytes of one token in one layer, from column on.
func putKV(dst []byte, prefix Prefix, position, layer, column int) {
	key := contentKey(prefix, position, layer)
	for len(dst) > 0 {
		word, skip := contentWord(key, column/8), column%8
		if skip == 0 && len(dst) >= 8 {
			binary.LittleEndian.PutUint64(dst, word)
			dst, column = dst[8:], column+8
			continue
		}
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], word)
		n := copy(dst, b[skip:])
		dst, column = dst[n:], column+n
	}
}

// putStamp writes the stamp of a page: a hash of its owner's namespace and tokens up to its last
// one, its place, and how many tokens it holds.
func putStamp(dst []byte, prefix Prefix, page, tokens int) {
	binary.LittleEndian.PutUint64(dst, stampHash(prefix, page, tokens))
	binary.LittleEndian.PutUint64(dst[8:], stampPlace(page, tokens))
}

func stampHash(prefix Prefix, page, tokens int) uint64 {
	return mix(uint64(prefix) ^ mix(stampPlace(page, tokens)^keyStamp))
}

func stampPlace(page, tokens int) uint64 { return uint64(uint32(page)) | uint64(uint32(tokens))<<32 }
