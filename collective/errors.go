package collective

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrClosed is returned by an exchange of a group that has been closed.
var ErrClosed = errors.New("collective: group is closed")

// ErrReformed is returned by an exchange that belongs to an earlier epoch of its group: the group
// has re-formed since, and the caller must take its rank's exchange again.
var ErrReformed = errors.New("collective: group has re-formed under a newer epoch; take the rank's exchange again")

// ShapeError says that ranks brought vectors of different shapes to one exchange. Nothing was
// reduced. Every rank of the exchange gets the same value.
type ShapeError struct {
	Shapes []Shape // by rank
}

func newShapeError(vs []*Vector) *ShapeError {
	e := &ShapeError{Shapes: make([]Shape, len(vs))}
	for r, v := range vs {
		e.Shapes[r] = v.Shape()
	}
	return e
}

// Error names each rank's shape.
func (e *ShapeError) Error() string {
	var b strings.Builder
	b.WriteString("collective: ranks brought different shapes, nothing was reduced:")
	for r, s := range e.Shapes {
		fmt.Fprintf(&b, " rank %d has %s;", r, s)
	}
	b.WriteString(" the ranks' replicated states differ, the group must resync")
	return b.String()
}

// TimeoutError says that ranks did not come to an exchange within the group's deadline. The group
// is broken from then on: every rank, the missing ones too, gets this value until it re-forms.
type TimeoutError struct {
	Epoch    uint64        // the group's epoch
	Exchange uint64        // number of the exchange within the epoch, from 0
	Missing  []int         // ranks that had not come, ascending
	Deadline time.Duration // how long the others waited
}

// Error names the missing ranks.
func (e *TimeoutError) Error() string {
	return fmt.Sprintf("collective: exchange %d of epoch %d: ranks %v did not come within %v; the group must re-form",
		e.Exchange, e.Epoch, e.Missing, e.Deadline)
}

// Timeout reports true, so that the error reads as a timeout to code that asks by this method.
func (e *TimeoutError) Timeout() bool { return true }

// LeaveError says that a rank left an exchange before it was complete because its context ended.
// The group is broken from then on, as after a TimeoutError.
type LeaveError struct {
	Epoch    uint64 // the group's epoch
	Exchange uint64 // number of the exchange within the epoch, from 0
	Rank     int    // the rank that left
	Err      error  // why: the context's error
}

// Error names the rank and its reason.
func (e *LeaveError) Error() string {
	return fmt.Sprintf("collective: exchange %d of epoch %d: rank %d left: %v; the group must re-form",
		e.Exchange, e.Epoch, e.Rank, e.Err)
}

// Unwrap gives the context's error.
func (e *LeaveError) Unwrap() error { return e.Err }

// RankError says that a rank number, or the way a rank used its exchange, is wrong.
type RankError struct {
	Rank  int
	Ranks int    // ranks in the group
	What  string // what is wrong
}

// Error names the rank and the group's size.
func (e *RankError) Error() string {
	return fmt.Sprintf("collective: rank %d of a group of %d: %s", e.Rank, e.Ranks, e.What)
}
