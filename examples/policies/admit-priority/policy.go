// Command admit-priority is an admit policy in Go: strict priority. A request never goes before one with a higher priority;
// equal ones go in the order in which they came.
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

type policy struct{ walker walk.Walker }

func (p *policy) configure(info abi.HostInfo, config []byte) int32 {
	p.walker.Prepare(info)
	return settings.None(info, config)
}

func (p *policy) admit(b guest.AdmitBatch) int32 {
	return p.walker.Admit(b, func(_ int, r guest.AdmitRecord) int64 { return -int64(r.Priority()) })
}

func main() {}
