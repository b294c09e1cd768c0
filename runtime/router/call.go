package router

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"sluice/runtime/decode"
	"sluice/runtime/server"
)

// call is one live request over all its attempts, and the Stream its reader has.
type call struct {
	router  *Router
	request server.Request
	room    uint64 // the client's; 0: none given
	left    int    // attempts that may follow; the reader's alone
	began   bool   // the client has a token; the reader's alone

	mu      sync.Mutex
	inner   server.Stream
	closed  bool
	aborted bool
}

var _ server.Stream = (*call)(nil)

// enter makes inner the present attempt. What came while there was none is made up for. It reports whether the
// stream is still open.
func (c *call) enter(inner server.Stream) bool {
	c.mu.Lock()
	c.inner = inner
	closed, aborted := c.closed, c.aborted
	c.mu.Unlock()
	switch {
	case closed:
		inner.Close()
	case aborted:
		c.router.o.Decode.Abort(c.request.RID)
	}
	return !closed
}

func (c *call) attempt() server.Stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.inner
}

func (c *call) isAborted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.aborted
}

// abort ends the call for its client, as the client wishes.
func (c *call) abort() {
	c.mu.Lock()
	c.aborted = true
	c.mu.Unlock()
	c.router.o.Decode.Abort(c.request.RID)
}

// Next implements server.Stream. An attempt that failed is repeated inside it.
func (c *call) Next(ctx context.Context) (server.Event, error) {
	for {
		ev, err := c.attempt().Next(ctx)
		if err != nil {
			return ev, err
		}
		c.began = c.began || len(ev.Tokens) > 0
		if ev.Finish == nil {
			return ev, nil
		}
		if c.began || c.left == 0 || c.isAborted() || !decode.Retryable(ev.Finish) {
			c.router.forget(c)
			return ev, nil
		}
		c.left--
		c.router.retries.Inc()
		c.router.o.Logger.Info("sending a request again", "rid", c.request.RID, "reason", ev.Finish.Message, "retries_left", c.left)
		inner, err := c.router.attempt(ctx, &c.request)
		switch {
		case err != nil && ctx.Err() != nil:
			return server.Event{}, ctx.Err()
		case err != nil:
			c.router.forget(c)
			ev.Finish = refused(err)
			return ev, nil
		case !c.enter(inner):
			return server.Event{}, server.ErrClosed
		}
	}
}

// refused is the end of a call whose next attempt was not taken.
func refused(err error) *server.Finish {
	f := &server.Finish{Type: server.FinishAbort, Status: http.StatusServiceUnavailable, ErrType: "retry_refused",
		Message: "the request failed and could not be sent again: " + err.Error()}
	var e *server.RequestError
	if errors.As(err, &e) {
		f.Status = e.Status
	}
	return f
}

// Close implements server.Stream.
func (c *call) Close() {
	c.mu.Lock()
	c.closed = true
	inner := c.inner
	c.mu.Unlock()
	inner.Close()
	c.router.forget(c)
}
