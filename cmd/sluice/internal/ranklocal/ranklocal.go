// Package ranklocal imposes, from outside, the behaviour of the original bug report on a decode group: ranks
// that act on their own restore status after the reduce. Two decorators do it; schedule and index stay as they
// are. Only the repro command may import this package, and a test holds that.
//
// What is imposed:
//   - EditReduced gives each rank its own copy of the reduced ballot: where its own restore of a request has
//     FAILED it reads RestoreFailed, whatever the group agreed, also while the request's transfer is under way;
//     where the group agreed on RestoreFailed but its own restore is ready it reads Success; and of a copy that
//     has ended on all ranks it reads its own outcome.
//   - Lost ends decode when the ranks' ballots no longer have one shape, as a gloo all-reduce over TCP was
//     measured to do.
package ranklocal

import (
	"errors"

	"sluice/abi"
	"sluice/collective"
	"sluice/runtime/rank"
	"sluice/runtime/schedule"
)

const valueShift = 28 // the lattice value's place in an entry lane

// EditReduced rewrites the rank's copy of the reduced ballot from its own facts. own is the vector as the rank
// sent it.
func EditReduced(r *rank.Rank, own, reduced *collective.Vector) {
	s := r.Schedule()
	pre, ops := s.NumHandshake(), s.NumOperations()
	for i := range s.NumTransfer() {
		lane := &reduced.U32[pre+i]
		value := schedule.Value(*lane >> valueShift)
		switch {
		case r.Restore(i) == abi.RestoreFailed:
			*lane = uint32(schedule.RestoreFailed)<<valueShift | uint32(abi.ReasonRestoreFailed)<<16
		case value == schedule.RestoreFailed:
			*lane = uint32(schedule.Success)<<valueShift | (1<<valueShift - 1)
		}
	}
	from := len(own.U32) - ops
	flags := len(own.U8) - s.NumPeers() - ops
	for i := range ops {
		// When copies count as ended was agreed there too; what became of them was not.
		if reduced.U32[from+i] != 0 {
			reduced.U32[from+i], reduced.U8[flags+i] = own.U32[from+i], own.U8[flags+i]
		}
	}
}

// Lost says whether an exchange ended decode, as unequal lengths end a gloo group.
func Lost(err error) bool {
	var shape *collective.ShapeError
	return errors.As(err, &shape)
}
