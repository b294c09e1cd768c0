package collective

import "context"

// Exchange is one rank's end of a group. All ranks call Min once a tick.
//
// Min brings v to the group's next exchange and returns when every rank has come; v then holds the
// reduced ballot. One goroutine at a time may call it for a rank. On an error v's lanes are as the
// caller left them. Errors: *ShapeError (this exchange only; the next one may go on),
// *TimeoutError and *LeaveError (the group is broken until it re-forms), ErrReformed, ErrClosed.
// A context that ends makes the caller leave, and the other ranks get a *LeaveError at once.
type Exchange interface {
	Min(ctx context.Context, v *Vector) error
}

// Counters is what an exchange has done since it was made. A tick is one exchange: tests assert
// that Exchanges rises by exactly one a tick.
type Counters struct {
	Exchanges uint64 // calls of Min that took part in an exchange, failed ones included
	Bytes     uint64 // bytes of the vectors brought to them
}
