// Command score-lru is a score policy in Go: least recently used. It answers as the shipped lru does, and is what another
// policy is compared with.
package main

import (
	"math"

	"sluice/abi"
	"sluice/abi/guest"
	"sluice/abi/guest/export"
	"sluice/abi/guest/export/score"
	"sluice/examples/policies/settings"
)

func init() {
	export.Configure(settings.None)
	score.Register(policy)
}

func policy(b guest.ScoreBatch) int32 {
	for i := range b.Len() {
		b.Set(i, int64(min(b.At(i).LastUse(), math.MaxInt64)))
	}
	return int32(abi.StatusOK)
}

func main() {}
