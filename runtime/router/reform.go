package router

import (
	"context"
	"errors"
	"time"

	"sluice/abi"
	"sluice/runtime/decode"
	"sluice/runtime/server"
)

// readyPoll is the time between two looks at whether decode is ready.
const readyPoll = 20 * time.Millisecond

// errAborted ends a call whose client asked for an abort between two attempts.
var errAborted = errors.New(abi.ReasonText(abi.ReasonAborted))

// again sends a call once more, as soon as decode is ready. A group that has ended forms again within a few exchange
// deadlines, and retries that are sent before that would all be refused. The error is ErrClosed or errAborted where
// the client did not want to wait, ctx's, or what stood in the way to the last.
func (c *call) again(ctx context.Context) (server.Stream, uint64, error) {
	o := &c.router.o
	until := o.Clock.Now() + o.ReformWait
	for {
		if err := c.settle(ctx, until); err != nil {
			return nil, 0, err
		}
		inner, room, err := c.router.attempt(ctx, &c.request)
		// A group that has ended since is waited for too.
		if err == nil || ctx.Err() != nil || o.Clock.Now() >= until || o.Decode.Ready() == nil {
			return inner, room, err
		}
	}
}

// settle waits until decode is ready, at most until the clock reads until.
func (c *call) settle(ctx context.Context, until time.Duration) error {
	o := &c.router.o
	why := o.Decode.Ready()
	if why == nil {
		return nil
	}
	timer := o.Clock.NewTimer(readyPoll)
	defer timer.Stop()
	for {
		closed, aborted := c.state()
		rest := until - o.Clock.Now()
		switch {
		case closed:
			return server.ErrClosed
		case aborted:
			return errAborted
		case rest <= 0 || stays(why):
			return why
		}
		timer.Reset(min(rest, readyPoll))
		select {
		case <-timer.C():
		case <-c.stirred:
		case <-ctx.Done():
			return ctx.Err()
		}
		if why = o.Decode.Ready(); why == nil {
			return nil
		}
	}
}

// stays says whether decode will not be ready again.
func stays(why error) bool {
	var down *decode.DownError
	return errors.Is(why, server.ErrStopping) || errors.As(why, &down) && down.Final
}
