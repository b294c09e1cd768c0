package schedule

import (
	"math"
	"testing"

	"sluice/abi"
)

// deferAll is an admit policy that lets nobody in.
func deferAll(_ int, out []byte, n int) []byte {
	for i := range n {
		abi.PutAdmitOut(out[i*abi.AdmitOutStride:], &abi.AdmitOut{Order: uint32(i)})
	}
	return out
}

// shippedNumbers sets what config.toml does by default.
func shippedNumbers(cfg Config) Config {
	cfg.HoldTicks, cfg.StarveTicks, cfg.Quarantine = 1000, 1000, QuarantineAll(3, 1000)
	return cfg
}

// within steps until cond holds, at most n ticks, and says whether it does.
func (g *group) within(n int, cond func() bool) bool {
	g.t.Helper()
	for range n {
		if cond() {
			return true
		}
		g.step()
	}
	return cond()
}

// TestStarvedRail gives policies that let nobody in their limit: while nothing runs, the native rules step in, and the
// fault is the hook's whose native alone would have been enough.
func TestStarvedRail(t *testing.T) {
	all := func(int) uint64 { return math.MaxUint64 }
	for _, c := range []struct {
		name           string
		admit          func(rank int, out []byte, n int) []byte
		held           func(g *group, rank int) uint64
		admits, holder uint64
	}{
		{"admit defers", deferAll, nil, 1, 0},
		{"reserve holds all", nil, func(_ *group, rank int) uint64 { return all(rank) }, 0, 1},
		{"reserve of one rank holds all", nil, func(_ *group, rank int) uint64 { return uint64(rank) * all(rank) }, 0, 1},
		// The hold goes first: whoever is asked for an answer under it has nothing to let in.
		{"both", deferAll, func(_ *group, rank int) uint64 { return all(rank) }, 0, 1},
		{"reserve lets go of it in the last ticks", nil, func(g *group, rank int) uint64 {
			if g.tick%9 < 7 {
				return all(rank)
			}
			return 0
		}, 0, 0},
		{"admit defers under a hold that leaves room", deferAll, func(*group, int) uint64 { return 4 }, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := testConfig(2, 4, 8, 8)
			cfg.StarveTicks = 9
			g := newGroup(t, cfg)
			g.admit = c.admit
			if c.held != nil {
				g.held = func(rank int) uint64 { return c.held(g, rank) }
			}
			id := g.add(0, 6, 3)
			g.until("in prealloc", func() bool { return g.where(id) == QueuePrealloc })
			from, s := g.tick, g.ranks[0]
			g.until("it is admitted", func() bool { return g.where(id) != QueuePrealloc })
			starved := c.admits + c.holder
			if got := g.tick - from; starved > 0 && got != 9 || got > 9 {
				t.Errorf("waited for %d ticks, want 9", got)
			}
			if s.Counts().Rails[Starved] != starved || s.Faults(abi.Admit) != c.admits || s.Faults(abi.Reserve) != c.holder {
				t.Errorf("starved %d, faults of admit %d and reserve %d; want %d, %d, %d", s.Counts().Rails[Starved], s.Faults(abi.Admit), s.Faults(abi.Reserve), starved, c.admits, c.holder)
			}
			g.until("the end", func() bool { return g.ended(id) })
		})
	}
}

// TestReserveThatLetsGoForATick is held against reserve: admit never had room for as long as it may wait.
func TestReserveThatLetsGoForATick(t *testing.T) {
	cfg := testConfig(2, 4, 8, 8)
	cfg.StarveTicks = 20
	g := newGroup(t, cfg)
	g.admit = deferAll
	g.held = func(int) uint64 {
		if g.tick%7 == 0 {
			return 0
		}
		return math.MaxUint64
	}
	id := g.add(0, 6, 3)
	g.until("the end", func() bool { return g.ended(id) })
	if s := g.ranks[0]; s.Counts().Rails[Starved] != 1 || s.Faults(abi.Admit) != 0 || s.Faults(abi.Reserve) != 1 {
		t.Errorf("starved %d, faults of admit %d and reserve %d; want 1, 0, 1", s.Counts().Rails[Starved], s.Faults(abi.Admit), s.Faults(abi.Reserve))
	}
}

// TestNoRoomIsNobodysFault keeps the pages of an aborted request quarantined for as long as its peer may write. The next
// one gets them in the tick in which they come back, natively where the policy's answer is older, and no policy pays.
func TestNoRoomIsNobodysFault(t *testing.T) {
	for _, ranks := range []int{1, 2} {
		for _, defers := range []bool{false, true} {
			g := newGroup(t, shippedNumbers(testConfig(ranks, 4, 16, 0)))
			if defers {
				g.admit = deferAll
			}
			hung := true
			g.drain = func(int, uint64) bool { return !hung }
			g.raw = func(_ int, id uint64, _ uint32) abi.Poll {
				if id == 1 {
					return abi.PollTransferring
				}
				return abi.PollSuccess
			}
			s := g.ranks[0]
			big := g.add(0, 56, 4)
			if !g.within(1100, func() bool { return g.where(big) == QueueTransfer }) {
				t.Fatal("never in transfer")
			}
			was := s.Counts().Rails[Starved]
			faults := s.Faults(abi.Admit)
			g.abort(big)
			next := g.add(500, 40, 4)
			g.steps(3500) // drain_ticks is 3000
			if g.where(next) != QueuePrealloc || s.Counts().Rails[Starved] != was {
				t.Errorf("%d ranks: %v, starved %d; there is no room for it", ranks, g.where(next), s.Counts().Rails[Starved]-was)
			}
			hung = false
			g.steps(1)
			if g.where(next) != QueueTransfer {
				t.Errorf("%d ranks: %v in the tick in which there is room", ranks, g.where(next))
			}
			if n := s.Faults(abi.Admit) + s.Faults(abi.Reserve); n != faults || s.Quarantined(abi.Admit) {
				t.Errorf("%d ranks: %d faults, there were %d", ranks, n, faults)
			}
			g.untilIdle()
			g.wantFinish(next, FinishLength, 0)
		}
	}
}

// TestLateHandshakeIsNobodysFault has a peer that takes longer than starve_ticks to know the room.
func TestLateHandshakeIsNobodysFault(t *testing.T) {
	cfg := testConfig(2, 4, 8, 0)
	cfg.StarveTicks = 9
	g := newGroup(t, cfg)
	knows := false
	g.shake = func(int, uint64) abi.Poll {
		if knows {
			return abi.PollWaitingForInput
		}
		return abi.PollBootstrapping
	}
	id := g.add(0, 6, 3)
	g.steps(40)
	knows = true
	g.steps(1)
	if s := g.ranks[0]; g.where(id) != QueueTransfer || s.Faults(abi.Admit)+s.Faults(abi.Reserve) != 0 {
		t.Errorf("%v, %d faults of admit, %d of reserve", g.where(id), s.Faults(abi.Admit), s.Faults(abi.Reserve))
	}
	g.untilIdle()
}

// TestStarveTicksOfOne leaves a policy no tick in which it was shown what it is to let in.
func TestStarveTicksOfOne(t *testing.T) {
	cfg := testConfig(2, 4, 8, 0)
	cfg.StarveTicks = 1
	g := newGroup(t, cfg)
	for n := range 5 {
		id := g.add(100*n, 6, 1)
		g.until("its end", func() bool { return g.ended(id) })
		g.untilIdle()
	}
	if s := g.ranks[0]; s.Faults(abi.Admit) != 0 || s.Counts().Rails[Starved] != 5 {
		t.Errorf("%d faults, starved %d; want 0 and 5", s.Faults(abi.Admit), s.Counts().Rails[Starved])
	}
}

// TestStarvedRejection: a policy that gives up on the head in the tick in which it would be let in has the last word.
func TestStarvedRejection(t *testing.T) {
	cfg := testConfig(2, 4, 8, 0)
	cfg.StarveTicks = 9
	g := newGroup(t, cfg)
	s := g.ranks[0]
	from := uint64(0)
	g.admit = func(rank int, out []byte, n int) []byte {
		if from == 0 || g.tick < from+9 {
			return deferAll(rank, out, n)
		}
		for i := range n {
			abi.PutAdmitOut(out[i*abi.AdmitOutStride:], &abi.AdmitOut{Verdict: abi.VerdictReject, Order: uint32(i)})
		}
		return out
	}
	id := g.add(0, 6, 3)
	g.until("in prealloc", func() bool { return g.where(id) == QueuePrealloc })
	from = g.tick
	g.until("its end", func() bool { return g.ended(id) })
	if e := g.wantFinish(id, FinishRefused, abi.ReasonRejected); e.tick != from+9 || s.Faults(abi.Admit) != 0 || s.Counts().Rails[Starved] != 0 {
		t.Errorf("ended after %d ticks, %d faults, starved %d; want 9, 0, 0", e.tick-from, s.Faults(abi.Admit), s.Counts().Rails[Starved])
	}
	g.untilIdle()
}

// TestStarvationStartsAnew: who was let in is over in a tick, and the next one in the queue, as old, waits in full again.
func TestStarvationStartsAnew(t *testing.T) {
	for _, native := range []bool{true, false} {
		cfg := testConfig(2, 4, 8, 0)
		cfg.StarveTicks = 20
		g := newGroup(t, cfg)
		s := g.ranks[0]
		g.admit = func(rank int, out []byte, n int) []byte {
			out = deferAll(rank, out, n)
			if !native && g.tick == 15 {
				abi.PutAdmitOut(out, &abi.AdmitOut{Verdict: abi.VerdictAdmit})
			}
			return out
		}
		first, second := g.add(0, 24, 1), g.add(500, 24, 1)
		g.until("the first is in", func() bool { return g.where(first) == QueueTransfer })
		from := g.tick
		g.until("the second is in", func() bool { return g.where(second) == QueueTransfer })
		want := uint64(2)
		if !native {
			want = 1
		}
		if g.tick-from != 20 || s.Faults(abi.Admit) != want || s.Counts().Rails[Starved] != want || native == (from == 15) {
			t.Errorf("native %v: the first was let in at tick %d, the second %d ticks later, %d faults; want 20 ticks and %d", native, from, g.tick-from, s.Faults(abi.Admit), want)
		}
		g.untilIdle()
	}
}
