package schedule

import (
	"errors"
	"slices"
	"testing"

	"sluice/abi"
	"sluice/kvcache/index"
)

// skipLarge is an admit policy that lets smaller requests pass one that does not fit.
func skipLarge(g *group) func(int, []byte, int) []byte {
	return func(rank int, out []byte, n int) []byte {
		s := g.ranks[rank]
		left := s.budget(s.floor())
		for i := range n {
			r := &s.reqs[s.cand[i].req]
			need, growth := s.newNeed(r, s.match(r))
			v := abi.VerdictDefer
			if need+growth <= left {
				v, left = abi.VerdictAdmit, left-need-growth
			}
			abi.PutAdmitOut(out[i*abi.AdmitOutStride:], &abi.AdmitOut{Verdict: v, Order: uint32(i)})
		}
		return out
	}
}

// TestS01 aborts a request whose prefill still writes its pages: the client is told at once, the pages stay out of reach
// until the drain ack, and the late writes (which the devices play) hit nobody. Prompts end one token short of the
// scenario's, so that each request can take a step inside its pages.
func TestS01PagesStayAwayFromALateWriter(t *testing.T) {
	g := newGroup(t, testConfig(1, 4, 8, 0))
	var a uint64
	g.raw = func(_ int, id uint64, _ uint32) abi.Poll {
		if id == a {
			return abi.PollTransferring
		}
		return abi.PollSuccess
	}
	drained := false
	g.drain = func(int, uint64) bool { return drained }
	g.admit = skipLarge(g)
	a = g.nextID + 1
	g.add(0, 15, 2)
	g.until("A in transfer", func() bool { return g.where(a) == QueueTransfer })
	g.steps(2)
	g.abort(a)
	g.step()
	if e := g.wantFinish(a, FinishAborted, abi.ReasonAborted); e.tick != g.tick {
		t.Errorf("A's client is told at tick %d, want %d", e.tick, g.tick)
	}
	b, c := g.add(500, 19, 2), g.add(1000, 15, 2)
	g.steps(2)
	g.wantBooks(index.L1, "free 4 evictable 0 locked 0 private 0 saving 0 loading 0 quarantined 4")
	g.until("C to end", func() bool { return g.ended(c) })
	g.wantFinish(c, FinishLength, 0)
	g.steps(3)
	if k := g.books(index.L1); g.where(b) != QueuePrealloc || k.Quarantined != 4 {
		t.Errorf("B is %v with %d pages quarantined, want it waiting with 4", g.where(b), k.Quarantined)
	}
	drained = true
	g.step()
	if k := g.books(index.L1); k.Quarantined != 0 {
		t.Errorf("%d pages are quarantined after the ack, want 0", k.Quarantined)
	}
	g.until("B to end", func() bool { return g.ended(b) })
	g.wantFinish(b, FinishLength, 0)
	g.untilIdle()
}

// TestS02 ends a transfer in each way a bad reference shows; none of them makes a token.
func TestS02FailedReceiveIsNoSuccess(t *testing.T) {
	for _, reason := range []abi.Reason{abi.ReasonTransferFailed, abi.ReasonStaleReference, abi.ReasonCoverageDiffers, abi.ReasonStampDiffers, abi.ReasonNone} {
		t.Run(reason.String(), func(t *testing.T) {
			g := newGroup(t, testConfig(1, 4, 16, 0))
			g.raw = func(_ int, _ uint64, age uint32) abi.Poll {
				if age < 2 {
					return abi.PollTransferring
				}
				return abi.PollFailed
			}
			g.reason = func(int, uint64) abi.Reason { return reason }
			drained := false
			g.drain = func(int, uint64) bool { return drained }
			a := g.add(0, 12, 4)
			g.until("the end", func() bool { return g.ended(a) })
			want := reason
			if want == 0 {
				want = abi.ReasonUnknown
			}
			g.wantFinish(a, FinishFailed, want)
			g.steps(5)
			if k := g.books(index.L1); k.Quarantined != 3 || g.count(EffectToken, a) != 0 || g.ranks[0].Counts().Finished[FinishFailed] != 1 {
				t.Errorf("books %+v, %d tokens, want 3 pages quarantined and none", k, g.count(EffectToken, a))
			}
			drained = true
			g.untilIdle()
			g.wantBooks(index.L1, "free 16 evictable 0 locked 0 private 0 saving 0 loading 0 quarantined 0")
		})
	}
}

// TestS09 has the peer declare less than was promised to it.
func TestS09CoverageIsChecked(t *testing.T) {
	for _, c := range []struct {
		name  string
		other abi.Poll   // what rank 1 says when rank 0 knows
		why   abi.Reason // and its reason
	}{{"both know", abi.PollFailed, abi.ReasonCoverageDiffers}, {"rank 1 has no reason", abi.PollFailed, abi.ReasonUnknown}, {"rank 1 knows nothing yet", abi.PollTransferring, 0}} {
		t.Run(c.name, func(t *testing.T) {
			g := newGroup(t, testConfig(2, 4, 24, 0))
			g.warm(0, 8, 1)
			var a uint64
			g.raw = func(rank int, id uint64, age uint32) abi.Poll {
				switch {
				case id != a:
					return abi.PollSuccess
				case age < 3:
					return abi.PollTransferring
				case rank == 0:
					return abi.PollFailed
				}
				return c.other
			}
			g.reason = func(rank int, _ uint64) abi.Reason {
				if rank == 0 {
					return abi.ReasonCoverageDiffers
				}
				return c.why
			}
			drained := false
			g.drain = func(int, uint64) bool { return drained }
			a = g.nextID + 1
			g.add(0, 40, 4)
			g.until("the end", func() bool { return g.ended(a) })
			e := g.wantFinish(a, FinishFailed, abi.ReasonCoverageDiffers)
			if promise, _ := g.admitted(a); promise != 8 || e.Effect.Rank != 0 || g.count(EffectToken, a) != 0 {
				t.Errorf("promise %d, blamed rank %d, %d tokens; want 8, 0, none", promise, e.Effect.Rank, g.count(EffectToken, a))
			}
			g.wantBooks(index.L1, "free 14 evictable 0 locked 2 private 0 saving 0 loading 0 quarantined 8")
			drained = true
			g.step()
			g.wantBooks(index.L1, "free 22 evictable 2 locked 0 private 0 saving 0 loading 0 quarantined 0")
		})
	}
}

// TestS10 finishes requests over pages that the tree owns.
func TestS10OneOwnerForEachPage(t *testing.T) {
	t.Run("alone", func(t *testing.T) {
		g := newGroup(t, testConfig(1, 4, 10, 0))
		g.warm(0, 12, 6)
		g.wantBooks(index.L1, "free 6 evictable 4 locked 0 private 0 saving 0 loading 0 quarantined 0")
	})
	t.Run("the same prompt twice at once", func(t *testing.T) {
		g := newGroup(t, testConfig(2, 4, 10, 0))
		g.raw = func(_ int, _ uint64, age uint32) abi.Poll {
			if age < 3 {
				return abi.PollTransferring
			}
			return abi.PollSuccess
		}
		a, b := g.add(0, 12, 6), g.add(0, 12, 6)
		g.until("both run", func() bool { return g.where(a) == QueueRunning && g.where(b) == QueueRunning })
		if e, l1 := g.admitted(b); e != 0 || l1 != 0 {
			t.Fatalf("B was promised %d tokens: the scenario does not bite", e)
		}
		ta, tb := g.ranks[0].AppendTable(nil, a), g.ranks[0].AppendTable(nil, b)
		if !slices.Equal(ta[:3], tb[:3]) || ta[3] == tb[3] {
			t.Errorf("tables %v and %v, want the same three pages and then pages of their own", ta, tb)
		}
		if n := g.ranks[0].CacheStats().Duplicates; n != 3 {
			t.Errorf("%d duplicates were freed, want 3", n)
		}
		g.wantBooks(index.L1, "free 5 evictable 0 locked 3 private 2 saving 0 loading 0 quarantined 0")
		g.until("both end", func() bool { return g.ended(a) && g.ended(b) })
		g.untilIdle()
		g.wantBooks(index.L1, "free 5 evictable 5 locked 0 private 0 saving 0 loading 0 quarantined 0")
	})
}

// TestS20 lets rooms and numbers collide.
func TestS20CollidingIdentities(t *testing.T) {
	g := newGroup(t, testConfig(2, 4, 16, 0))
	hold, drained := true, false
	g.raw = func(_ int, id uint64, _ uint32) abi.Poll {
		if hold && id == 1 {
			return abi.PollTransferring
		}
		return abi.PollSuccess
	}
	g.drain = func(int, uint64) bool { return drained }
	first := g.addRequest(Request{Room: 7, Limit: 3, Tokens: counting(0, 5)})
	g.until("the first in transfer", func() bool { return g.where(first) == QueueTransfer })
	second := g.addRequest(Request{Room: 7, Limit: 3, Tokens: counting(500, 5)})
	g.until("the second refused", func() bool { return g.ended(second) })
	g.wantFinish(second, FinishRefused, abi.ReasonDuplicate)
	if n := g.count(EffectCancel, second); n != 0 {
		t.Error("refusing the second cancels room 7, which is the first one's")
	}
	g.abort(first)
	third := g.addRequest(Request{Room: 7, Limit: 3, Tokens: counting(500, 5)})
	g.until("the third refused", func() bool { return g.ended(third) })
	g.wantFinish(third, FinishRefused, abi.ReasonDuplicate) // the first's pages may still be written under this room
	drained, hold = true, false
	g.until("the first drained", func() bool { return g.where(first) == QueueNone })
	retry := g.addRequest(Request{Room: 7, Limit: 3, Tokens: counting(0, 5)})
	g.until("the retry ended", func() bool { return g.ended(retry) })
	g.wantFinish(retry, FinishLength, 0)
	g.untilIdle()

	g.nextID = 0 // a number given out twice is a broken sender
	g.addRequest(Request{Tokens: counting(0, 3)})
	g.tick++
	for range 2 {
		bs := g.ballots()
		reduce(bs)
		for rank, s := range g.ranks {
			var e Effects
			if err := s.Apply(bs[rank], Proposals{}, &e); err != nil && !errors.Is(err, ErrIngress) {
				t.Fatal(err)
			}
		}
	}
	for _, s := range g.ranks {
		if err := s.Apply(newBallot(s.Shape()), Proposals{}, &Effects{}); !errors.Is(err, ErrIngress) {
			t.Errorf("a scheduler whose stream broke answers %v, want the stream's error", err)
		}
	}
}

// TestS30 is what an abort touches, and how often it is told.
func TestS30AbortSemantics(t *testing.T) {
	g := newGroup(t, testConfig(2, 4, 8, 8))
	var runner uint64
	g.stall(&runner)
	runner = g.nextID + 1
	g.add(0, 29, 4) // fills the device
	g.until("the device full", func() bool { return g.where(runner) == QueueRunning })
	var ids []uint64
	for i := range 10 {
		ids = append(ids, g.add(1000*(i+1), 4, 2))
	}
	g.until("ten in prealloc", func() bool { return g.ranks[0].QueueLen(QueuePrealloc) == 10 })
	left := func() int { return g.ranks[0].QueueLen(QueuePrealloc) }
	g.abort(0)
	g.abort(1 << 62)
	g.steps(2)
	if left() != 10 {
		t.Errorf("aborting numbers that nobody has leaves %d of 10", left())
	}
	g.abort(ids[0])
	g.abort(ids[0])
	g.step()
	if g.where(ids[0]) != QueueNone || g.where(ids[9]) != QueuePrealloc || left() != 9 {
		t.Errorf("the aborted one is %v, the tenth %v", g.where(ids[0]), g.where(ids[9]))
	}
	g.wantFinish(ids[0], FinishAborted, abi.ReasonAborted)
	if n := g.count(EffectCancel, ids[0]); n != 1 {
		t.Errorf("the peer is told %d times, want once", n)
	}
	g.token = nil
	drained := false
	g.drain = func(int, uint64) bool { return drained }
	g.raw = func(_ int, id uint64, _ uint32) abi.Poll {
		if id == ids[1] {
			return abi.PollTransferring
		}
		return abi.PollSuccess
	}
	g.until("the second in transfer", func() bool { return g.where(ids[1]) == QueueTransfer })
	for range 3 {
		g.stream = AppendAbort(g.stream, ids[1]) // a disconnect comes through the stream
		g.abort(ids[1])
	}
	g.steps(5)
	g.wantFinish(ids[1], FinishAborted, abi.ReasonAborted)
	if n := g.count(EffectCancel, ids[1]); n != 1 || g.where(ids[1]) != QueueQuarantine {
		t.Errorf("the peer is told %d times, the request is %v; want once, quarantine", n, g.where(ids[1]))
	}
	drained = true
	g.untilIdle()
	for _, id := range ids[2:] {
		g.wantFinish(id, FinishLength, 0)
	}
}

// TestAbortBeforeTheRequestIsWhole aborts requests that are still on their way, and more at once than the urgent slot
// holds.
func TestAbortBeforeTheRequestIsWhole(t *testing.T) {
	cfg := testConfig(2, 4, 64, 0)
	cfg.IngressSlice = 64
	g := newGroup(t, cfg)
	long := g.add(0, 100, 2) // many slices
	next := g.add(500, 4, 2)
	g.step()
	g.abort(long)
	g.until("both ends", func() bool { return g.ended(long) && g.ended(next) })
	g.wantFinish(long, FinishAborted, abi.ReasonAborted)
	g.wantFinish(next, FinishLength, 0)
	if n := g.count(EffectSend, long); n != 0 || len(g.ranks[0].in.early) != 0 {
		t.Errorf("sent %d times, %d aborts remembered; want none", n, len(g.ranks[0].in.early))
	}

	g.nextID++
	void := g.nextID
	g.abort(void)
	g.step()
	g.stream = AppendVoid(g.stream, void)
	after := g.add(900, 4, 2)
	g.until("the next one ended", func() bool { return g.ended(after) })
	if g.ended(void) || len(g.ranks[0].in.early) != 0 {
		t.Errorf("a request that never came has an end, or %d aborts are remembered", len(g.ranks[0].in.early))
	}

	g.shake = func(int, uint64) abi.Poll { return abi.PollBootstrapping }
	var ids []uint64
	for i := range 100 {
		ids = append(ids, g.add(2000+i*10, 2, 2))
	}
	g.until("all in prealloc", func() bool { return g.ranks[0].QueueLen(QueuePrealloc) == 100 })
	for _, id := range ids {
		g.abort(id)
	}
	g.steps(100/UrgentSlots + 1)
	for _, id := range ids {
		g.wantFinish(id, FinishAborted, abi.ReasonAborted)
	}
	g.untilIdle()
}
