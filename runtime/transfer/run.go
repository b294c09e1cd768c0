package transfer

import (
	"context"
	"time"

	"sluice/internal/clock"
)

// Run pumps the peer, on messages and timers, until ctx ends. It returns ctx's error.
func (p *Prefill) Run(ctx context.Context, c clock.Clock) error {
	return loop(ctx, c, p.kick, p.Pump, p.Next)
}

// Run pumps the receiver, on messages and timers, until ctx ends. It returns ctx's error.
func (r *Receiver) Run(ctx context.Context, c clock.Clock) error {
	return loop(ctx, c, r.kick, r.Pump, r.next)
}

func loop(ctx context.Context, c clock.Clock, kick <-chan struct{}, pump func(time.Duration), next func() (time.Duration, bool)) error {
	t := c.NewTimer(time.Hour)
	defer t.Stop()
	for {
		pump(c.Now())
		t.Stop()
		var due <-chan time.Time
		if at, ok := next(); ok {
			t.Reset(at - c.Now())
			due = t.C()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-kick:
		case <-due:
		}
	}
}
