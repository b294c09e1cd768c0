// Command score-fifo is a score policy in Go: first in, first out. The node that came first goes first, however often it has
// been used since.
package main

import (
	"math"

	"sluice/abi"
	"sluice/abi/guest"
	"sluice/abi/guest/export"
	"sluice/abi/guest/export/score"
	"sluice/examples/policies/nodes"
	"sluice/examples/policies/settings"
)

func init() {
	p := new(policy)
	export.Configure(p.configure)
	score.Register(p.score)
}

// policy remembers of each node the clock at which it was first shown.
type policy struct{ came *nodes.Table[uint64] }

func (p *policy) configure(info abi.HostInfo, config []byte) int32 {
	p.came = nodes.New[uint64](info)
	return settings.None(info, config)
}

func (p *policy) score(b guest.ScoreBatch) int32 {
	for i := range b.Len() {
		r := b.At(i)
		came, known := p.came.At(r)
		if !known {
			*came = r.LastUse()
		}
		b.Set(i, int64(min(*came, math.MaxInt64)))
	}
	return int32(abi.StatusOK)
}

func main() {}
