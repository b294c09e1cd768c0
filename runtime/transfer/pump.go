package transfer

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"sluice/abi"
	"sluice/runtime/model"
)

// pump is the state of a peer that only Pump touches.
type pump struct {
	p      *Prefill
	oracle model.Oracle // without tokens; rooms fork it

	mu          sync.Mutex
	now         time.Duration
	receivers   []*Receiver
	incarnation uint64
	down        bool
	cut         []bool // by rank

	rooms   map[uint64]*room
	shares  map[shareKey]*share
	asked   map[uint64][]query // handshakes for rooms that are not known yet
	events  events
	waits   []deadline // of rooms, soonest first
	seq     uint64
	stalled [][]*waiting // by rank: chunks that wait for the ring, oldest first
	scratch []byte
	inbox   []message
	ends    []ended
}

// shareKey finds the share a rank's message is about.
type shareKey struct {
	rank    int
	attempt uint64
}

type query struct {
	rank    int
	attempt uint64
}

// waiting is a chunk for which the ring had no place.
type waiting struct {
	x     *share
	chunk int
}

// deadline is when a room has waited long enough. It names the room by number, so that it keeps
// nothing of one that has ended alive.
type deadline struct {
	at   time.Duration
	room uint64
	nth  uint64
}

// ended is a callback that is due.
type ended struct {
	f    func(uint64, error)
	room uint64
	err  error
}

func (u *pump) init(p *Prefill, oracle model.Oracle) {
	u.p, u.oracle, u.incarnation = p, oracle, p.o.Incarnation
	u.rooms, u.shares, u.asked = make(map[uint64]*room), make(map[shareKey]*share), make(map[uint64][]query)
	u.cut, u.stalled = make([]bool, p.o.Ranks), make([][]*waiting, p.o.Ranks)
	shape := p.o.Shape
	shape.Shards = 1
	u.scratch = make([]byte, shape.PageBytes())
}

// register says hello to every rank with the present incarnation.
func (u *pump) register() error {
	clear(u.cut)
	var errs []error
	for _, r := range u.receivers {
		errs = append(errs, r.hello(u.p, u.p.o.ID, u.incarnation, u.p.o.Shape, u.p.o.ChunkPages))
	}
	return errors.Join(errs...)
}

// run does everything due at now and returns the callbacks to make.
func (u *pump) run(now time.Duration) []ended {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.now = max(u.now, now)
	u.p.mu.Lock()
	u.inbox, u.p.inbox = u.p.inbox, u.inbox[:0]
	u.p.mu.Unlock()
	for i := range u.inbox {
		u.take(&u.inbox[i])
		u.inbox[i] = message{}
	}
	u.unstall()
	for len(u.events) > 0 && u.events[0].at <= u.now {
		u.happen(u.events.pop())
	}
	u.expire()
	ends := u.ends
	u.ends = nil
	return ends
}

func (u *pump) next(waiting bool) (time.Duration, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if waiting {
		return u.now, true
	}
	at, ok := time.Duration(0), false
	if len(u.waits) > 0 {
		at, ok = u.waits[0].at, true
	}
	if len(u.events) > 0 && (!ok || u.events[0].at < at) {
		at, ok = u.events[0].at, true
	}
	return at, ok
}

// after schedules an event d from now.
func (u *pump) after(d time.Duration, e event) { u.at(u.now+max(d, 0), e) }

func (u *pump) at(at time.Duration, e event) {
	u.seq++
	e.at, e.seq = max(at, u.now), u.seq
	u.events.push(e)
}

// take handles one message.
func (u *pump) take(m *message) {
	if m.incarnation != u.incarnation || u.down || m.kind >= msgQuery && m.kind != msgClosed && u.cut[m.rank] {
		u.p.count(func(c *PrefillCounts) { c.Dropped++ })
		if m.kind == msgSubmit {
			r, _ := u.p.claim(m.submission)
			u.end(&room{request: r}, fmt.Errorf("%w: peer %d; retry with another", ErrDown, u.p.o.ID))
		}
		return
	}
	switch m.kind {
	case msgSubmit:
		u.submit(m)
	case msgAbort:
		if rm := u.rooms[m.room]; rm != nil {
			u.fail(rm, failure{reason: abi.ReasonAborted, message: "aborted at the peer"})
		}
	case msgForget:
		u.forget(m.room)
	case msgCrash:
		u.crash()
	case msgCut:
		if m.rank >= 0 && m.rank < len(u.cut) {
			u.cut[m.rank] = true
			u.receivers[m.rank].lost(u.p.o.ID, u.incarnation)
		}
	case msgQuery:
		u.query(m)
	case msgInfo:
		u.info(m)
	case msgWithdraw:
		u.withdraw(m)
	case msgCancel:
		u.cancel(m)
	case msgClosed:
		u.p.log.Warn("a rank has closed the connection; registering again", "rank", m.rank, "incarnation", u.incarnation)
		u.crash()
	}
}

// crash ends the incarnation. Writes under way go on.
func (u *pump) crash() {
	old := u.incarnation
	u.down = true
	for _, rm := range u.rooms {
		rm.state = roomOver
	}
	// Rooms end in the order they came, so that a run repeats.
	for _, rm := range inOrder(u.rooms) {
		u.end(rm, fmt.Errorf("%w: peer %d; retry with another", ErrDown, u.p.o.ID))
	}
	for _, x := range u.shares {
		x.dead = true
	}
	clear(u.rooms)
	clear(u.shares)
	clear(u.asked)
	u.waits = nil
	for i := range u.stalled {
		u.stalled[i] = nil
	}
	u.p.mu.Lock()
	u.p.down = true
	u.p.mu.Unlock()
	for _, r := range u.receivers {
		r.lost(u.p.o.ID, old)
	}
	if u.p.o.RestartDelay >= 0 {
		u.after(u.p.o.RestartDelay, event{kind: evRestart})
	}
}

// restart registers with a new incarnation.
func (u *pump) restart() {
	u.incarnation++
	u.down = false
	u.p.mu.Lock()
	u.p.down, u.p.incarnation = false, u.incarnation
	u.p.counts.Restarted++
	u.p.mu.Unlock()
	if err := u.register(); err != nil {
		u.p.log.Error("registration failed", "incarnation", u.incarnation, "err", err)
	}
}

// end makes a room's number free and its callback due.
func (u *pump) end(rm *room, err error) {
	u.p.over(rm.request.Room)
	u.p.count(func(c *PrefillCounts) {
		if err == nil {
			c.Done++
		} else {
			c.Failed++
		}
	})
	if rm.request.OnEnd != nil {
		u.ends = append(u.ends, ended{rm.request.OnEnd, rm.request.Room, err})
	}
	rm.request.OnEnd = nil
}
