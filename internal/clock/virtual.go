package clock

import (
	"container/heap"
	"math"
	"sync"
	"time"
)

// Virtual is a clock that moves only when it is told to. Waits end in the order (deadline, order of arming), and while
// one ends the clock reads exactly its deadline, so that one goroutine driving it sees the same run every time.
//
// Advance and AdvanceToNext belong to one goroutine at a time; a call made from inside a callback of Schedule is a
// programming error and returns without moving the clock. All other methods are safe from any goroutine.
type Virtual struct {
	mu       sync.Mutex
	armed    *sync.Cond // signalled whenever the number of pending waits grows
	now      time.Duration
	seq      uint64
	waits    waitHeap
	advances bool
}

var _ Clock = (*Virtual)(nil)

// NewVirtual returns a clock that stands at zero.
func NewVirtual() *Virtual {
	v := &Virtual{}
	v.armed = sync.NewCond(&v.mu)
	return v
}

// Now is the sum of all advances, or the deadline of the wait that is ending.
func (v *Virtual) Now() time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.now
}

// NewTimer returns a timer that fires when the clock is advanced to d from now, or at once when d is zero or less.
func (v *Virtual) NewTimer(d time.Duration) Timer {
	t := &virtualTimer{clock: v, ch: make(chan time.Time, 1)}
	t.wait.fire = t.deliver
	t.wait.at = -1
	v.mu.Lock()
	defer v.mu.Unlock()
	t.arm(d)
	return t
}

// Schedule calls f from inside the Advance that reaches d from now, on the goroutine that advances, with no lock held:
// f may arm timers and schedule further calls, and those that fall inside the same advance run in it. A d of zero or
// less runs f in the next advance, even one of zero length.
func (v *Virtual) Schedule(d time.Duration, f func()) Timer {
	t := &virtualTimer{clock: v, ch: make(chan time.Time, 1), call: f}
	t.wait.fire = t.deliver
	t.wait.at = -1
	v.mu.Lock()
	defer v.mu.Unlock()
	t.arm(d)
	return t
}

// Advance moves the clock by d (a negative d counts as zero) and ends every wait whose deadline it reaches.
func (v *Virtual) Advance(d time.Duration) {
	v.mu.Lock()
	if v.advances {
		v.mu.Unlock()
		return
	}
	v.runTo(add(v.now, d))
	v.mu.Unlock()
}

// AdvanceToNext moves the clock to the earliest deadline, ends every wait due then, and reports whether there was one.
func (v *Virtual) AdvanceToNext() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.advances || len(v.waits) == 0 {
		return false
	}
	v.runTo(v.waits[0].at)
	return true
}

// Next is the earliest deadline of a pending wait; ok is false when none is pending.
func (v *Virtual) Next() (at time.Duration, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.waits) == 0 {
		return 0, false
	}
	return v.waits[0].at, true
}

// Pending is the number of waits that have not ended.
func (v *Virtual) Pending() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.waits)
}

// AwaitPending blocks until at least n waits are pending. A test calls it before it advances, in place of a sleep.
func (v *Virtual) AwaitPending(n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for len(v.waits) < n {
		v.armed.Wait()
	}
}

// runTo ends waits up to and including end, then leaves the clock there. The caller holds mu, which is released around
// callbacks.
func (v *Virtual) runTo(end time.Duration) {
	v.advances = true
	defer func() { v.advances = false }()
	for len(v.waits) > 0 && v.waits[0].at <= end {
		v.now = max(v.now, v.waits[0].at)
		heap.Pop(&v.waits).(*wait).fire()
	}
	v.now = max(v.now, end)
}

// add is now+d, limited to the range of a Duration.
func add(now, d time.Duration) time.Duration {
	if d <= 0 {
		return now
	}
	if now > math.MaxInt64-d {
		return math.MaxInt64
	}
	return now + d
}

// virtualTimer serves NewTimer and, with call set, Schedule. Its fields are guarded by the clock's mutex.
type virtualTimer struct {
	clock *Virtual
	wait  wait
	ch    chan time.Time
	call  func()
}

func (t *virtualTimer) C() <-chan time.Time { return t.ch }

func (t *virtualTimer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	return t.disarm()
}

func (t *virtualTimer) Reset(d time.Duration) bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	was := t.disarm()
	t.arm(d)
	return was
}

func (t *virtualTimer) arm(d time.Duration) {
	v := t.clock
	if d <= 0 && t.call == nil {
		t.ch <- time.Time{}
		return
	}
	t.wait.at, t.wait.seq = add(v.now, d), v.seq
	v.seq++
	heap.Push(&v.waits, &t.wait)
	v.armed.Broadcast()
}

func (t *virtualTimer) disarm() bool {
	select {
	case <-t.ch:
	default:
	}
	if t.wait.at < 0 {
		return false
	}
	heap.Remove(&t.clock.waits, t.wait.index)
	return true
}

// deliver runs inside runTo, with the clock's mutex held.
func (t *virtualTimer) deliver() {
	if t.call == nil {
		t.ch <- time.Time{}
		return
	}
	t.clock.mu.Unlock()
	defer t.clock.mu.Lock()
	t.call()
}

// wait is one entry of the queue. at is negative while the wait is not queued.
type wait struct {
	at    time.Duration
	seq   uint64
	index int
	fire  func()
}

// waitHeap orders waits by (at, seq).
type waitHeap []*wait

func (h waitHeap) Len() int { return len(h) }

func (h waitHeap) Less(i, j int) bool {
	if h[i].at != h[j].at {
		return h[i].at < h[j].at
	}
	return h[i].seq < h[j].seq
}

func (h waitHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *waitHeap) Push(x any) {
	w := x.(*wait)
	w.index = len(*h)
	*h = append(*h, w)
}

func (h *waitHeap) Pop() any {
	old := *h
	w := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	w.at = -1
	return w
}
