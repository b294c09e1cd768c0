package server

import (
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// statusClientGone is what a client that left is answered with, for the counters
// alone. The number is nginx's.
const statusClientGone = 499

// reply is the writing side of one HTTP request. Every write has stall to be
// taken by the client's side, so that a reader that stops reading is found, and
// its handler ends, whatever it does.
type reply struct {
	w     http.ResponseWriter
	ctl   *http.ResponseController
	stall time.Duration
}

func newReply(w http.ResponseWriter, stall time.Duration) *reply {
	return &reply{w: w, ctl: http.NewResponseController(w), stall: stall}
}

// send writes p and flushes it. The error is a *writeError.
func (p *reply) send(b []byte) error {
	// This deadline is the kernel's, so it is set in the machine's time.
	if err := p.ctl.SetWriteDeadline(time.Now().Add(p.stall)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return &writeError{err}
	}
	if _, err := p.w.Write(b); err != nil {
		return &writeError{err}
	}
	if err := p.ctl.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return &writeError{err}
	}
	return nil
}

// object answers with one JSON value.
func (p *reply) object(status int, b []byte) error {
	p.w.Header().Set("Content-Type", "application/json")
	p.w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	p.w.WriteHeader(status)
	return p.send(b)
}

// fail answers with an error object. It has no Content-Length: a router in front
// may put more text into the body of a failed stream under the same headers.
func (p *reply) fail(f *failure) error {
	p.w.Header().Set("Content-Type", "application/json")
	p.w.WriteHeader(f.status)
	return p.send(appendError(nil, f.message, f.errType))
}

// sse writes the frames of one call, whose samples share it.
type sse struct {
	reply *reply
	now   func() time.Duration
	start time.Duration

	mu      sync.Mutex
	started bool
	buf     []byte // reused from frame to frame
}

// frame writes the sample's output so far. Before the first byte, an abort that
// has a status is returned as a *failure and not written.
func (e *sse) frame(out *output) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.started {
		if out.finish != nil {
			if f := failureOf(out.finish); f != nil {
				return f
			}
		}
		e.started = true
		h := e.reply.w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("Cache-Control", "no-cache")
		e.reply.w.WriteHeader(http.StatusOK)
	}
	e.buf = e.appendFrame(e.buf[:0], out)
	return e.reply.send(e.buf)
}

func (e *sse) appendFrame(dst []byte, out *output) []byte {
	dst = append(dst, "data: "...)
	dst = out.appendJSON(dst, e.now()-e.start)
	return append(dst, "\n\n"...)
}

// done writes the last frame.
func (e *sse) done() error { return e.reply.send([]byte("data: [DONE]\n\n")) }
