package router

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/clock"
	"sluice/internal/metrics"
	"sluice/runtime/server"
	"sluice/runtime/transfer"
)

// Prefill is the prefill side of the present epoch.
type Prefill interface {
	Submit(transfer.Request) error
	// Abort says that a room which was submitted has ended for its client, by leaving or by a failure: where no rank has
	// asked about it, the prompt is forgotten. It does nothing for a room that is over.
	Abort(room uint64)
}

// Decode is the decode side: *decode.Instance.
type Decode interface {
	server.Engine
	// Key is the canonical key space of a namespace.
	Key(namespace string) []byte
}

// Options make a Router.
type Options struct {
	Decode     Decode
	Prefill    Prefill
	Retries    int           // times that a failed request is sent again
	ReformWait time.Duration // longest wait for a decode group to form again before a retry
	Clock      clock.Clock
	Logger     *slog.Logger
	Registry   *metrics.Registry
}

// Router is the server.Engine of one prefill and one decode instance.
type Router struct {
	o       Options
	retries prometheus.Counter

	mu       sync.Mutex
	live     map[string]*call
	rooms    map[uint64]*call // rooms that clients gave
	lastRoom uint64
}

var _ server.Engine = (*Router)(nil)

// New makes a router.
func New(o Options) (*Router, error) {
	if o.Decode == nil || o.Prefill == nil || o.Clock == nil || o.Logger == nil || o.Registry == nil {
		return nil, errors.New("router: decode, prefill, clock, logger and registry are all needed")
	}
	if o.Retries < 0 || o.ReformWait < 0 {
		return nil, fmt.Errorf("router: %d retries and a wait of %v; they must be 0 or more", o.Retries, o.ReformWait)
	}
	r := &Router{o: o, live: make(map[string]*call), rooms: make(map[uint64]*call)}
	r.retries = o.Registry.NewCounter("router_retries_total", "Requests sent again after an attempt that failed before its first token.")
	if err := o.Registry.Err(); err != nil {
		return nil, err
	}
	return r, nil
}

// Submit implements server.Engine. A bootstrap host and port say nothing here: the one prefill instance is this
// process's own.
func (r *Router) Submit(ctx context.Context, q server.Request) (server.Stream, error) {
	c := &call{router: r, request: q, left: r.o.Retries, room: q.Room, stirred: make(chan struct{}, 1)}
	r.mu.Lock()
	switch {
	case r.live[q.RID] != nil:
		r.mu.Unlock()
		return nil, fmt.Errorf("rid %q: %w", q.RID, server.ErrDuplicate)
	case q.Room != 0 && r.rooms[q.Room] != nil:
		r.mu.Unlock()
		return nil, fmt.Errorf("room %d: %w", q.Room, server.ErrDuplicate)
	}
	r.live[q.RID] = c
	if q.Room != 0 {
		r.rooms[q.Room] = c
	}
	r.mu.Unlock()
	inner, room, err := r.attempt(ctx, &c.request)
	if err != nil {
		r.forget(c)
		return nil, err
	}
	c.enter(inner, room)
	return c, nil
}

// attempt hands a request to decode and to prefill under a room of its own.
func (r *Router) attempt(ctx context.Context, q *server.Request) (server.Stream, uint64, error) {
	r.mu.Lock()
	r.lastRoom++
	room := r.lastRoom
	r.mu.Unlock()
	sent := *q
	sent.Room = room
	inner, err := r.o.Decode.Submit(ctx, sent)
	if err != nil {
		return nil, 0, err
	}
	// Decode asks the peer about the room until the peer knows it, so it may come second, and what decode
	// refuses never reaches the peer.
	err = r.o.Prefill.Submit(transfer.Request{Room: room, Namespace: string(r.o.Decode.Key(q.Namespace)), Tokens: q.Tokens})
	if err == nil {
		return inner, room, nil
	}
	inner.Close()
	r.o.Prefill.Abort(room)
	status := http.StatusServiceUnavailable
	if errors.Is(err, transfer.ErrRefused) {
		status = http.StatusBadRequest
	}
	return nil, 0, &server.RequestError{Status: status, Message: "prefill: " + err.Error()}
}

// forget frees a call's id and room. It is idempotent, and leaves a later holder alone.
func (r *Router) forget(c *call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.live[c.request.RID] == c {
		delete(r.live, c.request.RID)
	}
	if c.room != 0 && r.rooms[c.room] == c {
		delete(r.rooms, c.room)
	}
}

// Abort implements server.Engine.
func (r *Router) Abort(rid string) bool {
	r.mu.Lock()
	c := r.live[rid]
	r.mu.Unlock()
	if c == nil {
		return false
	}
	c.abort()
	return true
}

// AbortAll implements server.Engine.
func (r *Router) AbortAll() int {
	r.mu.Lock()
	calls := make([]*call, 0, len(r.live))
	for _, c := range r.live {
		calls = append(calls, c)
	}
	r.mu.Unlock()
	for _, c := range calls {
		c.abort()
	}
	return len(calls)
}

// Flush implements server.Engine.
func (r *Router) Flush(ctx context.Context) error { return r.o.Decode.Flush(ctx) }

// Info implements server.Engine: one process holds both sides.
func (r *Router) Info() server.ServerInfo {
	info := r.o.Decode.Info()
	info.DisaggregationMode = "null"
	return info
}

// Ready implements server.Engine.
func (r *Router) Ready() error { return r.o.Decode.Ready() }
