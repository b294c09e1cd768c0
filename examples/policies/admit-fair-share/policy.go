// Command admit-fair-share is an admit policy in Go: each next place goes to the tenant that holds the fewest tokens,
// counting what runs and what was given places before it.
package main

import (
	"sluice/abi"
	"sluice/abi/guest"
	"sluice/abi/guest/export"
	"sluice/abi/guest/export/admit"
	"sluice/examples/policies/settings"
	"sluice/examples/policies/walk"
)

func init() {
	p := new(policy)
	export.Configure(p.configure)
	admit.Register(p.admit)
}

type policy struct {
	walker walk.Walker
	used   [1 << 16]uint64 // tokens by tenant; only the tenants of the batch are read
}

func (p *policy) configure(info abi.HostInfo, config []byte) int32 {
	p.walker.Prepare(info)
	return settings.None(info, config)
}

// admit sorts by start tags: a candidate's key is what its tenant holds once the candidates of the same tenant before it
// are in. Taking the smallest key again and again is taking the tenant with the least again and again.
func (p *policy) admit(b guest.AdmitBatch) int32 {
	for i := range b.Len() {
		p.used[b.At(i).Tenant()] = 0
	}
	for i := b.Candidates(); i < b.Len(); i++ {
		r := b.At(i)
		p.used[r.Tenant()] += uint64(r.PromptTokens()) + uint64(r.OutputTokens())
	}
	return p.walker.Admit(b, func(_ int, r guest.AdmitRecord) int64 {
		tag := p.used[r.Tenant()]
		if r.Kind() == abi.AdmitResume || r.Flags()&abi.AdmitFlagReady != 0 {
			p.used[r.Tenant()] += walk.Tokens(r)
		}
		return int64(tag)
	})
}

func main() {}
