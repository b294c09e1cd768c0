// Command reserve-growth is a reserve policy in Go: beyond the restores that are owed it holds back what the running batch
// will grow by over the next horizon_ticks, forecast from how fast the pool has been shrinking.
package main

import (
	"sluice/abi"
	"sluice/abi/guest"
	"sluice/abi/guest/export"
	"sluice/abi/guest/export/reserve"
	"sluice/examples/policies/settings"
)

const (
	defaultHorizon = 32   // ticks
	defaultStep    = 1024 // tokens
	mostPercent    = 25   // of the device tier, that the forecast may hold back
	unit           = 256  // the rate is kept in 256ths of a token a tick
	weight         = 8    // a tick moves the rate by an eighth of the difference
)

func init() {
	p := new(policy)
	export.Configure(p.configure)
	reserve.Register(p.reserve)
}

type policy struct {
	horizon, step uint64
	last          uint64 // free and evictable tokens a tick ago
	seen          bool   // whether there was one
	rate          uint64 // smoothed shrinking, in units a tick
}

func (p *policy) configure(_ abi.HostInfo, config []byte) int32 {
	p.horizon, p.step = defaultHorizon, defaultStep
	return settings.Read(config, func(key string, value uint64) bool {
		switch key {
		case "horizon_ticks":
			p.horizon = value
		case "step_tokens":
			p.step = value
		default:
			return false
		}
		return value <= 1<<20
	})
}

func (p *policy) reserve(b guest.ReserveBatch) int32 {
	var owed uint64
	for i := range b.Len() {
		owed += uint64(b.At(i).OwedTokens())
	}
	g := b.Globals()
	p.observe(g.FreeTokens() + g.EvictableTokens())
	most := g.TotalTokens() / 100 * mostPercent
	b.Hold(owed + min(p.rate*p.horizon/unit, most))
	return int32(abi.StatusOK)
}

// observe moves the rate. A larger step than a batch grows by in one tick is an admission: the host has booked it already.
func (p *policy) observe(available uint64) {
	var shrunk uint64
	if p.seen && available < p.last && p.last-available <= p.step {
		shrunk = (p.last - available) * unit
	}
	p.last, p.seen = available, true
	if shrunk >= p.rate {
		p.rate += (shrunk - p.rate) / weight
	} else {
		// Rounded up, so that the rate of an idle batch reaches zero.
		p.rate -= (p.rate - shrunk + weight - 1) / weight
	}
}

func main() {}
