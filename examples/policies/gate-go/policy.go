// Command gate-go is the gate restore-gated as a Go policy: a finished transfer counts as ready only once this rank's
// restore is. A pending restore holds it back, a failed one fails it.
package main

import (
	"sluice/abi"
	"sluice/abi/guest"
	"sluice/abi/guest/export"
	"sluice/abi/guest/export/gate"
	"sluice/examples/policies/settings"
)

func init() {
	export.Configure(settings.None)
	gate.Register(restoreGated)
}

func restoreGated(b guest.GateBatch) int32 {
	for i := range b.Len() {
		r := b.At(i)
		switch vote := r.RawPoll(); {
		case vote == abi.PollSuccess && r.Restore() == abi.RestorePending:
			b.SetVote(i, abi.PollTransferring)
		case vote == abi.PollSuccess && r.Restore() == abi.RestoreFailed:
			b.Fail(i, abi.ReasonRestoreFailed)
		default:
			b.SetVote(i, vote)
		}
	}
	return int32(abi.StatusOK)
}

func main() {}
