package model

import (
	"errors"
	"fmt"
	"math"
)

// StampBytes is the size of a page in the stamp layout.
const StampBytes = 16

// ErrShape is wrapped by every refusal of a shape, or of a page that does not fit one.
var ErrShape = errors.New("model: not a usable shape")

// Shape is the layout of a page on one rank. In the full layout a page holds, layer by layer and
// within a layer token by token, the rank's share of that token's bytes.
type Shape struct {
	Layers             int  // 1 to 65536
	BytesPerTokenLayer int  // of one token in one layer, over all shards; divisible by Shards
	PageSize           int  // tokens a page, 1 or more
	Shards             int  // ranks the bytes are cut over, 1 or more
	Stamp              bool // the 16-byte layout; Layers and BytesPerTokenLayer then only name the model
}

// Check says what keeps the shape from being used, as an ErrShape.
func (s Shape) Check() error {
	switch {
	case s.Layers < 1 || s.BytesPerTokenLayer < 1 || s.PageSize < 1 || s.Shards < 1:
		return fmt.Errorf("%w: %d layers, %d bytes a token and layer, pages of %d tokens, %d shards; each must be 1 or more",
			ErrShape, s.Layers, s.BytesPerTokenLayer, s.PageSize, s.Shards)
	case s.Layers > math.MaxUint16+1:
		return fmt.Errorf("%w: %d layers; at most %d", ErrShape, s.Layers, math.MaxUint16+1)
	case s.BytesPerTokenLayer%s.Shards != 0:
		return fmt.Errorf("%w: %d bytes a token and layer cannot be cut over %d shards evenly; choose a multiple of %d",
			ErrShape, s.BytesPerTokenLayer, s.Shards, s.Shards)
	case s.Stamp && s.PageSize > math.MaxUint32:
		return fmt.Errorf("%w: pages of %d tokens are more than a stamp can count", ErrShape, s.PageSize)
	case s.BytesPerTokenLayer > math.MaxInt32/s.Layers || s.Layers*s.BytesPerTokenLayer > math.MaxInt32/s.PageSize:
		return fmt.Errorf("%w: a page of %d layers x %d tokens x %d bytes is larger than 2 GiB", ErrShape, s.Layers, s.PageSize, s.BytesPerTokenLayer)
	}
	return nil
}

// PageBytes is the size of one rank's page.
func (s Shape) PageBytes() int {
	if s.Stamp {
		return StampBytes
	}
	return s.Layers * s.PageSize * s.width()
}

// Pages is how many pages hold n tokens.
func (s Shape) Pages(n int) int { return (n + s.PageSize - 1) / s.PageSize }

// width is the bytes of one token in one layer on one shard.
func (s Shape) width() int { return s.BytesPerTokenLayer / s.Shards }

// words is the 8-byte words of one token in one layer, over all shards, the last one padded.
func (s Shape) words() int { return (s.BytesPerTokenLayer + 7) / 8 }

// checkShard says whether shard is one of the shape's.
func (s Shape) checkShard(shard int) error {
	if err := s.Check(); err != nil {
		return err
	}
	if shard < 0 || shard >= s.Shards {
		return fmt.Errorf("%w: shard %d of %d", ErrShape, shard, s.Shards)
	}
	return nil
}
