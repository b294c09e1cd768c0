package replay

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"sluice/abi"
	"sluice/abi/guest"
	"sluice/gpu/host"
	"sluice/kvcache/index"
	"sluice/plugins"
	"sluice/runtime/schedule"
	"sluice/runtime/transfer"
)

// TestS10 has one request finish, and two with one prompt arrive together: each page has one owner.
func TestS10OneOwnerForEachPage(t *testing.T) {
	s := newSim(t, simConfig(2, 4, 10, 0))
	a := s.add(0, 12, 6)
	s.until("A", s.done(a))
	s.wantEnd(a, schedule.FinishLength, abi.ReasonNone)
	s.untilIdle()
	s.wantBooks(index.Books{Free: 6, Evictable: 4})

	s = newSim(t, simConfig(2, 4, 10, 0))
	a = s.add(0, 12, 6)
	b := s.add(0, 12, 6)
	s.until("both inserted", func() bool { return s.in(schedule.QueueRunning, a)() && s.in(schedule.QueueRunning, b)() })
	for r, k := range s.ranks {
		ta, tb := k.Schedule().AppendTable(nil, a), k.Schedule().AppendTable(nil, b)
		if len(ta) < 3 || len(tb) < 3 || !slices.Equal(ta[:3], tb[:3]) {
			t.Errorf("rank %d: the tables %v and %v do not share the prompt's three pages", r, ta, tb)
		}
	}
	if n := s.Books(index.L1).Locked; n != 3 {
		t.Errorf("%d pages are locked, want the 3 shared ones", n)
	}
	s.until("both", s.done(a, b))
	for _, id := range []uint64{a, b} {
		s.wantEnd(id, schedule.FinishLength, abi.ReasonNone)
		s.wantTokens(id, 6)
	}
	s.untilIdle()
	s.wantBooks(index.Books{Free: 6, Evictable: 4})
}

// TestS14 has a restore of four pages fail on one rank, where its copy never starts. Its room stays set aside on both.
func TestS14ReservationCountsFailedRestores(t *testing.T) {
	s := newSim(t, simConfig(2, 4, 10, 24))
	s.warm(0, 16)
	s.demote()
	run, a := s.nextID+1, s.nextID+2
	s.script.chunk = func(k transfer.Key, _ int) transfer.Chunk { return transfer.Chunk{} }
	s.script.finish = func(k transfer.Key) transfer.Finish {
		switch k.Room {
		case roomOf(run):
			return transfer.Finish{Delay: 150 * tick} // holds its two pages, as if it ran
		case roomOf(a):
			return transfer.Finish{Delay: 60 * tick}
		}
		return transfer.Finish{Delay: 200 * tick}
	}
	s.add(500, 5, 4)
	s.until("the one that holds two pages", s.in(schedule.QueueTransfer, run))
	s.inject(1, host.Fault{Kind: host.Load, Err: errCopy})
	s.add(0, 16, 1)
	s.until("A's failure", func() bool {
		return s.in(schedule.QueueTransfer, a)() && s.ranks[0].Schedule().Transfer(1).RestoreFailed
	})
	b, c, d := s.add(2000, 9, 4), s.add(3000, 9, 4), s.add(4000, 9, 4) // three pages each, to the end
	s.until("the three in prealloc or further", func() bool { return s.where(d) != schedule.QueueNone })
	s.steps(10)
	queues := func() []schedule.Queue { return []schedule.Queue{s.where(b), s.where(c), s.where(d)} }
	if got, want := queues(), []schedule.Queue{schedule.QueueTransfer, schedule.QueuePrealloc, schedule.QueuePrealloc}; !slices.Equal(got, want) {
		t.Errorf("with A unresolved B, C, D are in %v, want %v", got, want)
	}
	for r, k := range s.ranks {
		if n := k.Schedule().Books(index.L1).Loading; n != 4 {
			t.Errorf("rank %d has %d pages set aside for A, want 4", r, n)
		}
	}
	s.until("A", s.done(a))
	s.wantEnd(a, schedule.FinishFailed, abi.ReasonRestoreFailed)
	s.steps(10)
	if got, want := queues(), []schedule.Queue{schedule.QueueTransfer, schedule.QueueTransfer, schedule.QueuePrealloc}; !slices.Equal(got, want) {
		t.Errorf("after A B, C, D are in %v, want %v: five pages are left, three are one more", got, want)
	}
	s.until("the rest", s.done(run, b, c, d))
	for _, id := range []uint64{run, b, c, d} {
		s.wantEnd(id, schedule.FinishLength, abi.ReasonNone)
	}
	s.untilIdle()
}

// TestS16 has the ranks' clocks two milliseconds apart when a deadline passes: age is counted in agreed time.
func TestS16DeadlinesAreInAgreedTime(t *testing.T) {
	cfg := simConfig(2, 4, 32, 0)
	cfg.Skew = []time.Duration{time.Millisecond, -time.Millisecond}
	type view struct {
		time uint64
		gone []uint64
	}
	var seen [2][]view
	cfg.Hooks = nativesWith(func(r int) plugins.NativePolicy {
		first := map[uint64]uint64{}
		return plugins.NativePolicy{Gate: func(b guest.GateBatch) int32 {
			g := b.Globals()
			v := view{time: g.TimeNS()}
			for i := range b.Len() {
				in := b.At(i)
				key := in.ReqKey()
				if _, ok := first[key]; !ok {
					first[key] = v.time
				}
				if v.time-first[key] >= uint64(10*time.Second) {
					b.GiveUp(i, in.RawPoll(), abi.ReasonDeadline)
					v.gone = append(v.gone, key)
				} else {
					b.SetVote(i, in.RawPoll())
				}
			}
			seen[r] = append(seen[r], v)
			return int32(abi.StatusOK)
		}}
	})
	s := newSim(t, cfg)
	var ids []uint64
	for i := range 5 {
		s.holds++
		ids = append(ids, s.Submit(Request{Namespace: "default", Tokens: counting(1000*i, 8), Limit: 1, Room: holdRoom + s.holds}))
		s.until("it in transfer", s.in(schedule.QueueTransfer, ids[i]))
		if i == 0 {
			s.steps(5) // the first is older than the others
		}
	}
	s.SkipTo(s.Now() + 10*time.Second - 25*tick)
	var at []uint64
	for len(at) == 0 || s.tick < at[0]+1 {
		s.step()
		for r, o := range s.Outcome(ids[0]).Ends {
			if o.Tick == s.tick {
				at = append(at, o.Tick)
				if n := s.ranks[r].Schedule().QueueLen(schedule.QueueTransfer); n != 4 {
					t.Errorf("rank %d has %d requests left in transfer, want 4", r, n)
				}
			}
		}
	}
	if len(at) != 2 || at[0] != at[1] {
		t.Errorf("the oldest ended at ticks %v, want one tick on both ranks", at)
	}
	s.wantEnd(ids[0], schedule.FinishAborted, abi.ReasonDeadline)
	if !slices.EqualFunc(seen[0], seen[1], func(a, b view) bool { return a.time == b.time && slices.Equal(a.gone, b.gone) }) {
		t.Error("the ranks' policies saw other times or gave up other requests")
	}
	if n := len(seen[0]); n == 0 || seen[0][n-1].time == 0 {
		t.Error("no agreed time was seen")
	}
	s.untilIdle()
}

// alwaysAdmit is a policy that says yes to everything, in order.
func alwaysAdmit(b guest.AdmitBatch) int32 {
	for i := range b.Candidates() {
		b.Set(i, abi.VerdictAdmit, i)
	}
	return int32(abi.StatusOK)
}

// TestS19 runs three requests that take five pages each in the end, on a device of ten.
func TestS19AdmissionCountsGrowth(t *testing.T) {
	for _, c := range []struct {
		name       string
		overcommit float64
		admit      func(guest.AdmitBatch) int32
		together   bool
		retracted  uint64
		overruled  bool
	}{
		{"worst case", 1, nil, false, 0, false},
		{"a policy that always admits", 1, alwaysAdmit, false, 0, true},
		{"expected use", 0.25, nil, true, 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := simConfig(2, 4, 10, 32)
			cfg.Schedule.Overcommit, cfg.Schedule.AdmitNative = c.overcommit, "fifo-headroom"
			cfg.Hooks = natives("restore-gated", "until-retired", "fifo-headroom")
			if c.admit != nil {
				cfg.Hooks = nativesWith(func(int) plugins.NativePolicy { return plugins.NativePolicy{Admit: c.admit} })
			}
			s := newSim(t, cfg)
			ids := []uint64{s.add(0, 8, 12), s.add(500, 8, 12), s.add(1000, 8, 12)}
			s.until("A and B", func() bool { return s.in(schedule.QueueRunning, ids[0])() && s.in(schedule.QueueRunning, ids[1])() })
			together, last := false, s.ranks[0].Schedule().Counts().OutputTokens
			for !s.done(ids...)() {
				s.step()
				now := s.ranks[0].Schedule().Counts().OutputTokens
				if now == last && (s.where(ids[0]) == schedule.QueueRunning || s.where(ids[1]) == schedule.QueueRunning) {
					t.Errorf("tick %d: no token was made", s.tick)
				}
				last = now
				together = together || !slices.ContainsFunc(ids, func(id uint64) bool { return s.where(id) != schedule.QueueRunning })
			}
			for _, id := range ids {
				s.wantEnd(id, schedule.FinishLength, abi.ReasonNone)
				s.wantTokens(id, 12)
			}
			n := s.ranks[0].Schedule().Counts()
			if together != c.together || n.Retractions != c.retracted {
				t.Errorf("C beside A and B: %v, retractions %d; want %v and %d", together, n.Retractions, c.together, c.retracted)
			}
			if over := n.Overruled > 0 && n.Rails[schedule.OverCapacity] > 0; over != c.overruled {
				t.Errorf("overruled %d times, over_capacity %d; want them counted: %v", n.Overruled, n.Rails[schedule.OverCapacity], c.overruled)
			}
			s.untilIdle()
		})
	}
}

// TestS22 has six pages written through while one request runs and nothing new comes: acks are taken in every tick.
func TestS22AcksAreDrainedInEveryTick(t *testing.T) {
	for _, idle := range []bool{false, true} {
		cfg := simConfig(1, 4, 8, 8)
		cfg.Schedule.Overcommit = 0.05
		s := newSim(t, cfg)
		s.inject(0, host.Fault{Kind: host.Backup, Times: host.Forever, DelayTicks: 3})
		var run uint64
		if !idle {
			run = s.add(500, 7, 9) // two pages, then four
		}
		w := s.add(0, 24, 1) // six pages
		s.until("the write-through", s.done(w))
		ended := s.tick
		s.until("its copies to start", func() bool { return s.Books(index.L1).Saving >= 6 })
		s.until("the acks", func() bool { return s.Books(index.L1).Saving == 0 })
		if n := s.tick - ended; n > 6 {
			t.Errorf("idle %v: the acks of copies that take 3 ticks were taken after %d", idle, n)
		}
		if idle {
			s.wantBooks(index.Books{Free: 2, Evictable: 6})
		}
		s.untilIdle()
		if idle {
			continue
		}
		s.wantEnd(run, schedule.FinishLength, abi.ReasonNone)
		s.wantTokens(run, 9)
		if s.ranks[0].Schedule().CacheStats().Evicted[index.L1] == 0 {
			t.Error("the running request grew without eviction: the scenario does not bite")
		}
	}
}

// TestS23 has a request that can never fit, one that fits exactly, and one without a limit.
func TestS23RequestThatCanNeverFit(t *testing.T) {
	s := newSim(t, simConfig(2, 4, 16, 0))
	a, b := s.add(0, 60, 10), s.add(500, 60, 5)
	s.until("both", s.done(a, b))
	s.wantEnd(a, schedule.FinishRefused, abi.ReasonNeverFits)
	s.wantEnd(b, schedule.FinishLength, abi.ReasonNone)
	s.wantTokens(b, 5)
	if n := s.ranks[0].Schedule().Counts(); n.Retractions != 0 || n.Rails[schedule.NeverFits] != 1 {
		t.Errorf("%d retractions, never_fits %d; want 0 and 1", n.Retractions, n.Rails[schedule.NeverFits])
	}
	s.untilIdle()

	cfg := simConfig(1, 4, 16, 0)
	cfg.Schedule.Overcommit = 0.1
	s = newSim(t, cfg)
	c, d := s.add(0, 40, 0), s.add(500, 8, 4)
	s.until("both", s.done(c, d))
	s.wantEnd(c, schedule.FinishLength, abi.ReasonNone)
	s.wantTokens(c, 25) // its KV then fills all 64 slots
	s.wantEnd(d, schedule.FinishLength, abi.ReasonNone)
	s.untilIdle()
}

// TestS33 runs prompts of 1 to 9 tokens twice, and full hits.
func TestS33ShortKeysAndFullHits(t *testing.T) {
	for n := 1; n <= 9; n++ {
		s := newSim(t, simConfig(2, 4, 16, 16))
		for round := range 2 {
			id := s.add(0, n, 2)
			s.until("the end", s.done(id))
			s.wantEnd(id, schedule.FinishLength, abi.ReasonNone)
			s.wantTokens(id, 2)
			want := 0
			if round == 1 {
				want = n / 4 * 4
			}
			if o := s.Outcome(id); o.Promise != want || o.L1 != want {
				t.Errorf("%d tokens, round %d: promised %d, %d on the device; want %d", n, round+1, o.Promise, o.L1, want)
			}
			s.untilIdle()
		}
		if n != 8 {
			continue
		}
		chunks := s.recv[0].Counts().Chunks
		for _, demoted := range []bool{false, true} {
			if demoted {
				s.demote()
			}
			id := s.add(0, n, 2)
			s.until("the full hit", s.done(id))
			s.wantEnd(id, schedule.FinishLength, abi.ReasonNone)
			s.wantTokens(id, 2)
			if o := s.Outcome(id); o.Promise != 8 {
				t.Errorf("a full hit is promised %d tokens, want all 8", o.Promise)
			}
			s.untilIdle()
		}
		if got := s.recv[0].Counts().Chunks; got != chunks {
			t.Errorf("full hits moved %d chunks", got-chunks)
		}
	}
}

// TestRetractionChangesNoToken compares requests that are retracted and come back, token by token, with the same
// requests where there is room for all.
func TestRetractionChangesNoToken(t *testing.T) {
	run := func(l1 int, overcommit float64) (tokens [][]uint32, retractions uint64) {
		cfg := simConfig(2, 4, l1, 200)
		cfg.Schedule.Overcommit = overcommit
		s := newSim(t, cfg)
		var ids []uint64
		for i := range 6 {
			ids = append(ids, s.add(700*i, 6+i, 30))
		}
		s.until("all", s.done(ids...))
		for _, id := range ids {
			s.wantEnd(id, schedule.FinishLength, abi.ReasonNone)
			s.wantTokens(id, 30)
			tokens = append(tokens, s.Outcome(id).Tokens)
		}
		s.untilIdle()
		return tokens, s.ranks[0].Schedule().Counts().Retractions
	}
	calm, none := run(100, 1)
	pressed, some := run(20, 0.1)
	if none != 0 || some < 3 {
		t.Fatalf("%d retractions with room and %d without, want 0 and several", none, some)
	}
	if got, want := fmt.Sprint(pressed), fmt.Sprint(calm); got != want {
		t.Errorf("retracted requests were given\n%s\nwithout retraction they are given\n%s", got, want)
	}
}
