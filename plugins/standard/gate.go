package standard

import (
	"sluice/abi"
	"sluice/abi/guest"
)

const ok = int32(abi.StatusOK)

// restoreGated lets a request count as ready only once this rank's restore is: a pending restore holds a finished
// transfer back, a failed one fails it.
func restoreGated(b guest.GateBatch) int32 {
	for i := range b.Len() {
		r := b.At(i)
		vote := r.RawPoll()
		if vote == abi.PollSuccess {
			switch r.Restore() {
			case abi.RestorePending:
				vote = abi.PollTransferring
			case abi.RestoreFailed:
				b.Fail(i, abi.ReasonRestoreFailed)
				continue
			}
		}
		b.SetVote(i, vote)
	}
	return ok
}

// pendingOnlyGate holds a finished transfer back while the restore is pending, and takes a failed restore for a done one.
func pendingOnlyGate(b guest.GateBatch) int32 {
	for i := range b.Len() {
		r := b.At(i)
		vote := r.RawPoll()
		if vote == abi.PollSuccess && r.Restore() == abi.RestorePending {
			vote = abi.PollTransferring
		}
		b.SetVote(i, vote)
	}
	return ok
}

// ungated votes the raw poll, whatever the restore does.
func ungated(b guest.GateBatch) int32 {
	for i := range b.Len() {
		b.SetVote(i, b.At(i).RawPoll())
	}
	return ok
}
