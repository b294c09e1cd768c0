package clock

import (
	"context"
	"time"
)

// Clock tells monotonic time and makes timers. Its implementations are Real and Virtual.
type Clock interface {
	// Now is the time since the clock was made. It never goes back.
	Now() time.Duration
	// NewTimer returns a timer that fires once, d from now. A d of zero or less fires at once.
	NewTimer(d time.Duration) Timer
}

// Timer is one pending wait. Its methods may be called from any goroutine.
type Timer interface {
	// C delivers one value when the timer fires. The value itself carries nothing: read Clock.Now.
	C() <-chan time.Time
	// Stop ends the wait and reports whether the timer was still pending. After Stop, C delivers nothing.
	Stop() bool
	// Reset arms the timer again, d from now, dropping a value not yet received, and reports whether it was pending.
	Reset(d time.Duration) bool
}

// Sleep waits for d on c, or until ctx ends, and then returns ctx's error.
func Sleep(ctx context.Context, c Clock, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t := c.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
