package plugins

import (
	"sluice/abi"
	"sluice/abi/guest"
)

// OnFault says who answers a hook while its policy has failed and has no successor in use. A policy that declines, or
// that the ranks have quarantined, is always answered for by the native one.
type OnFault uint8

const (
	// OnFaultNative has the native policy answer.
	OnFaultNative OnFault = iota
	// OnFaultHold has nobody answer, so that nothing is decided in the policy's place: gate lets no request become ready,
	// reserve holds the whole device back, admit defers every candidate, score keeps the keys as they are. The host's
	// rails end it where it lasts.
	OnFaultHold
)

// String is the name in the configuration.
func (o OnFault) String() string {
	if o == OnFaultHold {
		return "hold"
	}
	return "native"
}

// holdPolicy is the answers of OnFaultHold. They are legal, so that none of them trips a rail.
func holdPolicy() NativePolicy {
	return NativePolicy{
		Gate: func(b guest.GateBatch) int32 {
			for i := range b.Len() {
				in := b.At(i)
				b.SetVote(i, min(in.RawPoll(), abi.PollTransferring))
			}
			return int32(abi.StatusOK)
		},
		Reserve: func(b guest.ReserveBatch) int32 {
			pools := b.Globals()
			b.Hold(pools.TotalTokens())
			return int32(abi.StatusOK)
		},
		Admit: func(b guest.AdmitBatch) int32 {
			for i := range b.Candidates() {
				b.Set(i, abi.VerdictDefer, i)
			}
			return int32(abi.StatusOK)
		},
	}
}
