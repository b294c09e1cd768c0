package decode

import (
	"log/slog"
	"sync/atomic"

	"sluice/abi"
	"sluice/plugins"
	"sluice/runtime/rank"
)

// Bounds of what may wait for one shadow on one rank.
const (
	laneBatches = 64
	laneBytes   = 16 << 20
)

// copied is one batch that was answered: what the policy was shown, and the answer that stood.
type copied struct {
	tick, epoch uint64
	hook        abi.Hook
	n, nOut     int
	native      bool   // the native policy gave the answer in the policy's place
	fuel        uint64 // of the policy's own call
	buf         []byte // globals, input records and answer, one after the other
	in, out     int    // where the latter two begin
	end         int
}

func (c *copied) globals() []byte { return c.buf[:c.in] }
func (c *copied) records() []byte { return c.buf[c.in:c.out] }
func (c *copied) answer() []byte  { return c.buf[c.out:c.end] }

// lane is a queue from one rank to one shadow. The rank's goroutine puts batches in and waits for nothing: one that finds
// no room is skipped and counted. The shadow's goroutine takes them out. The buffers stay, and grow to the largest batch.
type lane struct {
	watch [abi.Score + 1]bool // by hook
	last  abi.Hook            // of those, the last one that a tick asks
	wake  chan struct{}

	slots    [laneBatches]copied
	put, got atomic.Uint64 // batches ever
	full     atomic.Bool   // the shadow has seen as many ticks as it is to see
	skipped  [abi.Score + 1]atomic.Uint64
	bytes    int // of all buffers; the rank's

	// The shadow's goroutine alone uses these.
	tick         uint64 // of the batch taken last
	open         bool   // that tick may have more
	begun, ticks int    // ticks of which a batch was taken, and those that are over
}

func newLane(hooks []abi.Hook, wake chan struct{}) *lane {
	l := &lane{wake: wake}
	for _, h := range hooks { // in the order in which they run
		l.watch[h], l.last = true, h
	}
	return l
}

// claim is the buffer for a batch, nil where it is not to be copied. It is the shadow's once publish is called.
func (l *lane) claim(hook abi.Hook, n, nOut int) *copied {
	if int(hook) >= len(l.watch) || !l.watch[hook] || l.full.Load() {
		return nil
	}
	at := l.put.Load()
	if at-l.got.Load() == laneBatches {
		l.skipped[hook].Add(1)
		return nil
	}
	c := &l.slots[at%laneBatches]
	if size := abi.BatchSize(hook, n, nOut); size > len(c.buf) {
		if l.bytes+2*size-len(c.buf) > laneBytes {
			l.skipped[hook].Add(1)
			return nil
		}
		l.bytes += 2*size - len(c.buf)
		c.buf = make([]byte, 2*size)
	}
	return c
}

// publish hands the claimed buffer to the shadow.
func (l *lane) publish() {
	l.put.Add(1)
	signal(l.wake)
}

// next is the oldest batch, nil where none waits. taken gives its buffer back.
func (l *lane) next() *copied {
	at := l.got.Load()
	if at == l.put.Load() {
		return nil
	}
	return &l.slots[at%laneBatches]
}

func (l *lane) taken() { l.got.Add(1) }

// begin counts the tick of a batch. It says whether the batch is one of the first of ticks, and else closes the lane.
func (l *lane) begin(c *copied, of int) bool {
	if l.open && c.tick != l.tick {
		l.over(of)
	}
	if l.ticks == of {
		return false
	}
	if !l.open {
		l.open, l.tick = true, c.tick
		l.begun++
	}
	return true
}

// settle ends the tick of a batch that was the last of its tick.
func (l *lane) settle(c *copied, of int) {
	if c.hook == l.last && l.open {
		l.over(of)
	}
}

func (l *lane) over(of int) {
	l.open = false
	if l.ticks++; l.ticks == of {
		l.full.Store(true)
	}
}

// tap sits between a rank and its runners, through changes of policies and new groups. Where shadows run it copies what
// the runners are shown and what they answer; where none does it costs a look at a pointer. The rank's goroutine uses it.
type tap struct {
	to    rank.Recorder           // nil: nothing is recorded
	lanes atomic.Pointer[[]*lane] // nil: no shadow runs
	slow  *slowCalls              // nil: calls are not timed
	log   *slog.Logger            // of slow calls

	encode  func(abi.Batch) // of the call under way
	take    func(abi.Batch)
	claimed []claim
	taken   bool
}

type claim struct {
	lane *lane
	c    *copied
}

func newTap(to rank.Recorder, slow *slowCalls, log *slog.Logger) *tap {
	t := &tap{to: to, slow: slow, log: log, claimed: make([]claim, 0, maxStaged)}
	t.take = t.copyInput
	return t
}

// Run implements rank.Recorder.
func (t *tap) Run(r *plugins.Runner, tick, epoch uint64, n, nOut int, encode func(abi.Batch)) (plugins.Answer, error) {
	lanes := t.lanes.Load()
	if lanes == nil {
		return t.run(r, tick, epoch, n, nOut, encode)
	}
	t.claimed = t.claimed[:0]
	for _, l := range *lanes {
		if c := l.claim(r.Hook(), n, nOut); c != nil {
			t.claimed = append(t.claimed, claim{l, c})
		}
	}
	if len(t.claimed) == 0 {
		return t.run(r, tick, epoch, n, nOut, encode)
	}
	t.encode, t.taken = encode, false
	a, err := t.run(r, tick, epoch, n, nOut, t.take)
	t.encode = nil
	if err != nil || !t.taken {
		return a, err
	}
	for _, k := range t.claimed {
		c := k.c
		c.tick, c.epoch, c.hook, c.n, c.nOut, c.native, c.fuel = tick, epoch, r.Hook(), n, nOut, a.Native, a.Fuel
		c.end = c.out + copy(c.buf[c.out:], a.Batch.Out)
		k.lane.publish()
	}
	return a, nil
}

// run asks, and times the call where that is wanted: from before the batch is encoded until its answer is checked, and the
// native policy's too where that answers.
func (t *tap) run(r *plugins.Runner, tick, epoch uint64, n, nOut int, encode func(abi.Batch)) (plugins.Answer, error) {
	if t.slow == nil {
		return t.ask(r, tick, epoch, n, nOut, encode)
	}
	start := t.slow.clock.Now()
	a, err := t.ask(r, tick, epoch, n, nOut, encode)
	t.slow.note(t.log, r, tick, n, a.Fuel, t.slow.clock.Now()-start)
	return a, err
}

func (t *tap) ask(r *plugins.Runner, tick, epoch uint64, n, nOut int, encode func(abi.Batch)) (plugins.Answer, error) {
	if t.to == nil {
		return r.Run(tick, epoch, n, nOut, encode)
	}
	return t.to.Run(r, tick, epoch, n, nOut, encode)
}

// copyInput encodes a batch, and copies it before a guest can write to it. Copying what has just been written is cheaper
// than encoding it again. A batch that is encoded a second time, for the native policy, is the same.
func (t *tap) copyInput(b abi.Batch) {
	t.encode(b)
	if t.taken {
		return
	}
	t.taken = true
	for _, k := range t.claimed {
		k.c.in = copy(k.c.buf, b.Globals)
		k.c.out = k.c.in + copy(k.c.buf[k.c.in:], b.In)
	}
}

// attach has a rank's batches copied to a lane, and detach ends that. The caller holds policies.mu.
func (t *tap) attach(l *lane) {
	var all []*lane
	if old := t.lanes.Load(); old != nil {
		all = append(all, *old...)
	}
	all = append(all, l)
	t.lanes.Store(&all)
}

func (t *tap) detach(l *lane) {
	old := t.lanes.Load()
	if old == nil {
		return
	}
	var rest []*lane
	for _, k := range *old {
		if k != l {
			rest = append(rest, k)
		}
	}
	if rest == nil {
		t.lanes.Store(nil)
		return
	}
	t.lanes.Store(&rest)
}
