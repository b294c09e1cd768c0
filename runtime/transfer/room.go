package transfer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"sluice/abi"
	"sluice/gpu"
	"sluice/runtime/model"
)

type roomState uint8

const (
	roomWaiting roomState = iota // for the pages of all ranks
	roomRunning
	roomFailed // the ranks are being told
	roomOver
)

// room is one request at a peer.
type room struct {
	request Request
	nth     uint64
	state   roomState
	known   bool // some rank has asked about it
	failure failure
	shares  []*share // by rank; nil until the rank has told its pages
	told    int      // ranks that have told them
	done    int      // ranks that have their metadata
	flying  int      // writes of all shares that will still happen

	start    time.Duration  // when all ranks had told
	prompt   model.Prefix   // of the whole prompt, once a rank has named its own
	prefixes []model.Prefix // at the start of each suffix page
	first    uint32         // the first token, once sampled
	sampled  bool
}

// share is one rank's part of a room.
type share struct {
	room      *room
	rank      int
	key       Key
	link      linkKey
	info      Info
	staged    bool
	chunks    int
	left      int       // chunks that have not landed
	flying    int       // writes that will still happen
	regions   []*region // by chunk, staged
	cancelled bool      // the rank has asked for an ack
	dead      bool      // its incarnation is over
}

func inOrder(rooms map[uint64]*room) []*room {
	return slices.SortedFunc(maps.Values(rooms), func(a, b *room) int { return cmp.Compare(a.nth, b.nth) })
}

func (u *pump) submit(m *message) {
	r, ok := u.p.claim(m.submission)
	if !ok {
		// A rank that has asked waits on, as for a room that never comes, until it hears that the request has ended.
		u.end(&room{request: r}, left(m.room))
		return
	}
	rm := &room{request: r, nth: m.nth, shares: make([]*share, u.p.o.Ranks)}
	u.rooms[m.room] = rm
	asked := u.asked[m.room]
	delete(u.asked, m.room)
	if m.failure != nil {
		u.fail(rm, *m.failure)
	}
	for _, q := range asked {
		u.answer(rm, m.room, q)
	}
	u.wait(rm)
}

// wait bounds the time that a room waits for ranks.
func (u *pump) wait(rm *room) {
	u.waits = append(u.waits, deadline{u.now + u.p.o.BootstrapTimeout, rm.request.Room, rm.nth})
}

// expire ends the rooms that have waited too long for their ranks, and drops the waits of rooms that
// need them no more.
func (u *pump) expire() {
	for len(u.waits) > 0 {
		w := u.waits[0]
		rm := u.rooms[w.room]
		waits := rm != nil && rm.nth == w.nth && (rm.state == roomWaiting || rm.state == roomFailed)
		if waits && w.at > u.now {
			return
		}
		u.waits = u.waits[1:]
		switch {
		case !waits:
		case rm.state == roomFailed:
			delete(u.rooms, w.room)
		default:
			u.fail(rm, failure{reason: abi.ReasonDeadline, message: fmt.Sprintf("peer %d waited %v for the pages of all ranks", u.p.o.ID, u.p.o.BootstrapTimeout)})
		}
	}
}

// query answers a handshake, or keeps it until the room is known.
func (u *pump) query(m *message) {
	q := query{m.rank, m.attempt}
	if rm := u.rooms[m.room]; rm != nil {
		u.answer(rm, m.room, q)
		return
	}
	u.asked[m.room] = append(u.asked[m.room], q)
}

func (u *pump) answer(rm *room, number uint64, q query) {
	rm.known = true
	poll, f := abi.PollWaitingForInput, failure{}
	if rm.state == roomFailed {
		poll, f = abi.PollFailed, rm.failure
	}
	u.receivers[q.rank].answer(linkKey{number, q.attempt, u.incarnation}, poll, f)
}

// info takes a rank's pages, and starts the transfer when it is the last rank's.
func (u *pump) info(m *message) {
	link := linkKey{m.room, m.attempt, u.incarnation}
	rm := u.rooms[m.room]
	if rm == nil || rm.state != roomFailed && rm.shares[m.rank] != nil {
		u.receivers[m.rank].status(link, failure{reason: abi.ReasonHandshakeFailed, message: fmt.Sprintf("peer %d does not know room %d", u.p.o.ID, m.room)})
		return
	}
	rm.known = true
	x := &share{room: rm, rank: m.rank, key: Key{m.room, rm.nth, m.rank}, link: link, info: m.info, staged: u.p.o.Shape.Shards != u.p.o.Ranks}
	u.shares[shareKey{m.rank, m.attempt}] = x
	rm.shares[m.rank] = x
	if rm.state == roomFailed {
		u.tell(x)
		u.settle(x)
		return
	}
	if f := u.check(rm, &m.info); f.reason != abi.ReasonNone {
		u.fail(rm, f)
		return
	}
	if rm.told++; rm.told == len(rm.shares) {
		u.begin(rm)
	}
}

// check holds a rank's pages against the prompt and against what the other ranks told.
func (u *pump) check(rm *room, i *Info) failure {
	wrong := func(format string, args ...any) failure {
		return failure{reason: abi.ReasonCoverageDiffers, message: fmt.Sprintf("room %d: ", rm.request.Room) + fmt.Sprintf(format, args...)}
	}
	size := u.p.o.Shape.PageSize
	switch {
	case i.PromptTokens != len(rm.request.Tokens):
		return wrong("the prompt has %d tokens here, the rank names %d", len(rm.request.Tokens), i.PromptTokens)
	case i.PromiseTokens < 0 || i.PromiseTokens%size != 0 || i.PromiseTokens > i.PromptTokens:
		return wrong("a promise of %d tokens is not a multiple of %d up to %d", i.PromiseTokens, size, i.PromptTokens)
	case len(i.Dst) != u.p.o.Shape.Pages(i.PromptTokens-i.PromiseTokens):
		return wrong("%d pages for tokens [%d, %d) in pages of %d", len(i.Dst), i.PromiseTokens, i.PromptTokens, size)
	}
	if i.Prompt != 0 {
		// Rooms are numbered by clients: another prompt of the same length may have come under this one.
		if rm.prompt == 0 {
			rm.prompt = model.Start(rm.request.Namespace).Extend(rm.request.Tokens)
		}
		if i.Prompt != rm.prompt {
			return wrong("the rank's prompt or namespace is another than the one prefilled; use a room once")
		}
	}
	for rank, x := range rm.shares {
		if x != nil && x.info.PromiseTokens != i.PromiseTokens {
			return wrong("rank %d promises %d tokens, another rank %d", rank, x.info.PromiseTokens, i.PromiseTokens)
		}
	}
	return failure{}
}

// begin schedules every chunk of a room.
func (u *pump) begin(rm *room) {
	rm.state, rm.start = roomRunning, u.now
	promise, size := rm.shares[0].info.PromiseTokens, u.p.o.Shape.PageSize
	prefix := model.Start(rm.request.Namespace).Extend(rm.request.Tokens[:promise])
	rest := rm.request.Tokens[promise:]
	for len(rest) > 0 {
		rm.prefixes = append(rm.prefixes, prefix)
		n := min(size, len(rest))
		prefix, rest = prefix.Extend(rest[:n]), rest[n:]
	}
	for _, x := range rm.shares {
		x.chunks = (len(rm.prefixes) + u.p.o.ChunkPages - 1) / u.p.o.ChunkPages
		x.left = x.chunks
		x.regions = make([]*region, x.chunks)
		for c := range x.chunks {
			plan := u.plan(x, c)
			u.at(rm.start+plan.At-plan.Flight, event{kind: evIssue, x: x, chunk: c})
		}
		f := u.p.script.Finish(x.key)
		if f.Early {
			u.after(f.Delay, event{kind: evMeta, x: x})
		}
		if x.chunks == 0 {
			u.after(f.Delay, event{kind: evFinish, x: x})
		}
	}
}

func (u *pump) plan(x *share, chunk int) Chunk { return u.p.script.Chunk(x.key, chunk, x.chunks) }

// pages is the suffix pages [from, from+n) of a chunk.
func (u *pump) pages(x *share, chunk int) (from, n int) {
	from = chunk * u.p.o.ChunkPages
	return from, min(u.p.o.ChunkPages, len(x.info.Dst)-from)
}

// happen carries out an event that is due.
func (u *pump) happen(e event) {
	switch e.kind {
	case evIssue:
		if len(u.stalled[e.x.rank]) > 0 {
			u.stalled[e.x.rank] = append(u.stalled[e.x.rank], &waiting{e.x, e.chunk})
		} else if !u.issue(e.x, e.chunk) {
			u.p.count(func(c *PrefillCounts) { c.Waited++ })
			u.stalled[e.x.rank] = append(u.stalled[e.x.rank], &waiting{e.x, e.chunk})
		}
	case evLand:
		u.land(e)
	case evMeta:
		if e.x.wanted() {
			u.meta(e.x, u.p.script.Finish(e.x.key))
		}
	case evFinish:
		u.finish(e.x)
	case evStatus:
		if !e.x.dead && !u.cut[e.x.rank] {
			u.receivers[e.x.rank].status(e.x.link, e.x.room.failure)
		}
	case evAck:
		if e.link.incarnation == u.incarnation && !u.down && !u.cut[e.rank] {
			u.p.count(func(c *PrefillCounts) { c.Acks++ })
			u.receivers[e.rank].ack(e.link)
		}
	case evRestart:
		u.restart()
	}
}

// unstall retries the chunks that wait for the ring, in their order.
func (u *pump) unstall() {
	for rank, list := range u.stalled {
		n := 0
		for n < len(list) && u.issue(list[n].x, list[n].chunk) {
			n++
		}
		u.stalled[rank] = slices.Delete(list, 0, n)
	}
}

// issue starts a chunk's write; false means that the ring is full. A chunk that is not wanted any
// more counts as done with.
func (u *pump) issue(x *share, chunk int) bool {
	if !x.wanted() {
		return true
	}
	plan := u.plan(x, chunk)
	if x.staged {
		from, n := u.pages(x, chunk)
		g, wait, err := u.receivers[x.rank].grant(x.link, u.p, from, n)
		switch {
		case wait:
			return false
		case err != nil:
			u.fail(x.room, failure{reason: abi.ReasonTransferFailed, message: err.Error()})
			return true
		case g == nil:
			return true
		}
		x.regions[chunk] = g
	}
	x.fly()
	u.at(max(x.room.start+plan.At, u.now+min(plan.Flight, plan.At)), event{kind: evLand, x: x, chunk: chunk})
	return true
}

// land carries out a write that was started. It happens even for a room that has failed since and
// for a peer that has died: only the receiver can refuse it.
func (u *pump) land(e event) {
	x, plan := e.x, u.plan(e.x, e.chunk)
	x.flying--
	switch {
	case u.cut[x.rank] && !x.dead, plan.Drop:
	case plan.Crash && !e.again && !x.dead && !u.down:
		u.crash()
	case plan.Err != nil && !e.again:
		reason := plan.Reason
		if reason == abi.ReasonNone {
			reason = reasonOf(plan.Err)
		}
		u.fail(x.room, failure{reason: reason, message: fmt.Sprintf("chunk %d of rank %d: %v", e.chunk, x.rank, plan.Err)})
	default:
		u.write(x, e.chunk, e.again)
		if plan.Duplicate > 0 && !e.again {
			x.fly()
			u.after(plan.Duplicate, event{kind: evLand, x: x, chunk: e.chunk, again: true})
		}
	}
	x.room.flying--
	u.settle(x)
}

// write puts a chunk's bytes where they belong, and schedules the metadata after the last one.
func (u *pump) write(x *share, chunk int, again bool) {
	r := u.receivers[x.rank]
	if !r.begin(x.link) {
		return
	}
	from, n := u.pages(x, chunk)
	dst, g := x.info.Dst[from:from+n], x.regions[chunk]
	if g != nil {
		dst = g.refs
	}
	if err := u.fill(x, dst, from); err != nil {
		r.broken(x.link)
		if !again {
			u.fail(x.room, failure{reason: reasonOf(err), message: fmt.Sprintf("chunk %d of rank %d: %v", chunk, x.rank, err)})
		}
		return
	}
	u.p.count(func(c *PrefillCounts) { c.Chunks++ })
	r.landed(x.link, g, from, n)
	if again {
		return
	}
	if x.left--; x.left == 0 && !x.dead {
		f, delay := u.p.script.Finish(x.key), time.Duration(0)
		if !f.Early {
			delay = f.Delay
		}
		u.after(delay, event{kind: evFinish, x: x})
	}
}

// fill computes the suffix pages from from on and writes them to dst.
func (u *pump) fill(x *share, dst []gpu.Ref, from int) error {
	r, size := u.receivers[x.rank], u.p.o.Shape.PageSize
	shape := r.o.Shape
	page := u.scratch[:shape.PageBytes()]
	for i, ref := range dst {
		at := x.info.PromiseTokens + (from+i)*size
		tokens := x.room.request.Tokens[at:min(at+size, len(x.room.request.Tokens))]
		if _, err := model.FillPage(page, shape, x.rank, x.room.prefixes[from+i], at/size, tokens); err != nil {
			return err
		}
		if err := r.o.Device.Write(ref, 0, page); err != nil {
			return err
		}
	}
	return nil
}

// wanted says that the rank's part is still to be carried on.
func (x *share) wanted() bool { return !x.dead && !x.cancelled && x.room.state == roomRunning }

// meta writes a rank's metadata.
func (u *pump) meta(x *share, f Finish) {
	if f.Lose || u.cut[x.rank] {
		return
	}
	rec := Record{First: u.sample(x.room), From: uint32(x.info.PromiseTokens), To: uint32(x.info.PromptTokens), Stamp: x.link.room}
	if f.Record != nil {
		f.Record(&rec)
	}
	u.receivers[x.rank].meta(x.link, rec, failure{f.Reason, f.Message, f.Status})
}

// finish ends a rank's part: its data is complete. The metadata goes out, unless it has overtaken it.
func (u *pump) finish(x *share) {
	if !x.wanted() {
		return
	}
	if f := u.p.script.Finish(x.key); !f.Early {
		u.meta(x, f)
	}
	if x.room.done++; x.room.done == len(x.room.shares) {
		x.room.state = roomOver
		delete(u.rooms, x.link.room)
		u.end(x.room, nil)
		for _, s := range x.room.shares {
			u.settle(s)
		}
	}
}

// sample is the first token: what the model makes of the whole prompt.
func (u *pump) sample(rm *room) uint32 {
	if !rm.sampled {
		o := u.oracle.Fork(rm.request.Namespace)
		for _, t := range rm.request.Tokens {
			o.Extend(t)
		}
		rm.first, rm.sampled = o.Next(u.p.o.Vocab), true
	}
	return rm.first
}

// fail ends a room, unless it has ended, and has every rank that told its pages learn why.
func (u *pump) fail(rm *room, f failure) {
	if rm.state == roomFailed || rm.state == roomOver {
		return
	}
	rm.state, rm.failure = roomFailed, f
	u.wait(rm)
	u.end(rm, roomError(rm.request.Room, f))
	for _, x := range rm.shares {
		if x != nil {
			u.tell(x)
			u.settle(x)
		}
	}
	rm.shed()
}

// tell schedules a rank's learning of a failure.
func (u *pump) tell(x *share) {
	if f := u.p.script.Finish(x.key); !f.Lose {
		u.after(f.StatusDelay, event{kind: evStatus, x: x})
	}
}

// withdraw stops a room for a rank that had not told its pages.
func (u *pump) withdraw(m *message) {
	asked := slices.DeleteFunc(u.asked[m.room], func(q query) bool { return q == query{m.rank, m.attempt} })
	if u.asked[m.room] = asked; len(asked) == 0 {
		delete(u.asked, m.room)
	}
	if rm := u.rooms[m.room]; rm != nil {
		u.fail(rm, failure{reason: abi.ReasonAborted, message: fmt.Sprintf("rank %d cancelled room %d", m.rank, m.room)})
	}
}

// cancel stops a room for a rank that wants no more of it.
func (u *pump) cancel(m *message) {
	x := u.shares[shareKey{m.rank, m.attempt}]
	rm := u.rooms[m.room]
	if x != nil {
		rm = x.room
	}
	if x != nil {
		x.cancelled = true
	}
	if rm != nil {
		u.fail(rm, failure{reason: abi.ReasonAborted, message: fmt.Sprintf("rank %d cancelled room %d", m.rank, m.room)})
	}
	if x != nil {
		u.settle(x)
		return
	}
	// Nothing is known of the attempt, so nothing of it is under way.
	u.ack(m.rank, Key{m.room, 0, m.rank}, linkKey{m.room, m.attempt, u.incarnation})
}

// settle acknowledges a cancelled share once nothing of it is under way, and forgets one that is
// over.
func (u *pump) settle(x *share) {
	if x.dead || x.flying > 0 || x.room.state == roomWaiting || x.room.state == roomRunning {
		return
	}
	x.room.shed()
	key := shareKey{x.rank, x.link.attempt}
	if u.shares[key] != x {
		return
	}
	if x.cancelled {
		u.ack(x.rank, x.key, x.link)
	}
	if x.cancelled || x.room.state == roomOver {
		delete(u.shares, key)
	}
}

func (u *pump) ack(rank int, k Key, link linkKey) {
	if a := u.p.script.Ack(k); !a.Lose {
		u.after(a.Delay, event{kind: evAck, rank: rank, link: link})
	}
}
