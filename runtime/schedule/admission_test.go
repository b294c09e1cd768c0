package schedule

import (
	"slices"
	"testing"

	"sluice/abi"
	"sluice/kvcache/index"
)

func TestGrowthOfOneRequest(t *testing.T) {
	for _, c := range []struct {
		name                           string
		prompt, outputs, limit, k, pad int // pad: pages beyond what its KV needs
		over                           float64
		want                           int
	}{
		{"nothing left", 8, 1, 1, 0, 0, 1, 0},
		{"new, one token a page ahead", 8, 0, 2, 0, 0, 1, 1},
		{"worst case", 8, 0, 12, 0, 0, 1, 3},
		{"half written", 8, 6, 12, 0, 0, 1, 1},
		{"a page in hand", 8, 6, 12, 0, 1, 1, 0},
		{"a quarter, rounded up", 8, 0, 12, 0, 0, 0.25, 1},
		{"a tenth, inside the last page", 6, 0, 12, 0, 0, 0.1, 0},
		{"K raises it", 8, 0, 12, 8, 0, 0.1, 2},
		{"K no more than what is left", 8, 0, 4, 512, 0, 0.1, 1},
		{"K beyond the pages in hand", 8, 0, 12, 4, 1, 0.1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := testConfig(1, 4, 64, 0)
			cfg.Overcommit, cfg.ReservedDecodeTokens = c.over, c.k
			s, err := New(cfg, 1)
			if err != nil {
				t.Fatal(err)
			}
			r := &request{prompt: c.prompt, limit: c.limit, tokens: make([]uint32, c.prompt+c.outputs)}
			r.full = s.footprint(r)
			pages := ceilDiv(r.kv(), 4) + c.pad
			if got := s.growth(r, pages); got != c.want {
				t.Errorf("growth %d pages, want %d", got, c.want)
			}
			if got := s.growth(r, pages); pages+got > s.footprint(r)+c.pad {
				t.Errorf("growth %d on %d pages passes the footprint of %d", got, pages, s.footprint(r))
			}
		})
	}
}

func TestFootprintAndLimit(t *testing.T) {
	cfg := testConfig(1, 4, 16, 0)
	cfg.MaxNewTokens = 30
	s, err := New(cfg, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ prompt, asked, limit, footprint int }{
		{60, 10, 10, 18}, {60, 5, 5, 16}, {60, 0, 5, 16}, {40, 0, 25, 16}, {10, 0, 30, 10}, {10, 99, 30, 10}, {64, 0, 1, 16}, {70, 0, 1, 18}, {1, 1, 1, 1},
	} {
		m := s.clipLimit(c.prompt, c.asked)
		if f := s.footprint(&request{prompt: c.prompt, limit: m}); m != c.limit || f != c.footprint {
			t.Errorf("prompt %d, asked %d: limit %d and %d pages, want %d and %d", c.prompt, c.asked, m, f, c.limit, c.footprint)
		}
	}
}

// TestRestoresStartInOrder has three restores and room for one: the second waits for it, and the third does not pass.
func TestRestoresStartInOrder(t *testing.T) {
	g := newGroup(t, testConfig(2, 4, 12, 48))
	for i := range 3 {
		g.warm(1000*i, 16, 1)
		g.demote()
	}
	hold := true
	g.raw = func(int, uint64, uint32) abi.Poll {
		if hold {
			return abi.PollTransferring
		}
		return abi.PollSuccess
	}
	// One page short of the second restore while the first is set aside: the device has lost pages since admission.
	ids := []uint64{g.add(0, 16, 1), g.add(1000, 16, 1), g.add(2000, 8, 1)}
	g.usable = func(int) (int, int) { return 12, 48 }
	g.until("three in transfer", func() bool {
		if g.ranks[0].QueueLen(QueueTransfer) >= 1 {
			g.usable = func(int) (int, int) { return 7, 48 }
		}
		return g.where(ids[0]) == QueueTransfer
	})
	g.steps(4)
	s := g.ranks[0]
	aside := []bool{}
	for i := range s.NumTransfer() {
		aside = append(aside, s.Transfer(i).SetAside)
	}
	if len(aside) == 0 || !aside[0] || slices.Contains(aside[1:], true) {
		t.Errorf("set aside: %v, want the first alone", aside)
	}
	hold, g.usable = false, nil
	g.untilIdle()
	for _, id := range ids {
		g.wantFinish(id, FinishLength, 0)
	}
}

// TestRetractedRequestLosesNothing compares a request that is retracted and resumed with the same request undisturbed:
// same tokens, and (checked by the devices) its own KV.
func TestRetractedRequestLosesNothing(t *testing.T) {
	run := func(disturb int) []uint32 {
		g := newGroup(t, testConfig(2, 4, 16, 16))
		id := g.add(0, 6, 20)
		g.until("it runs", func() bool { return g.where(id) == QueueRunning })
		for n := range disturb {
			g.steps(1 + n)
			g.retract(id)
			g.steps(1)
			g.until("it runs again", func() bool { return g.where(id) == QueueRunning })
		}
		g.until("the end", func() bool { return g.ended(id) })
		g.wantFinish(id, FinishLength, 0)
		g.untilIdle()
		var tokens []uint32
		for _, e := range g.events[1] {
			if e.Kind == EffectToken && e.Request == id {
				tokens = append(tokens, e.Token)
			}
		}
		if k := g.books(index.L1); k.Evictable != 6 || k.Free != 10 {
			t.Errorf("retracted %d times: books %+v, want its 6 full pages published", disturb, k)
		}
		return tokens
	}
	want := run(0)
	if len(want) != 20 {
		t.Fatalf("the undisturbed run made %d tokens, want 20", len(want))
	}
	for disturb := 1; disturb <= 4; disturb++ {
		if got := run(disturb); !slices.Equal(got, want) {
			t.Errorf("retracted %d times: tokens %v, undisturbed %v", disturb, got, want)
		}
	}
}

// TestRetractionFailures ends a retracted request whose pages cannot be saved or brought back, with a retryable reason.
func TestRetractionFailures(t *testing.T) {
	for _, c := range []struct {
		name   string
		l2     int
		kind   OperationKind
		reason abi.Reason
	}{
		{"no host room", 0, numOperationKinds, abi.ReasonRetractionSaveFailed},
		{"save falls short on one rank", 16, OperationSave, abi.ReasonRetractionSaveFailed},
		{"resume falls short on one rank", 16, OperationResume, abi.ReasonResumeFailed},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGroup(t, testConfig(2, 4, 16, c.l2))
			g.load = func(rank int, op OperationView, _ bool) (bool, int, bool) {
				if op.Kind == c.kind && rank == 1 {
					return true, op.Pages - 1, false
				}
				return true, op.Pages, false
			}
			id := g.add(0, 6, 20)
			g.until("it runs", func() bool { return g.where(id) == QueueRunning })
			g.retract(id)
			g.until("the end", func() bool { return g.ended(id) })
			g.wantFinish(id, FinishFailed, c.reason)
			g.untilIdle()
			if k := g.books(index.L1); k.Free+k.Evictable != 16 {
				t.Errorf("books %+v", k)
			}
		})
	}
}

// TestOneVictimAtATime retracts a request whose pages are all the tree's: they come back when it is saved, and until
// then nobody else is retracted for the same shortage.
func TestOneVictimAtATime(t *testing.T) {
	cfg := testConfig(1, 4, 9, 32)
	cfg.Overcommit = 0.01
	g := newGroup(t, cfg)
	a, b, c := g.add(0, 8, 9), g.add(500, 8, 9), g.add(1000, 8, 9) // 2 pages each, all published, 4 at the end
	g.load = func(_ int, op OperationView, first bool) (bool, int, bool) {
		return op.Kind == OperationBackup || !first, op.Pages, false
	}
	// When the three are about to take their third page, one is left.
	g.until("all are admitted", func() bool { return g.ranks[0].Counts().Admitted == 3 })
	g.usable = func(int) (int, int) { return 7, 32 }
	g.until("somebody is retracted", func() bool { return g.ranks[0].Counts().Retractions > 0 })
	g.step()
	if n := g.ranks[0].Counts().Retractions; n != 1 || g.where(c) != QueueRetracted {
		t.Errorf("%d retracted while the first is being saved, the youngest is %v; want 1, retracted", n, g.where(c))
	}
	g.usable = nil
	g.until("the ends", func() bool { return g.ended(a) && g.ended(b) && g.ended(c) })
	for _, id := range []uint64{a, b, c} {
		g.wantFinish(id, FinishLength, 0)
	}
}

// usableFor is the mark that leaves n device pages free.
func (g *group) usableFor(n int) int {
	s := g.ranks[0]
	for p := range s.cfg.L1Pages {
		if st, _ := s.x.PageState(index.L1, index.Page(p)); st == index.Free {
			if n == 0 {
				return p
			}
			n--
		}
	}
	return s.cfg.L1Pages
}

// TestRunnerMakesWayForRestores: the one running request cannot grow, and the only other entry waits for room to start
// its restore. Neither would ever give way; the runner is retracted and comes back.
func TestRunnerMakesWayForRestores(t *testing.T) {
	cfg := testConfig(2, 4, 8, 32)
	cfg.Overcommit = 0.01
	g := newGroup(t, cfg)
	run := g.nextID + 1
	g.stall(&run)
	g.add(500, 13, 16) // 4 pages, 7 at the end
	g.until("it runs", func() bool { return g.where(run) == QueueRunning })
	w := g.add(0, 16, 1)
	g.until("the prefix is in the host tier", func() bool { return g.ended(w) && g.ranks[0].NumOperations() == 0 })
	g.demote()
	r := g.add(0, 16, 1)
	g.until("the restore is admitted", func() bool { return g.where(r) == QueueTransfer })
	mark := g.usableFor(2) // the device loses two of the four pages before the restore starts
	g.usable, g.token = func(int) (int, int) { return mark, 32 }, nil
	g.until("both ends", func() bool { return g.ended(run) && g.ended(r) })
	g.wantFinish(r, FinishLength, 0)
	e, _ := g.finished(0, run)
	if g.ranks[0].Counts().Retractions == 0 || e.Finish != FinishFailed || e.Reason != abi.ReasonCapacity {
		t.Errorf("%d retractions, the runner ended as %v %v; want it retracted for the restore, and ended since 7 pages are not there", g.ranks[0].Counts().Retractions, e.Finish, e.Reason)
	}
}

// TestBlockedRestoresEnd: the device has shrunk below what a promise needs, and nothing else is there to give pages
// back. The wait ends after starve_ticks.
func TestBlockedRestoresEnd(t *testing.T) {
	cfg := testConfig(2, 4, 8, 32)
	cfg.StarveTicks = 20
	g := newGroup(t, cfg)
	g.warm(0, 24, 1)
	g.demote()
	s := g.ranks[0]
	r := g.add(0, 24, 1)
	g.until("admitted", func() bool { return g.where(r) == QueueTransfer })
	g.usable = func(int) (int, int) { return 4, 32 }
	from := g.tick
	g.until("the end", func() bool { return g.ended(r) })
	e := g.wantFinish(r, FinishFailed, abi.ReasonRestoreFailed)
	if e.tick-from < 18 || s.Books(index.L1).Quarantined != 4 {
		t.Errorf("ended after %d ticks, books %+v", e.tick-from, s.Books(index.L1))
	}
	g.usable = nil
	g.untilIdle()
}

// TestHoldLimit ends a policy's hold on a request that is ready everywhere.
func TestHoldLimit(t *testing.T) {
	for _, late := range []uint32{0, 10} {
		cfg := testConfig(2, 4, 8, 8)
		cfg.HoldTicks, cfg.Quarantine = 7, QuarantineAll(2, 1000)
		g := newGroup(t, cfg)
		g.raw = func(rank int, _ uint64, age uint32) abi.Poll {
			if rank == 1 && age < late {
				return abi.PollTransferring
			}
			return abi.PollSuccess
		}
		g.vote = func(_ int, raw abi.Poll, _ abi.RestoreStatus, _ uint64) (abi.Poll, bool) {
			return min(raw, abi.PollTransferring), false
		}
		id := g.add(0, 6, 3)
		g.until("in transfer", func() bool { return g.where(id) == QueueTransfer })
		from := g.tick + uint64(max(late, 1)) // the first ballot in which both are ready
		g.until("it is let go", func() bool { return g.where(id) != QueueTransfer })
		if got := g.tick - from; got != 7 {
			t.Errorf("rank 1 ready at age %d: held for %d ticks, want 7", late, got)
		}
		k := g.ranks[0].Counts()
		if k.Rails[HoldLimit] != 1 || g.ranks[0].Faults(abi.Gate) != 1 || g.ranks[0].Quarantined(abi.Gate) {
			t.Errorf("hold_limit %d, gate faults %d; want 1 and 1", k.Rails[HoldLimit], g.ranks[0].Faults(abi.Gate))
		}
		g.until("the end", func() bool { return g.ended(id) })
		g.wantFinish(id, FinishLength, 0)
		second := g.add(500, 6, 3)
		g.until("the end of the next", func() bool { return g.ended(second) })
		g.step()
		if !g.ranks[0].Quarantined(abi.Gate) {
			t.Error("two holds past the limit do not quarantine the gate")
		}
	}
}

// TestOverruledAdmit tells a policy's own mistake from what the tick changed after it was asked.
func TestOverruledAdmit(t *testing.T) {
	all := func(_ int, out []byte, n int) []byte {
		for i := range n {
			abi.PutAdmitOut(out[i*abi.AdmitOutStride:], &abi.AdmitOut{Order: uint32(i), Verdict: abi.VerdictAdmit})
		}
		return out
	}
	for _, c := range []struct {
		name        string
		l1, shrunk  int
		rail, stale bool
		admitAll    bool
	}{
		{"asks for more than there is", 5, 5, true, false, true},
		{"the device shrank under it", 8, 4, false, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := testConfig(2, 4, c.l1, 0)
			cfg.AdmitNative = "fifo-headroom"
			g := newGroup(t, cfg)
			if c.admitAll {
				g.admit = all
			}
			g.add(0, 9, 4)
			g.add(500, 9, 4) // 3 pages each
			g.until("the policy was shown both ready", func() bool {
				if c.admitAll {
					return true
				}
				_, n := g.ranks[0].AdmitBatch()
				return n == 2 && g.ranks[0].reqs[g.ranks[0].cand[1].req].handshake >= WaitingForInput
			})
			g.usable = func(int) (int, int) { return c.shrunk, 0 }
			g.steps(6)
			k := g.ranks[0].Counts()
			if (k.Rails[OverCapacity] > 0) != c.rail || (k.DeferredStale > 0) != c.stale || k.Overruled == 0 {
				t.Errorf("over_capacity %d, stale %d, overruled %d", k.Rails[OverCapacity], k.DeferredStale, k.Overruled)
			}
			g.usable = nil
			g.untilIdle()
		})
	}
}
