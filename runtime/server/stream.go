package server

import (
	"context"
	"errors"
	"io"
	"sync"
)

// Errors of [Queue.Next].
var (
	// ErrClosed means that the stream was closed before its request finished.
	ErrClosed = errors.New("the stream is closed")
	// ErrSlowReader means that more tokens waited for the reader than the queue
	// holds, and that the request was cut for it.
	ErrSlowReader = errors.New("the reader fell too far behind; read faster, or ask for fewer tokens")
)

// Queue is a ready-made [Stream]. Its producer, the engine's tick, never waits:
// events merge into one pending event while the reader is busy, so the memory a
// slow reader costs is the tokens it has not read, up to a limit.
//
// Two token buffers take turns: one collects, the other is with the reader. Once
// both have grown, neither Push nor Next allocates.
type Queue struct {
	limit int
	abort func()
	wake  chan struct{} // holds one signal: something changed for the reader

	mu       sync.Mutex
	pending  Event
	dirty    bool // pending holds something unread
	spare    []uint32
	finished bool // Finish was pushed
	eof      bool // Finish was read
	closed   bool
	cut      bool // more than limit tokens waited
}

// NewStream returns a queue that holds at most limit unread tokens (limit < 1
// means 1). abort, which may be nil, is called at most once: from Close, when
// the request is neither finished nor cut. It runs on the closer's goroutine, so
// it only posts the wish to the engine's own loop. It stands for this one
// request and not for its id, which another request may hold by then.
func NewStream(limit int, abort func()) *Queue {
	return &Queue{limit: max(limit, 1), abort: abort, wake: make(chan struct{}, 1)}
}

// Push merges ev into what the reader gets next; it copies ev.Tokens and never
// waits. It returns false when nobody reads any more: the stream is closed, the
// request was finished before, or more than the limit of tokens wait, in which
// case the queue is cut and the producer ends the request itself.
func (q *Queue) Push(ev Event) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.finished || q.cut {
		return false
	}
	if len(q.pending.Tokens)+len(ev.Tokens) > q.limit {
		q.cut = true
		q.signal()
		return false
	}
	tokens := append(q.pending.Tokens, ev.Tokens...)
	q.pending = ev
	q.pending.Tokens = tokens
	q.finished = ev.Finish != nil
	q.dirty = true
	q.signal()
	return true
}

// Next implements [Stream]. The tokens of the returned event are valid until the
// next call.
func (q *Queue) Next(ctx context.Context) (Event, error) {
	for {
		if err := ctx.Err(); err != nil {
			return Event{}, err
		}
		if ev, done, err := q.take(); done {
			return ev, err
		}
		select {
		case <-q.wake:
		case <-ctx.Done():
			return Event{}, ctx.Err()
		}
	}
}

func (q *Queue) take() (ev Event, done bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.eof:
		return Event{}, true, io.EOF
	case q.closed:
		return Event{}, true, ErrClosed
	case q.cut:
		return Event{}, true, ErrSlowReader
	case !q.dirty:
		return Event{}, false, nil
	}
	ev = q.pending
	q.pending.Tokens = q.spare[:0]
	q.spare = ev.Tokens
	q.dirty = false
	q.eof = q.finished
	return ev, true, nil
}

// Close implements [Stream].
func (q *Queue) Close() {
	q.mu.Lock()
	abort := q.abort
	if q.closed || q.finished || q.cut {
		abort = nil
	}
	q.closed = true
	q.signal()
	q.mu.Unlock()
	if abort != nil {
		abort()
	}
}

// signal leaves one wake-up for the reader. The caller holds mu.
func (q *Queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}
