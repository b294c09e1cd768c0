package gpu

import "sync/atomic"

// Outcome is how a queued operation ended.
type Outcome struct {
	Good     int   // leading pages that are good
	BadBytes bool  // the first page that is not good was copied, but its checksum differs
	Err      error // why not all pages are good; nil if they are
}

const (
	idle uint32 = iota
	inFlight
	done
)

// Completion is where a device reports the end of one operation. The zero value is ready; the same
// one may serve the next operation once it is done. The caller polls it and a backend drives it.
type Completion struct {
	state   atomic.Uint32
	outcome Outcome // written by the backend while in flight, read by the caller once done
}

// Done reports whether the operation has ended.
func (c *Completion) Done() bool { return c.state.Load() == done }

// Outcome is how the operation ended, and the zero Outcome before it has.
func (c *Completion) Outcome() Outcome {
	if !c.Done() {
		return Outcome{}
	}
	return c.outcome
}

// Begin is called by a backend that takes an operation in. It reports false where the completion
// still serves another one.
func (c *Completion) Begin() bool {
	return c.state.CompareAndSwap(idle, inFlight) || c.state.CompareAndSwap(done, inFlight)
}

// Finish is called by a backend, once for each Begin, when no copy of the operation is queued or
// running.
func (c *Completion) Finish(o Outcome) {
	c.outcome = o
	c.state.Store(done)
}

// Cancel is called by a backend that, after Begin, could not queue the operation.
func (c *Completion) Cancel() { c.state.Store(idle) }
