// Command score-slru is a score policy in Go: segmented LRU. Nodes that no request has found again are on probation and go
// before the protected ones; within a segment the longest unused goes first. A scan of prompts that never come
// again passes through probation and leaves the protected nodes alone.
package main

import (
	"math"

	"sluice/abi"
	"sluice/abi/guest"
	"sluice/abi/guest/export"
	"sluice/abi/guest/export/score"
	"sluice/examples/policies/settings"
)

// segmentBit is above every clock in a key, so that one segment lies wholly before the other.
const segmentBit = 62

func init() {
	p := &policy{protectAt: defaultProtectAt}
	export.Configure(p.configure)
	score.Register(p.score)
}

// defaultProtectAt is how many requests must have found a node to protect it; the one that made it is not counted.
const defaultProtectAt = 1

type policy struct{ protectAt uint64 }

// configure takes {"protect_at": HITS}, at least 1.
func (p *policy) configure(_ abi.HostInfo, config []byte) int32 {
	return settings.Read(config, func(key string, value uint64) bool {
		if key != "protect_at" || value == 0 || value > math.MaxUint32 {
			return false
		}
		p.protectAt = value
		return true
	})
}

func (p *policy) score(b guest.ScoreBatch) int32 {
	for i := range b.Len() {
		r := b.At(i)
		key := int64(min(r.LastUse(), 1<<segmentBit-1))
		if uint64(r.Hits()) >= p.protectAt {
			key |= 1 << segmentBit
		}
		b.Set(i, key)
	}
	return int32(abi.StatusOK)
}

func main() {}
