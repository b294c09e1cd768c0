package schedule

import (
	"testing"

	"sluice/abi"
	"sluice/kvcache/index"
)

// stall makes the model give no tokens to these requests, so that they run and hold what they have.
func (g *group) stall(ids ...*uint64) {
	g.token = func(id uint64, n int) uint32 {
		for _, s := range ids {
			if id == *s && n > 0 {
				return NoToken
			}
		}
		return uint32(100000 + int(id)*1000 + n)
	}
}

// budgets returns every rank's admission budget at the floor, in pages.
func (g *group) budgets() (all []int) {
	for _, s := range g.ranks {
		all = append(all, s.budget(s.floor()))
	}
	return all
}

func (g *group) wantBudget(want int) {
	g.t.Helper()
	for rank, got := range g.budgets() {
		if got != want {
			g.t.Errorf("tick %d: budget on rank %d is %d pages, want %d", g.tick, rank, got, want)
		}
	}
}

// TestS14 has a restore of 4 pages fail on one rank, where it never got a copy going. Its room stays set aside on both
// until both retire it. Second run: a retracted request comes first and takes the room.
func TestS14ReservationCountsFailedRestores(t *testing.T) {
	for _, c := range []struct {
		name      string
		retracted bool
		first     int // budget with A unresolved
		admitted  [3]bool
	}{{"new requests only", false, 4, [3]bool{true, false, false}}, {"a retracted request waits", true, 4, [3]bool{false, false, true}}} {
		t.Run(c.name, func(t *testing.T) {
			g := newGroup(t, testConfig(2, 4, 10, 24))
			g.warm(0, 16, 1)
			g.demote()
			var run, d, a uint64
			g.stall(&run, &d)
			run = g.add(500, 5, 4) // 2 pages to the end
			g.until("the running request", func() bool { return g.where(run) == QueueRunning })
			g.load = func(rank int, op OperationView, _ bool) (bool, int, bool) {
				if op.Kind == OperationLoad && rank == 1 {
					return true, 0, false
				}
				return true, op.Pages, false
			}
			resolved := false
			g.raw = func(_ int, id uint64, _ uint32) abi.Poll {
				if id == a && !resolved {
					return abi.PollTransferring
				}
				return abi.PollSuccess
			}
			a = g.nextID + 1
			g.add(0, 16, 1)
			g.until("A's restore has failed", func() bool { return g.ranks[0].NumTransfer() == 1 && g.ranks[0].Transfer(0).RestoreFailed })
			g.steps(2) // backups of the running one's prompt end
			g.wantBudget(c.first)

			if c.retracted {
				// D runs in 3 of the 4 pages, is retracted, and wants them back.
				d = g.nextID + 1
				g.add(1500, 9, 4)
				g.until("D runs", func() bool { return g.where(d) == QueueRunning })
				g.retract(d)
				g.held = func(int) uint64 { return 40 } // nothing is admitted while B and C arrive
				g.until("D is saved", func() bool { return g.where(d) == QueueRetracted && g.ranks[0].NumOperations() == 0 })
				g.wantBudget(4)
			} else {
				g.held = func(int) uint64 { return 40 }
			}
			b, cc := g.add(2000, 9, 4), g.add(3000, 9, 4) // 3 pages each, to the end
			g.stall(&run, &d, &b, &cc)
			g.until("B and C in prealloc", func() bool { return g.where(b) == QueuePrealloc && g.where(cc) == QueuePrealloc })
			g.steps(2)
			g.held = nil
			g.steps(4)
			got := [3]bool{g.where(b) != QueuePrealloc, g.where(cc) != QueuePrealloc, d != 0 && g.where(d) != QueueRetracted}
			if got != c.admitted {
				t.Errorf("with A unresolved B, C, D admitted: %v, want %v", got, c.admitted)
			}
			g.wantBudget(1)
			resolved = true
			g.until("A retired", func() bool { return g.ended(a) })
			g.wantFinish(a, FinishFailed, abi.ReasonRestoreFailed)
			g.steps(3)
			// 10 - 2 - 3 = 5: exactly one more of 3 pages.
			g.wantBudget(2)
			if c.retracted && (g.where(b) == QueuePrealloc || g.where(cc) != QueuePrealloc) {
				t.Errorf("after A: B is %v and C %v, want B admitted and C waiting", g.where(b), g.where(cc))
			}
			if !c.retracted && g.where(cc) == QueuePrealloc {
				t.Error("after A: C waits, want it admitted")
			}
			g.token = nil
			g.load = nil
			g.untilIdle()
			for _, id := range []uint64{run, b, cc} {
				g.wantFinish(id, FinishLength, 0)
			}
		})
	}
}

// TestS19 runs three requests of 5 pages at the end on a device of 10.
func TestS19AdmissionCountsGrowth(t *testing.T) {
	always := func(_ int, out []byte, n int) []byte {
		for i := range n {
			abi.PutAdmitOut(out[i*abi.AdmitOutStride:], &abi.AdmitOut{Verdict: abi.VerdictAdmit, Order: uint32(i)})
		}
		return out
	}
	for _, c := range []struct {
		name       string
		overcommit float64
		admit      func(int, []byte, int) []byte
		together   bool   // C runs beside A and B
		retracted  uint64 // victims
		overruled  bool
	}{
		{"worst case", 1, nil, false, 0, false},
		{"a policy that always admits", 1, always, false, 0, true},
		{"expected use", 0.25, nil, true, 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := testConfig(2, 4, 10, 32)
			cfg.Overcommit, cfg.AdmitNative = c.overcommit, "fifo-headroom"
			g := newGroup(t, cfg)
			g.admit = c.admit
			a, b, x := g.add(0, 8, 12), g.add(500, 8, 12), g.add(1000, 8, 12)
			g.until("A and B run", func() bool { return g.where(a) == QueueRunning && g.where(b) == QueueRunning })
			together := false
			last := g.ranks[0].Counts().OutputTokens
			for !(g.ended(a) && g.ended(b) && g.ended(x)) {
				g.step()
				now := g.ranks[0].Counts().OutputTokens
				both := g.where(a) == QueueRunning || g.where(b) == QueueRunning
				if now == last && both {
					t.Errorf("tick %d: no token was made", g.tick)
				}
				last = now
				together = together || g.where(x) == QueueRunning && g.where(a) == QueueRunning && g.where(b) == QueueRunning
				if g.tick > 200 {
					t.Fatal("no end")
				}
			}
			for _, id := range []uint64{a, b, x} {
				g.wantFinish(id, FinishLength, 0)
				if n := g.count(EffectToken, id); n != 12 {
					t.Errorf("request %d made %d tokens, want 12", id, n)
				}
			}
			k := g.ranks[0].Counts()
			if together != c.together || k.Retractions != c.retracted {
				t.Errorf("C beside A and B: %v, retractions %d; want %v, %d", together, k.Retractions, c.together, c.retracted)
			}
			if over := k.Overruled > 0 && k.Rails[OverCapacity] > 0; over != c.overruled {
				t.Errorf("overruled %d, over_capacity %d; want them counted: %v", k.Overruled, k.Rails[OverCapacity], c.overruled)
			}
			g.untilIdle()
		})
	}
}

// TestS22 has six pages written through while nothing but one running request is there: the acks are taken in every
// tick, and the request then grows by eviction.
func TestS22AcksAreDrainedInEveryTick(t *testing.T) {
	for _, idle := range []bool{false, true} {
		cfg := testConfig(1, 4, 8, 8)
		cfg.Overcommit = 0.05
		g := newGroup(t, cfg)
		var acked uint64
		g.load = func(_ int, op OperationView, _ bool) (bool, int, bool) {
			return op.Kind != OperationBackup || acked > 0 && g.tick >= acked, op.Pages, false
		}
		var run uint64
		if !idle {
			run = g.add(500, 7, 9) // 2 pages, then 4
		}
		w := g.add(0, 24, 1) // 6 pages
		g.until("the write-through", func() bool { return g.ended(w) })
		acked = g.tick + 3
		g.steps(2)
		if k := g.books(index.L1); k.Saving < 6 {
			t.Errorf("idle %v: books before the acks are %+v, want 6 pages saving", idle, k)
		}
		g.step()
		if k := g.books(index.L1); k.Saving != 0 || idle && (k.Locked != 0 || k.Evictable != 6) {
			t.Errorf("idle %v: books after the acks are %+v", idle, k)
		}
		g.untilIdle()
		if idle {
			continue
		}
		g.wantFinish(run, FinishLength, 0)
		if n := g.ranks[0].CacheStats().Evicted[index.L1]; n == 0 {
			t.Error("the running request grew without eviction: the scenario does not bite")
		}
	}
}

// TestS23 has requests that can never fit, that fit exactly, and one without a limit.
func TestS23RequestThatCanNeverFit(t *testing.T) {
	for _, native := range []string{"greedy", "fifo-headroom"} {
		t.Run(native, func(t *testing.T) {
			cfg := testConfig(2, 4, 16, 0)
			cfg.AdmitNative = native
			g := newGroup(t, cfg)
			a, b := g.add(0, 60, 10), g.add(500, 60, 5)
			g.until("both ends", func() bool { return g.ended(a) && g.ended(b) })
			e := g.wantFinish(a, FinishRefused, abi.ReasonNeverFits)
			if e.Value != 18 {
				t.Errorf("A is refused with %d pages needed, want 18 of 16", e.Value)
			}
			g.wantFinish(b, FinishLength, 0)
			if n := g.ranks[0].Counts(); n.Retractions != 0 || n.Rails[NeverFits] != 1 {
				t.Errorf("%d retractions, never_fits %d; want 0 and 1", n.Retractions, n.Rails[NeverFits])
			}
			g.untilIdle()
		})
	}
	t.Run("no limit", func(t *testing.T) {
		cfg := testConfig(1, 4, 16, 0)
		cfg.Overcommit = 0.1
		g := newGroup(t, cfg)
		c, d := g.add(0, 40, 0), g.add(500, 8, 4)
		g.until("both ends", func() bool { return g.ended(c) && g.ended(d) })
		g.wantFinish(c, FinishLength, 0)
		if n := g.count(EffectToken, c); n != 25 {
			t.Errorf("C made %d tokens, want 25: its KV then fills all 64 slots", n)
		}
		g.wantFinish(d, FinishLength, 0)
	})
	t.Run("the device shrinks", func(t *testing.T) {
		cfg := testConfig(2, 4, 16, 0)
		g := newGroup(t, cfg)
		c := g.add(0, 40, 0)
		g.until("C runs", func() bool { return g.where(c) == QueueRunning })
		g.usable = func(rank int) (int, int) { return 16 - 3*rank, 0 }
		d := g.add(500, 8, 4)
		g.until("both ends", func() bool { return g.ended(c) && g.ended(d) })
		g.wantFinish(c, FinishFailed, abi.ReasonCapacity)
		if n := g.count(EffectToken, c); n != 13 {
			t.Errorf("C made %d tokens, want 13: its KV then fills 52 slots", n)
		}
		g.wantFinish(d, FinishLength, 0)
		g.usable = nil
		g.untilIdle()
	})
}
