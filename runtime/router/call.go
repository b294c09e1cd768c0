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
	stirred chan struct{}

	mu      sync.Mutex
	inner   server.Stream
	sent    uint64 // the room of inner
	closed  bool
	aborted bool
	over    bool // the reader has its finish
}

var _ server.Stream = (*call)(nil)

// enter makes inner the present attempt, under its room. What came while there was none is made up for. It reports
// whether the stream is still open.
func (c *call) enter(inner server.Stream, room uint64) bool {
	c.mu.Lock()
	c.inner, c.sent = inner, room
	closed, aborted := c.closed, c.aborted
	c.mu.Unlock()
	switch {
	case closed:
		inner.Close()
		c.router.o.Prefill.Abort(room)
	case aborted:
		c.router.o.Decode.Abort(c.request.RID)
	}
	return !closed
}

func (c *call) attempt() (server.Stream, uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.inner, c.sent
}

func (c *call) state() (closed, aborted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed, c.aborted
}

// abort ends the call for its client, as the client wishes.
func (c *call) abort() {
	c.mu.Lock()
	c.aborted = true
	c.mu.Unlock()
	c.stir()
	c.router.o.Decode.Abort(c.request.RID)
}

// stir wakes a reader that waits between two attempts.
func (c *call) stir() {
	select {
	case c.stirred <- struct{}{}:
	default:
	}
}

// end frees the call's id and room before its reader sees the finish.
func (c *call) end() {
	c.mu.Lock()
	c.over = true
	c.mu.Unlock()
	c.router.forget(c)
}

// Next implements server.Stream. An attempt that failed is repeated inside it.
func (c *call) Next(ctx context.Context) (server.Event, error) {
	for {
		inner, room := c.attempt()
		ev, err := inner.Next(ctx)
		if err != nil {
			return ev, err
		}
		c.began = c.began || len(ev.Tokens) > 0
		if ev.Finish == nil {
			return ev, nil
		}
		if ev.Finish.Type == server.FinishAbort {
			c.router.o.Prefill.Abort(room)
		}
		_, aborted := c.state()
		if c.began || c.left == 0 || aborted || !decode.Retryable(ev.Finish) {
			c.end()
			return ev, nil
		}
		c.left--
		c.router.retries.Inc()
		c.router.o.Logger.Info("sending a request again", "rid", c.request.RID, "reason", ev.Finish.Message, "retries_left", c.left)
		next, room, err := c.again(ctx)
		switch {
		case err != nil && ctx.Err() != nil:
			return server.Event{}, ctx.Err()
		case errors.Is(err, server.ErrClosed):
			return server.Event{}, err
		case err != nil:
			c.end()
			ev.Finish = refused(err)
			return ev, nil
		case !c.enter(next, room):
			return server.Event{}, server.ErrClosed
		}
	}
}

// refused is the end of a call whose next attempt was not taken.
func refused(err error) *server.Finish {
	if errors.Is(err, errAborted) {
		return &server.Finish{Type: server.FinishAbort, Message: errAborted.Error(), ErrType: "aborted"}
	}
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
	inner, room, over := c.inner, c.sent, c.over
	c.mu.Unlock()
	c.stir()
	inner.Close()
	if !over {
		c.router.o.Prefill.Abort(room)
	}
	c.router.forget(c)
}
