package schedule

import (
	cli "flag"
	"math/rand/v2"
	"slices"
	"testing"

	"sluice/abi"
	"sluice/kvcache/index"
)

var (
	seedFlag = cli.Uint64("seed", 0, "run the random test with this seed alone; 0 = the usual seeds")
	runsFlag = cli.Int("runs", 2500, "runs of the random test")
)

// chaos is one random run: a group whose every local fact is drawn from one seed.
type chaos struct {
	*group
	rng   *rand.Rand
	cfg   Config
	calm  bool // everything heals and nothing new comes
	ids   []uint64
	polls []map[uint64]abi.Poll
	dead  []map[PeerView]bool
	inc   map[uint32]uint64
	mode  int // what happens to this tick's proposals
	odd   int // the rank it happens to
	keys  int // what happens to this tick's score answers, to the same rank
	perm  []int
	marks [][2]int // usable pages by rank
	fixed bool     // the device never shrinks
	hold  bool     // the gate never lets every third request go
	gap   int      // a request comes in one of so many ticks
	// replayable runs change no state but through ballots
	replayable bool
	ended      []map[uint64]event
	outs       map[uint64]int
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func randomConfig(r *rand.Rand) Config {
	return Config{Ranks: 1 + r.IntN(3), PageSize: 1 + r.IntN(5), L1Pages: 4 + r.IntN(20), L2Pages: pick(r, 0, 6, 12, 24, 40),
		MaxRunning: 1 + r.IntN(6), MetadataSlots: 1 + r.IntN(6), MaxNewTokens: 6 + r.IntN(20), MaxQueue: 6 + r.IntN(20),
		ReservedDecodeTokens: pick(r, 0, 0, 3, 8), Overcommit: pick[float64](r, 1, 1, 0.5, 0.2), HoldTicks: 3 + r.IntN(15), StarveTicks: 3 + r.IntN(15),
		AdmitWindow: 1 + r.IntN(8), Operations: 1 + r.IntN(4), LoadFailures: 1 + r.IntN(3), Quarantine: QuarantineAll(1+r.IntN(6), 1+r.IntN(60)), IngressSlice: pick(r, 64, 100, 1000), EOS: pick[uint32](r, NoToken, NoToken, 100003), AdmitNative: pick(r, "greedy", "fifo-headroom")}
}

func newChaos(t *testing.T, seed uint64) *chaos {
	r := rand.New(rand.NewPCG(seed, 0x51))
	c := &chaos{rng: r, cfg: randomConfig(r), inc: map[uint32]uint64{}, fixed: r.IntN(2) == 0, hold: r.IntN(4) == 0, gap: 1 + r.IntN(6), outs: map[uint64]int{}}
	c.cfg.Score = seed%3 == 0
	c.cfg.HoldOnFault[hookAdmit] = seed%2 == 0
	for h := range c.cfg.Quarantine {
		c.cfg.Quarantine[h] = Quarantine{1 + r.IntN(6), 1 + r.IntN(60)}
	}
	c.group = newGroupWithout(t, c.cfg)
	for range c.cfg.Ranks {
		c.polls = append(c.polls, map[uint64]abi.Poll{})
		c.dead = append(c.dead, map[PeerView]bool{})
		c.marks = append(c.marks, [2]int{c.cfg.L1Pages, c.cfg.L2Pages})
		c.ended = append(c.ended, map[uint64]event{})
	}
	c.shake = func(int, uint64) abi.Poll {
		if c.calm || r.IntN(3) > 0 {
			return abi.PollWaitingForInput
		}
		if r.IntN(60) == 0 {
			return abi.PollFailed
		}
		return abi.PollBootstrapping
	}
	c.raw = c.poll
	c.vote = func(rank int, raw abi.Poll, st abi.RestoreStatus, id uint64) (abi.Poll, bool) {
		switch {
		case c.hold && id%3 == 0:
			return min(raw, abi.PollTransferring), false
		case c.calm || r.IntN(10) > 0:
			if raw == abi.PollSuccess && st != abi.RestoreReady {
				raw = pick(r, abi.PollFailed, abi.PollTransferring)
				if st == abi.RestorePending {
					raw = abi.PollTransferring
				}
			}
			return raw, false
		case r.IntN(10) == 0:
			return raw, true
		}
		return abi.Poll(r.IntN(6)), false
	}
	c.load = func(_ int, op OperationView, _ bool) (bool, int, bool) {
		switch k := r.IntN(10); {
		case c.calm || k < 4:
			return true, op.Pages, false
		case k < 8:
			return false, 0, false
		}
		bad := r.IntN(3) == 0 && op.Kind == OperationLoad
		return true, r.IntN(op.Pages + 1), bad
	}
	c.drain = func(int, uint64) bool { return c.calm || r.IntN(3) == 0 }
	c.held = func(int) uint64 {
		if c.calm || r.IntN(4) > 0 {
			return 0
		}
		return uint64(r.IntN(c.cfg.L1Pages * c.cfg.PageSize * 2))
	}
	c.hookOK = func(int, abi.Hook) bool { return c.calm || r.IntN(60) > 0 }
	c.peerUp = func(rank int, p PeerView) bool {
		if !c.calm && r.IntN(150) == 0 {
			c.dead[rank][p] = true
		}
		return !c.dead[rank][p]
	}
	c.usable = func(rank int) (int, int) {
		m := &c.marks[rank]
		switch {
		case c.calm:
			*m = [2]int{c.cfg.L1Pages, c.cfg.L2Pages}
		case !c.fixed && r.IntN(12) == 0:
			*m = [2]int{r.IntN(c.cfg.L1Pages + 1), r.IntN(c.cfg.L2Pages + 1)}
		}
		return m[0], m[1]
	}
	c.ready = func(int) uint64 {
		g := max(c.ranks[0].Health(abi.Admit).Generation, c.ranks[0].Health(abi.Score).Generation)
		if c.calm || r.IntN(2) == 0 {
			return g
		}
		return g - 1
	}
	c.epoch = func(int) uint64 { return c.ranks[0].PolicyEpoch() + uint64(r.IntN(2)) }
	c.token = func(id uint64, n int) uint32 {
		// A step may make no token; the request repeats it. Rank 0 alone is asked.
		if n > 0 && !c.calm && r.IntN(20) == 0 {
			return NoToken
		}
		return uint32(100000 + (int(id)*7+n)%11)
	}
	c.admit, c.score = c.tamper, c.tamperScores
	c.inc[1], c.inc[2] = 1, 1
	c.stream = AppendPeer(AppendPeer(nil, 1, 1), 2, 1)
	return c
}

// poll moves a rank's transfer on; terminal states stay.
func (c *chaos) poll(rank int, id uint64, _ uint32) abi.Poll {
	p, seen := c.polls[rank][id]
	switch {
	case !seen:
		p = abi.PollWaitingForInput
	case p == abi.PollFailed || p == abi.PollSuccess:
	case !c.calm && c.rng.IntN(60) == 0:
		p = abi.PollFailed
	case c.calm || c.rng.IntN(2) == 0:
		p++
	}
	c.polls[rank][id] = p
	return p
}

const (
	proposalFaults  = 1 + iota // one rank's policy faults
	proposalDiffers            // one rank's answer differs
	proposalOther              // all ranks agree on something else
	proposalIllegal            // all ranks agree on something malformed
	proposalModes
)

func (c *chaos) tamper(rank int, out []byte, n int) []byte {
	switch c.mode {
	case proposalFaults:
		if rank == c.odd {
			return nil
		}
	case proposalDiffers:
		if rank == c.odd {
			out[1] ^= 1
		}
	case proposalOther:
		for i := range n {
			at := slices.Index(c.perm, i)
			abi.PutAdmitOut(out[i*abi.AdmitOutStride:], &abi.AdmitOut{Order: uint32(at), Verdict: abi.Verdict([]int{1, 1, 1, 0, 1, 1, 2}[at%7])})
		}
	case proposalIllegal:
		out[2] = 1
	}
	return out
}

func (c *chaos) tamperScores(rank int, out []byte, _ int) []byte {
	switch c.keys {
	case proposalFaults:
		if rank == c.odd {
			return nil
		}
	case proposalDiffers:
		if rank == c.odd {
			out[3] ^= 1
		}
	case proposalOther:
		for i := range out {
			out[i] ^= byte(c.tick) * byte(i)
		}
	case proposalIllegal:
		return out[1:]
	}
	return out
}

func (c *chaos) tickOnce() {
	r := c.rng
	c.mode, c.odd = 0, r.IntN(c.cfg.Ranks)
	if !c.calm && r.IntN(6) == 0 {
		c.mode = 1 + r.IntN(proposalModes-1)
	}
	c.keys = 0
	if c.cfg.Score && !c.calm && r.IntN(12) == 0 {
		c.keys = 1 + r.IntN(proposalModes-1)
	}
	c.perm = r.Perm(c.ranks[0].nOut)
	from := make([]int, len(c.events))
	for rank := range c.events {
		from[rank] = len(c.events[rank])
	}
	c.step()
	for rank := range c.events {
		for _, e := range c.events[rank][from[rank]:] {
			c.note(rank, e)
		}
	}
	for rank, s := range c.ranks {
		if s.Checksum() != c.ranks[0].Checksum() {
			c.t.Fatalf("tick %d: rank %d has another checksum than rank 0", c.tick, rank)
		}
		// A backup locks what eviction could have given, and only until it ends.
		if b := s.Books(index.L1); c.fixed && c.cfg.Overcommit == 1 && s.opCount[OperationBackup] == 0 {
			if left := s.budget(s.floor()); left < 0 {
				c.t.Fatalf("tick %d: %d pages short of what is promised: %+v", c.tick, -left, b)
			}
		}
	}
}

func (c *chaos) note(rank int, e event) {
	switch e.Kind {
	case EffectToken:
		if _, over := c.ended[rank][e.Request]; over {
			c.t.Fatalf("tick %d, rank %d: request %d gets a token after its end", c.tick, rank, e.Request)
		}
		if rank == 0 {
			c.outs[e.Request]++
		}
	case EffectFinish:
		if was, over := c.ended[rank][e.Request]; over {
			c.t.Fatalf("rank %d: request %d ends at tick %d and again at tick %d", rank, e.Request, was.tick, e.tick)
		}
		c.ended[rank][e.Request] = e
	}
}

// arrive adds what the outside does in one tick.
func (c *chaos) arrive() {
	r := c.rng
	for id := range uint32(2) {
		id++
		known := slices.ContainsFunc(c.ranks[0].peers, func(p peer) bool { return p.id == id })
		if !known && len(c.stream) == 0 && c.ranks[0].in.idle() && r.IntN(4) == 0 {
			c.inc[id]++
			c.stream = AppendPeer(c.stream, id, c.inc[id])
			break
		}
	}
	if r.IntN(c.gap) == 0 {
		p := c.cfg.PageSize
		q := Request{Peer: uint32(1 + r.IntN(2)), Tokens: counting(1000*r.IntN(2), 1+r.IntN(c.cfg.L1Pages*p*pick(r, 3, 5, 9)/10)),
			Limit: uint32(pick(r, 0, 1, 2+r.IntN(12), 2+r.IntN(12))), Tenant: uint16(r.IntN(3)), IgnoreEOS: r.IntN(2) == 0}
		if r.IntN(20) == 0 {
			q.Tokens = counting(0, c.cfg.L1Pages*p+r.IntN(3))
		}
		if r.IntN(8) == 0 && len(c.ids) > 0 {
			q.Room = 1000 + pick(r, c.ids...)
		}
		if r.IntN(4) == 0 {
			q.Key = Space("other", "m", "l")
		}
		if r.IntN(4) == 0 {
			q.Stops = []uint32{100001, 100002}
		}
		c.ids = append(c.ids, c.addRequest(q))
	}
	if len(c.ids) > 0 && r.IntN(20) == 0 {
		id := pick(r, c.ids...)
		if r.IntN(2) == 0 {
			c.abort(id)
		} else {
			c.stream = AppendAbort(c.stream, id)
		}
	}
	// What is shown to the score policy stays as it is until it has answered.
	if !c.replayable && r.IntN(10) == 0 && !c.cfg.Score {
		c.demote()
	}
	if r.IntN(50) == 0 {
		c.stream = AppendFlush(c.stream)
	}
}

func (c *chaos) run() {
	for range 20 + c.rng.IntN(140) {
		c.arrive()
		c.tickOnce()
	}
	c.calm = true
	for n := 0; n < 3 || !c.idle(); n++ {
		if n > 2000 {
			s := c.ranks[0]
			c.t.Fatalf("tick %d: not idle: prealloc %d transfer %d waiting %d running %d retracted %d resuming %d quarantine %d, operations %d, books %+v",
				c.tick, len(s.prealloc), len(s.transfer), len(s.waiting), len(s.running), len(s.retracted), len(s.resuming), len(s.quarantine), len(s.opList), s.Books(index.L1))
		}
		c.tickOnce()
	}
	c.settled()
}

// settled checks an idle group: nothing is held, and every request ended once, everywhere alike.
func (c *chaos) settled() {
	for rank, s := range c.ranks {
		if b := s.Books(index.L1); b.Free+b.Evictable != c.cfg.L1Pages {
			c.t.Fatalf("rank %d is idle with books %+v", rank, b)
		}
		s.x.DropUnlocked()
		st := s.CacheStats()
		if a, b := s.Books(index.L1), s.Books(index.L2); a.Free != c.cfg.L1Pages || b.Free != c.cfg.L2Pages || st.Locks+st.Ops+st.Nodes != 0 {
			c.t.Fatalf("rank %d is idle and empty with books %+v and %+v, %d locks, %d operations, %d nodes", rank, a, b, st.Locks, st.Ops, st.Nodes)
		}
		if len(s.rests)+len(s.rooms) > 0 {
			c.t.Fatalf("rank %d is idle with %d rests and %d rooms", rank, len(s.rests), len(s.rooms))
		}
		for _, id := range c.ids {
			e, ok := c.ended[rank][id]
			first := c.ended[0][id]
			if !ok || e.tick != first.tick || e.Finish != first.Finish || e.Reason != first.Reason || e.Rank != first.Rank {
				c.t.Fatalf("request %d ended on rank %d as %v %v at tick %d (found: %v), on rank 0 as %v %v at tick %d", id, rank,
					e.Finish, e.Reason, e.tick, ok, first.Finish, first.Reason, first.tick)
			}
		}
		if len(c.ended[rank]) != len(c.ids) {
			c.t.Fatalf("rank %d reports %d ends of %d requests", rank, len(c.ended[rank]), len(c.ids))
		}
	}
	for id, e := range c.ended[0] {
		if s := c.ranks[0]; e.Finish == FinishLength && c.outs[id] > s.cfg.MaxNewTokens {
			c.t.Fatalf("request %d made %d tokens, its limit is at most %d", id, c.outs[id], s.cfg.MaxNewTokens)
		}
	}
}

// TestRandomRuns drives random groups through random facts until they are idle. A failing run prints the flag that
// repeats it alone.
func TestRandomRuns(t *testing.T) {
	var total Counts
	one := func(seed uint64) {
		defer func() {
			if t.Failed() {
				t.Logf("repeat with: go test ./runtime/schedule -run TestRandomRuns -seed %d", seed)
			}
		}()
		c := newChaos(t, seed)
		c.run()
		n := c.ranks[0].Counts()
		for k := range n.Finished {
			total.Finished[k] += n.Finished[k]
		}
		for k := range n.Rails {
			total.Rails[k] += n.Rails[k]
		}
		total.Restores += n.Restores
		total.RestoresFailed += n.RestoresFailed
		total.DroppedCopies += n.DroppedCopies
		total.Retractions += n.Retractions
		total.Overruled += n.Overruled
		total.DeferredStale += n.DeferredStale
		total.SatOut += n.SatOut
		total.Scored += n.Scored
		total.HookFaults[hookScore] += n.HookFaults[hookScore]
		total.AdmitHeld += n.AdmitHeld
	}
	if *seedFlag != 0 {
		one(*seedFlag)
		return
	}
	runs := *runsFlag
	if testing.Short() {
		runs /= 10
	}
	for seed := range uint64(runs) {
		one(seed + 1)
	}
	t.Logf("ends %v, rails %v, restores %d (%d requests failed by one), copies dropped %d, retractions %d, overruled %d (%d stale), steps sat out %d",
		total.Finished, total.Rails, total.Restores, total.RestoresFailed, total.DroppedCopies, total.Retractions, total.Overruled, total.DeferredStale, total.SatOut)
	for k, n := range total.Finished {
		if n == 0 && runs > 100 {
			t.Errorf("no request of %d runs ended as %v: the test reaches too little", runs, FinishKind(k))
		}
	}
	if runs > 100 && (total.RestoresFailed == 0 || total.DroppedCopies == 0 || total.Retractions == 0 || total.Rails[Starved] == 0 || total.Rails[HoldLimit] == 0 || total.Scored == 0 || total.HookFaults[hookScore] == 0 || total.AdmitHeld == 0) {
		t.Error("no restore failed, no copy dropped, nobody retracted, nobody starved, no hold ended, no key was given, no score failed or no admit was held: the test reaches too little")
	}
}
