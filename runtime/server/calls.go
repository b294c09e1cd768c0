package server

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// call is one live POST /generate: 1 or more samples of one prompt.
type call struct {
	rid     string
	ids     []string // one a sample; a single sample's id is rid itself
	samples []*sample
	start   time.Duration
	running atomic.Int32 // samples without a finish
	aborted bool         // an abort came; guarded by calls.mu
}

// sample is one request of a call.
type sample struct {
	stream Stream
	out    output
}

// newCall names the samples of a call. Parallel samples have ids of their own,
// "rid#0" and so on, so that none can take another's events.
func newCall(rid string, samples int, start time.Duration) *call {
	c := &call{rid: rid, ids: []string{rid}, start: start}
	if samples > 1 {
		c.ids = make([]string, samples)
		for i := range c.ids {
			c.ids[i] = rid + "#" + strconv.Itoa(i)
		}
	}
	return c
}

// calls is the table of live calls by the id their client knows.
type calls struct {
	mu       sync.Mutex
	byRID    map[string]*call
	inside   int // handlers of /generate
	stopping bool
	idle     chan struct{} // closed once stopping with no handler inside
}

func newCalls() *calls {
	return &calls{byRID: make(map[string]*call), idle: make(chan struct{})}
}

// enter counts a handler in, unless the server is stopping.
func (t *calls) enter() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopping {
		return false
	}
	t.inside++
	return true
}

func (t *calls) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.inside--
	if t.stopping && t.inside == 0 {
		close(t.idle)
	}
}

// stop refuses every later enter. It is idempotent.
func (t *calls) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopping {
		return
	}
	t.stopping = true
	if t.inside == 0 {
		close(t.idle)
	}
}

func (t *calls) isStopping() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stopping
}

// add makes c the holder of its id, and reports false if a live call holds it.
func (t *calls) add(c *call) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byRID[c.rid] != nil {
		return false
	}
	t.byRID[c.rid] = c
	return true
}

// remove frees c's id. It is idempotent, and leaves a later holder alone.
func (t *calls) remove(c *call) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byRID[c.rid] == c {
		delete(t.byRID, c.rid)
	}
}

// abort marks the call that rid stands for, and returns the ids of its requests.
// An id of no live call stands for itself: a sample's own id, say.
func (t *calls) abort(rid string) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.byRID[rid]
	if c == nil {
		return []string{rid}
	}
	c.aborted = true
	return c.ids
}

// abortAll marks every live call.
func (t *calls) abortAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.byRID {
		c.aborted = true
	}
}

func (t *calls) wasAborted(c *call) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return c.aborted
}
