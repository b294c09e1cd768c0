package standard

import (
	"sluice/abi"
	"sluice/abi/guest"
)

// untilRetired holds back the tokens of every promised restore that is not set aside, until the request leaves the
// queue: a restore that failed on this rank may be set aside on another, whose budget must not differ.
func untilRetired(b guest.ReserveBatch) int32 {
	var held uint64
	for i := range b.Len() {
		if r := b.At(i); r.SetAside() == 0 {
			held += uint64(r.RestoreTokens())
		}
	}
	b.Hold(held)
	return ok
}

// pendingOnlyReserve forgets a restore as soon as it failed on this rank.
func pendingOnlyReserve(b guest.ReserveBatch) int32 {
	var held uint64
	for i := range b.Len() {
		if r := b.At(i); r.SetAside() == 0 && r.Restore() != abi.RestoreFailed {
			held += uint64(r.RestoreTokens())
		}
	}
	b.Hold(held)
	return ok
}

// holdNone holds nothing back; the host still keeps its floor.
func holdNone(b guest.ReserveBatch) int32 {
	b.Hold(0)
	return ok
}
