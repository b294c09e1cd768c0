// Command admit-shortest-ageing is an admit policy in Go: the request that takes the fewest tokens goes first, and every
// tick of waiting makes a request count as age_tokens shorter, so that a long one is overtaken for a bounded time.
package main

import (
	"sluice/abi"
	"sluice/abi/guest"
	"sluice/abi/guest/export"
	"sluice/abi/guest/export/admit"
	"sluice/examples/policies/settings"
	"sluice/examples/policies/walk"
)

// defaultAge lets a request of 16,000 tokens be overtaken for a thousand ticks at most.
const defaultAge = 16

func init() {
	p := new(policy)
	export.Configure(p.configure)
	admit.Register(p.admit)
}

type policy struct {
	walker walk.Walker
	age    int64 // tokens a tick of waiting is worth
}

func (p *policy) configure(info abi.HostInfo, config []byte) int32 {
	p.walker.Prepare(info)
	p.age = defaultAge
	return settings.Read(config, func(key string, value uint64) bool {
		p.age = int64(value)
		return key == "age_tokens" && value <= 1<<20
	})
}

// admit lets retracted requests go first: what they have made is lost to nobody, and their clients see it stand still.
func (p *policy) admit(b guest.AdmitBatch) int32 {
	return p.walker.Admit(b, func(_ int, r guest.AdmitRecord) int64 {
		length := int64(walk.Tokens(r)) - p.age*int64(r.WaitTicks())
		if r.Kind() == abi.AdmitResume {
			length -= 1 << 60
		}
		return length
	})
}

func main() {}
