package schedule

import (
	"fmt"
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

// TestNoRoomIsNobodysFault keeps the pages of an aborted request quarantined for as long as its peer may write, and has a
// peer that takes long to know a room. The wait for that is no policy's: it counts from when the next request has room.
func TestNoRoomIsNobodysFault(t *testing.T) {
	for _, ranks := range []int{1, 2} {
		for _, what := range []string{"pages", "handshake"} {
			for _, defers := range []bool{false, true} {
				cfg := shippedNumbers(testConfig(ranks, 4, 16, 0))
				cfg.AdmitNative = "fifo-headroom"
				g := newGroup(t, cfg)
				hung, first := true, uint64(1)
				g.drain = func(int, uint64) bool { return !hung }
				g.shake = func(_ int, id uint64) abi.Poll {
					if what == "handshake" && hung && id != first {
						return abi.PollBootstrapping
					}
					return abi.PollWaitingForInput
				}
				g.raw = func(_ int, id uint64, _ uint32) abi.Poll {
					if id == first {
						return abi.PollTransferring
					}
					return abi.PollSuccess
				}
				s := g.ranks[0]
				if big := g.add(0, 56, 4); what == "pages" {
					g.until("it is in transfer", func() bool { return g.where(big) == QueueTransfer })
					g.abort(big)
				} else {
					g.abort(big)
					g.until("it is over", func() bool { return g.ended(big) })
				}
				if defers {
					g.admit = deferAll
				}
				next := g.add(500, 40, 4)
				g.steps(3500) // drain_ticks is 3000
				if g.where(next) != QueuePrealloc {
					t.Errorf("%d ranks, %s: %v, and there is nothing to have it in", ranks, what, g.where(next))
				}
				hung = false
				from := g.tick
				if !g.within(1100, func() bool { return g.where(next) == QueueTransfer }) {
					t.Fatalf("%d ranks, %s: never admitted", ranks, what)
				}
				want, ticks := uint64(0), uint64(2)
				if defers {
					want, ticks = 1, 1000
				}
				if g.tick-from != ticks || s.Faults(abi.Admit) != want || s.Counts().Rails[Starved] != want || s.Faults(abi.Reserve) != 0 {
					t.Errorf("%d ranks, %s, defers %v: admitted after %d ticks, %d faults, starved %d; want %d, %d, %d",
						ranks, what, defers, g.tick-from, s.Faults(abi.Admit), s.Counts().Rails[Starved], ticks, want, want)
				}
				g.untilIdle()
				g.wantFinish(next, FinishLength, 0)
			}
		}
	}
}

// TestStarveTicksOfOne leaves a policy its answer to the first batch that shows it somebody to let in.
func TestStarveTicksOfOne(t *testing.T) {
	for _, defers := range []bool{false, true} {
		cfg := testConfig(2, 4, 8, 0)
		cfg.StarveTicks, cfg.Quarantine = 1, QuarantineAll(10, 1000)
		g := newGroup(t, cfg)
		want := uint64(0)
		if defers {
			g.admit, want = deferAll, 5
		}
		for n := range 5 {
			id := g.add(100*n, 6, 1)
			g.until("its end", func() bool { return g.ended(id) })
			g.untilIdle()
		}
		if s := g.ranks[0]; s.Faults(abi.Admit) != want || s.Counts().Rails[Starved] != want {
			t.Errorf("defers %v: %d faults, starved %d; want %d", defers, s.Faults(abi.Admit), s.Counts().Rails[Starved], want)
		}
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

// obstacle is a way to keep requests waiting until a rail ends it.
type obstacle struct {
	hook abi.Hook
	set  func(g *group, in func() bool) // in says whether it is in the way
}

func obstacles() map[string]obstacle {
	return map[string]obstacle{
		"admit defers": {abi.Admit, func(g *group, in func() bool) {
			g.admit = func(rank int, out []byte, n int) []byte {
				if in() {
					return deferAll(rank, out, n)
				}
				return out
			}
		}},
		"reserve holds": {abi.Reserve, func(g *group, in func() bool) {
			g.held = func(rank int) uint64 {
				if in() && rank == len(g.ranks)-1 {
					return math.MaxUint64
				}
				return 0
			}
		}},
		"gate holds": {abi.Gate, func(g *group, in func() bool) {
			g.vote = func(rank int, raw abi.Poll, st abi.RestoreStatus, _ uint64) (abi.Poll, bool) {
				if in() && rank == len(g.ranks)-1 || st == abi.RestorePending {
					return min(raw, abi.PollTransferring), false
				}
				return raw, false
			}
		}},
	}
}

// TestRailsQuarantine holds requests up for ever with the shipped numbers. The third that a rail had to help takes the
// policy out of use on all ranks, however long what it let in has run, and the requests after it wait for nobody.
func TestRailsQuarantine(t *testing.T) {
	for name, o := range obstacles() {
		for _, ranks := range []int{1, 2} {
			for _, tokens := range []int{2, 3000} {
				t.Run(fmt.Sprintf("%s, %d ranks, %d tokens", name, ranks, tokens), func(t *testing.T) {
					g := newGroup(t, shippedNumbers(testConfig(ranks, 64, 256, 0)))
					s := g.ranks[0]
					o.set(g, func() bool { return !s.Quarantined(o.hook) })
					for n := range 3 {
						if s.Quarantined(o.hook) || s.Faults(o.hook) != uint64(n) {
							t.Fatalf("quarantined %v with %d faults after %d requests", s.Quarantined(o.hook), s.Faults(o.hook), n)
						}
						id := g.add(1000*n, 6, tokens)
						if !g.within(5000, func() bool { return g.ended(id) }) {
							t.Fatalf("request %d never ends", id)
						}
					}
					if !g.within(2, func() bool { return s.Quarantined(o.hook) }) {
						t.Fatalf("not quarantined after %d faults in %d ticks", s.Faults(o.hook), g.tick)
					}
					id := g.add(9000, 6, 2)
					if !g.within(20, func() bool { return g.ended(id) }) {
						t.Error("the request after the quarantine waits")
					}
					for _, h := range []abi.Hook{abi.Gate, abi.Reserve, abi.Admit} {
						if h != o.hook && s.Faults(h) != 0 {
							t.Errorf("%s has %d faults", h, s.Faults(h))
						}
					}
				})
			}
		}
	}
}

// TestRailsWithinTheWindow has policies that let every other request pass: each time that one did not counts with those
// that are near, and a policy that a rail has to help now and then stays in use.
func TestRailsWithinTheWindow(t *testing.T) {
	for name, o := range obstacles() {
		for _, c := range []struct {
			every uint64 // ticks from one rail to the next
			out   bool
		}{{1300, true}, {5000, false}} {
			t.Run(fmt.Sprintf("%s, every %d ticks", name, c.every), func(t *testing.T) {
				g := newGroup(t, shippedNumbers(testConfig(2, 4, 64, 0)))
				in := false
				o.set(g, func() bool { return in })
				s := g.ranks[0]
				for n := range 6 {
					in = true
					held := g.add(2000*n, 6, 2)
					if !g.within(1100, func() bool { return g.ended(held) }) {
						t.Fatalf("request %d never ends", held)
					}
					in = false
					free := g.add(2000*n+1000, 6, 2)
					if !g.within(50, func() bool { return g.ended(free) }) {
						t.Fatalf("request %d never ends", free)
					}
					g.within(int(c.every), func() bool { return g.tick >= uint64(n+1)*c.every })
					if want := c.out && n >= 2; s.Quarantined(o.hook) != want {
						t.Fatalf("quarantined %v after %d rails, want %v", s.Quarantined(o.hook), n+1, want)
					}
					if c.out && n == 2 {
						break
					}
				}
				if k := s.Counts(); !c.out && k.Rails[Starved]+k.Rails[HoldLimit] != 6 {
					t.Errorf("starved %d, hold_limit %d; want 6 of them", k.Rails[Starved], k.Rails[HoldLimit])
				}
			})
		}
	}
}

// TestOldRailsAreNoFaults: two requests that were held long ago are not added to what the policy does now.
func TestOldRailsAreNoFaults(t *testing.T) {
	g := newGroup(t, shippedNumbers(testConfig(2, 4, 64, 0)))
	in := true
	obstacles()["gate holds"].set(g, func() bool { return in })
	ok := true
	g.hookOK = func(_ int, h abi.Hook) bool { return ok || h != abi.Gate }
	s := g.ranks[0]
	for n := range 2 {
		id := g.add(1000*n, 6, 2)
		if !g.within(1100, func() bool { return g.ended(id) }) {
			t.Fatalf("request %d never ends", id)
		}
	}
	g.steps(1000)
	for range 2 {
		ok = false
		g.step()
		ok = true
		g.steps(20)
	}
	if s.Faults(abi.Gate) != 4 || s.Quarantined(abi.Gate) {
		t.Errorf("%d faults, quarantined %v; want 4, two of them long ago, and in use", s.Faults(abi.Gate), s.Quarantined(abi.Gate))
	}
	// One more request held up is the third that a rail had to help, with none in between that passed by itself.
	id := g.add(5000, 6, 2)
	if !g.within(1100, func() bool { return g.ended(id) }) || !g.within(2, func() bool { return s.Quarantined(abi.Gate) }) {
		t.Errorf("not quarantined after %d faults", s.Faults(abi.Gate))
	}
}

// TestAdmitHoldEndsWithTheShippedNumbers has a successor that never comes, under on_fault = "hold".
func TestAdmitHoldEndsWithTheShippedNumbers(t *testing.T) {
	for _, ranks := range []int{1, 2} {
		g := newGroup(t, shippedNumbers(holdConfig(ranks)))
		g.ready = func(int) uint64 { return 1 }
		g.admit = func(int, []byte, int) []byte { return nil }
		s := g.ranks[0]
		for n := range 3 {
			if s.Quarantined(abi.Admit) {
				t.Fatalf("%d ranks: quarantined after %d starved ticks", ranks, n)
			}
			id := g.add(100*n, 6, 2)
			if !g.within(1100, func() bool { return g.ended(id) }) {
				t.Fatalf("%d ranks: request %d never ends", ranks, id)
			}
		}
		g.step()
		if !s.Quarantined(abi.Admit) || s.Counts().Rails[Starved] != 3 {
			t.Errorf("%d ranks: quarantined %v, starved %d; want true, 3", ranks, s.Quarantined(abi.Admit), s.Counts().Rails[Starved])
		}
	}
}

// TestFlipForgetsRails gives a successor the same chance as its predecessor had.
func TestFlipForgetsRails(t *testing.T) {
	g := newGroup(t, shippedNumbers(testConfig(2, 4, 64, 0)))
	g.admit = deferAll
	epoch := uint64(0)
	g.epoch = func(int) uint64 { return epoch }
	s := g.ranks[0]
	for n := range 5 {
		if n == 2 {
			epoch = 1
		}
		if s.Quarantined(abi.Admit) {
			t.Fatalf("quarantined after %d starved ticks, two of them the predecessor's", n)
		}
		id := g.add(1000*n, 6, 2)
		if !g.within(1100, func() bool { return g.ended(id) }) {
			t.Fatalf("request %d never ends", id)
		}
	}
	if g.step(); !s.Quarantined(abi.Admit) {
		t.Errorf("not quarantined after %d faults", s.Faults(abi.Admit))
	}
}
