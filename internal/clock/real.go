package clock

import "time"

// Real is the machine's monotonic clock, counted from NewReal.
type Real struct{ start time.Time }

var _ Clock = (*Real)(nil)

// NewReal returns a clock that reads zero now.
func NewReal() *Real { return &Real{start: time.Now()} }

// Now is the time since NewReal. It does not follow changes of the wall clock.
func (r *Real) Now() time.Duration { return time.Since(r.start) }

// NewTimer returns a timer of the Go runtime, which drops stale values on Stop and Reset.
func (r *Real) NewTimer(d time.Duration) Timer { return realTimer{time.NewTimer(d)} }

type realTimer struct{ t *time.Timer }

func (t realTimer) C() <-chan time.Time        { return t.t.C }
func (t realTimer) Stop() bool                 { return t.t.Stop() }
func (t realTimer) Reset(d time.Duration) bool { return t.t.Reset(d) }
