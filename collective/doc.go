// Package collective is the transport of the ballot: the one MIN all-reduce that every rank of a
// group runs once a tick.
//
// A [Vector] holds the lanes of one ballot, a [Shape] says how many there are of each width, and
// [Reduce] is what every engine computes: the smallest value of each lane over all ranks, and rank
// 0's bytes for the leader section. An [Exchange] is one rank's end of an engine. The engine that
// runs ranks as goroutines of one process is package inproc; others (shared memory, TCP, gloo) sit
// beside it and answer to the same contract.
//
// The contract is that a disagreement is never silent, never a hang and never the end of the
// process. Shapes that differ give the same [*ShapeError] on every rank and change no lane. A rank
// that does not come gives a [*TimeoutError] that names it. A vote that was skipped, an order that
// was swapped or a rank that is a tick behind are lanes that differ in value, not in shape: the
// header at the start of the ballot is what finds those, and package schedule reads it before
// anything else.
//
// The package imports only the standard library. It owns no state: a Vector belongs to the rank
// that fills it, and an engine may touch it only inside that rank's call to Min.
//
// A tick of one rank:
//
//	var v collective.Vector
//	v.Reset(shape)               // all ones: the identity of MIN
//	v.U8[3] = 0                  // this rank objects to lane 3
//	if err := ex.Min(ctx, &v); err != nil {
//		var late *collective.TimeoutError
//		if errors.As(err, &late) {
//			// late.Missing did not come; the group must re-form
//		}
//	}
//	// v.U8[3] is 0 on every rank
package collective
