// Command score-lfu is a score policy in Go: least frequently used, with ageing. A hit is worth age_uses uses of the cache,
// so that what was popular once does not stay for ever. Without ageing it answers as the shipped lfu does.
package main

import (
	"math"
	"math/bits"

	"sluice/abi"
	"sluice/abi/guest"
	"sluice/abi/guest/export"
	"sluice/abi/guest/export/score"
	"sluice/examples/policies/settings"
)

func init() {
	p := new(policy)
	export.Configure(p.configure)
	score.Register(p.score)
}

const (
	defaultAge = 2000 // uses
	clockBits  = 40   // of a key without ageing; the hits lie above them
)

type policy struct{ age uint64 }

// configure takes {"age_uses": USES}, up to 2^32-1; 0 is no ageing.
func (p *policy) configure(_ abi.HostInfo, config []byte) int32 {
	p.age = defaultAge
	return settings.Read(config, func(key string, value uint64) bool {
		if key != "age_uses" || value > math.MaxUint32 {
			return false
		}
		p.age = value
		return true
	})
}

func (p *policy) score(b guest.ScoreBatch) int32 {
	for i := range b.Len() {
		r := b.At(i)
		b.Set(i, p.key(uint64(r.Hits()), r.LastUse()))
	}
	return int32(abi.StatusOK)
}

// key needs no second look at a node to age it: the clock in the keys of the others moves on, and its own does not.
func (p *policy) key(hits, lastUse uint64) int64 {
	if p.age == 0 {
		return int64(min(hits, 1<<(63-clockBits)-1)<<clockBits | min(lastUse, 1<<clockBits-1))
	}
	sum, carry := bits.Add64(hits*p.age, lastUse, 0)
	if carry > 0 {
		return math.MaxInt64
	}
	return int64(min(sum, math.MaxInt64))
}

func main() {}
