package transfer

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"sluice/abi"
	"sluice/gpu"
	"sluice/gpu/host"
)

var (
	seedFlag = flag.Uint64("seed", 0, "run TestRandomFaults with this seed alone")
	runsFlag = flag.Int("runs", 400, "seeds that TestRandomFaults tries")
)

// Random requests over random faults. After every tick: no byte of a page has changed but by its
// owner's peer (the guard), a raw Success has exactly the reference bytes, a failure is not a drain;
// and in the end every request is over on every rank, and nothing is left anywhere.
func TestRandomFaults(t *testing.T) {
	if *seedFlag != 0 {
		randomRun(t, *seedFlag)
		return
	}
	var total outcome
	for seed := uint64(1); seed <= uint64(*runsFlag); seed++ {
		got := randomRun(t, seed)
		total.success += got.success
		total.failed += got.failed
		total.fenced += got.fenced
		total.refused += got.refused
		if t.Failed() {
			t.Fatalf("first bad seed: go test ./runtime/transfer -run TestRandomFaults -seed %d", seed)
		}
	}
	if total.success == 0 || total.failed == 0 || total.fenced == 0 || total.refused == 0 {
		t.Errorf("the runs miss a kind of end: %+v", total)
	}
}

type outcome struct{ success, failed, fenced, refused int }

// randomScript draws every fault from the key alone, as scripts must.
type randomScript struct {
	base Script
	seed uint64
}

func (s randomScript) draw(k Key, what uint64, oneIn uint64) bool {
	return scramble(s.seed^scramble(k.Room<<8^uint64(k.Rank)^what<<32))%oneIn == 0
}

func (s randomScript) Chunk(k Key, chunk, chunks int) Chunk {
	c, n := s.base.Chunk(k, chunk, chunks), uint64(chunk)*16
	if s.draw(k, n+1, 3) {
		c.Flight = 5 * tick
	}
	if s.draw(k, n+2, 40) {
		c.Drop = true
	}
	if s.draw(k, n+3, 40) {
		c.Err = errors.New("scripted")
	}
	if s.draw(k, n+4, 6) {
		c.Duplicate = 7 * tick
	}
	if s.draw(k, n+5, 6) {
		c.At += 15 * tick
	}
	if s.draw(k, n+6, 120) {
		c.Crash = true
	}
	return c
}

func (s randomScript) Finish(k Key) Finish {
	f := s.base.Finish(k)
	if s.draw(k, 1001, 5) {
		f.Delay = 4 * tick
	}
	f.Early = s.draw(k, 1006, 5)
	if s.draw(k, 1002, 25) {
		f.Record = func(r *Record) { r.Stamp++ }
	}
	if s.draw(k, 1003, 25) {
		f.Record = func(r *Record) { r.To-- }
	}
	if s.draw(k, 1004, 40) {
		f.Lose = true
	}
	if s.draw(k, 1005, 4) {
		f.StatusDelay = 6 * tick
	}
	return f
}

func (s randomScript) Ack(k Key) Ack {
	a := s.base.Ack(k)
	a.Delay += time.Duration(scramble(s.seed^k.Room)%4) * tick
	a.Lose = s.draw(k, 2001, 12)
	return a
}

// player drives one random run as a rank group would.
type player struct {
	*rig
	rng      *rand.Rand
	live     []*play
	inc      uint64 // the incarnation the group has agreed on
	guard    map[uint32][][]byte
	room     uint64
	outcome  outcome
	patience int
}

type playState uint8

const (
	asking playState = iota
	moving
	quarantined
)

type play struct {
	*job
	state playState
	since int
}

func randomRun(t *testing.T, seed uint64) outcome {
	rng := rand.New(rand.NewPCG(seed, 1))
	o := rigOptions{shape: withShards(1 + rng.IntN(2)), pages: 24, chunk: 1 + rng.IntN(3), ring: 3 + rng.IntN(4),
		revoke: time.Duration(rng.IntN(4)) * tick, restart: time.Duration(rng.IntN(6)) * tick, delay: host.SeededDelay(seed, 0, uint64(rng.IntN(5)))}
	o.prefill = 1 + rng.IntN(2)
	o.shape.Stamp = rng.IntN(4) == 0
	base := Pace{Each: time.Duration(rng.IntN(3)) * tick, Jitter: time.Duration(rng.IntN(9)) * tick, Seed: seed, Lag: []time.Duration{0, time.Duration(rng.IntN(7)) * tick}}
	o.script = randomScript{base.Script(), seed}
	p := &player{rig: newRig(t, o), rng: rng, inc: 1, guard: map[uint32][][]byte{}, patience: 60}
	for range 250 {
		p.step(true)
	}
	for i := 0; len(p.live) > 0; i++ {
		if i == 1000 {
			t.Fatalf("seed %d: %d requests never end", seed, len(p.live))
		}
		p.step(false)
	}
	for range 30 {
		p.tick()
	}
	p.idle()
	for _, r := range p.recv {
		p.outcome.refused += int(r.Counts().Refused)
	}
	if t.Failed() {
		t.Logf("seed %d", seed)
	}
	return p.outcome
}

// step is one tick of the group: arrivals, transitions that every rank makes together, the guard.
func (p *player) step(arrivals bool) {
	p.tick()
	p.checkGuard()
	p.agreePeer()
	if arrivals && p.rng.IntN(3) == 0 {
		p.arrive()
	}
	if p.rng.IntN(150) == 0 {
		p.peer.Crash()
	}
	if p.rng.IntN(200) == 0 {
		p.peer.Cut(p.rng.IntN(len(p.recv)))
	}
	kept := p.live[:0]
	for _, j := range p.live {
		if !p.advance(j) {
			kept = append(kept, j)
		}
	}
	p.live = kept
}

// agreePeer fences the peer everywhere once any rank has lost it, and takes its next incarnation in
// once all ranks have it.
func (p *player) agreePeer() {
	for _, r := range p.recv {
		if !r.Connected(1, p.inc) {
			for _, r := range p.recv {
				r.Fence(1, p.inc)
			}
			p.outcome.fenced++
			break
		}
	}
	next := p.peer.Incarnation()
	for _, r := range p.recv {
		if !r.Connected(1, next) {
			return
		}
	}
	p.inc = next
}

func (p *player) arrive() {
	n := 1 + p.rng.IntN(20)
	promise := p.rng.IntN(n/4+1) * 4
	if p.shape.Pages(n-promise) > len(p.free) || len(p.live) >= 7 {
		return
	}
	p.room++
	p.request++
	j := &play{job: &job{request: p.request, room: p.room, namespace: "n", tokens: tokens(n, p.room), promise: promise, slot: p.freeSlot()}, since: p.ticks}
	if err := p.submit(j.job); err != nil {
		if !errors.Is(err, ErrDown) {
			p.t.Errorf("submit: %v", err)
		}
		return
	}
	// Owned from here on: the guard drops the pages.
	j.dst = p.take(p.shape.Pages(n - promise))
	for _, ref := range j.dst {
		delete(p.guard, ref.Index)
	}
	p.live = append(p.live, j)
}

func (p *player) freeSlot() uint32 {
	used := map[uint32]bool{}
	for _, j := range p.live {
		used[j.slot] = true
	}
	for s := uint32(0); ; s++ {
		if !used[s] {
			return s
		}
	}
}

// advance makes the group's next step for one request and reports its end.
func (p *player) advance(j *play) bool {
	lowest, highest := abi.PollSuccess, abi.PollFailed
	for _, r := range p.recv {
		var raw abi.Poll
		if j.state == asking {
			raw, _ = r.Handshake(j.room, 1)
		} else {
			raw = r.Poll(j.request).Raw
		}
		lowest, highest = min(lowest, raw), max(highest, raw)
	}
	giveUp := p.ticks-j.since > p.patience || p.rng.IntN(60) == 0
	switch j.state {
	case asking:
		if lowest == abi.PollFailed || giveUp {
			p.cancel(j.job)
			p.release(j)
			return true
		}
		if lowest == abi.PollWaitingForInput {
			info := p.info(j.job)
			info.Incarnation = p.inc
			for _, r := range p.recv {
				r.Send(info)
			}
			j.state, j.since = moving, p.ticks
		}
	case moving:
		if lowest == abi.PollSuccess {
			p.check(j.job)
			p.outcome.success++
			p.release(j)
			return true
		}
		if lowest == abi.PollFailed || giveUp {
			p.cancel(j.job)
			j.state, j.since = quarantined, p.ticks
		}
	case quarantined:
		if !p.drained(j.job) {
			if p.ticks-j.since == p.patience {
				for _, r := range p.recv {
					r.Fence(1, p.inc)
				}
			}
			return false
		}
		p.outcome.failed++
		p.release(j)
		return true
	}
	return false
}

// release gives the pages back, and from here on guards them: nobody may write them.
func (p *player) release(j *play) {
	var flying []gpu.Ref
	for rank, r := range p.recv {
		if flying = r.InFlight(flying[:0], j.request); len(flying) > 0 {
			p.t.Errorf("room %d: rank %d has %d pages under the peer at their release", j.room, rank, len(flying))
		}
	}
	p.forget(j.job)
	for _, ref := range j.dst {
		var now [][]byte
		for rank := range p.recv {
			now = append(now, p.read(rank, ref))
		}
		p.guard[ref.Index] = now
	}
}

// checkGuard fails where a page that nobody owns has changed.
func (p *player) checkGuard() {
	for index, was := range p.guard {
		ref := gpu.Ref{Arena: p.l1, Index: index, Generation: p.gen[index]}
		for rank := range p.recv {
			if !bytes.Equal(p.read(rank, ref), was[rank]) {
				p.t.Errorf("%s", fmt.Sprintf("tick %d: rank %d: page %d was written after its release", p.ticks, rank, index))
				delete(p.guard, index)
				return
			}
		}
	}
}
