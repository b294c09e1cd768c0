package schedule

import (
	"testing"

	"sluice/abi"
	"sluice/kvcache/index"
)

// failLoads makes every load fall short at once with nothing good, while on is true.
func (g *group) failLoads(on *bool) {
	g.load = func(_ int, op OperationView, _ bool) (bool, int, bool) {
		if op.Kind == OperationLoad && *on {
			return true, 0, false
		}
		return true, op.Pages, false
	}
}

// TestPartOfARestIsWanted has a request want the upper half of what a failed load left behind: the half is found as part
// of that rest, and the whole is loaded once more.
func TestPartOfARestIsWanted(t *testing.T) {
	g := newGroup(t, testConfig(2, 4, 16, 16))
	g.warm(0, 16, 1)
	g.demote()
	fail, hold := true, true
	g.failLoads(&fail)
	g.raw = func(int, uint64, uint32) abi.Poll {
		if hold {
			return abi.PollTransferring
		}
		return abi.PollSuccess
	}
	a := g.add(0, 16, 2)
	g.until("A's load failed", func() bool { return g.ranks[0].NumTransfer() == 1 && g.ranks[0].Transfer(0).RestoreFailed })
	fail = false
	c := g.add(0, 9, 2)
	g.until("C has its two pages", func() bool {
		return g.ranks[0].NumTransfer() == 2 && g.ranks[0].Transfer(1).SetAside && g.ranks[0].Transfer(1).Pending == 0
	})
	if m := g.match(counting(0, 16)); m.L1 != 4 {
		t.Errorf("%d pages are on the device, want all 4", m.L1)
	}
	hold = false
	g.until("both ends", func() bool { return g.ended(a) && g.ended(c) })
	g.wantFinish(a, FinishFailed, abi.ReasonRestoreFailed)
	g.wantFinish(c, FinishLength, 0)
	g.untilIdle()
}

// TestFloorHoldsWhateverTheLanesSay: half of a promise is not set aside yet, and the budget lane claims that nothing is
// held back. A request that would eat into the promise waits.
func TestFloorHoldsWhateverTheLanesSay(t *testing.T) {
	cfg := testConfig(2, 4, 8, 16)
	cfg.Operations = 1
	g := newGroup(t, cfg)
	g.warm(0, 8, 1)
	g.warm(0, 16, 1)
	g.demote()
	g.load = func(int, OperationView, bool) (bool, int, bool) { return false, 0, false }
	a := g.add(0, 16, 1)
	g.until("half of it set aside", func() bool { return g.where(a) == QueueTransfer && g.books(index.L1).Loading == 2 })
	g.tap = func(b *Ballot, _ Proposals) { b.U64[g.ranks[0].lay.scalar(laneBudget)] = 8 }
	b := g.add(500, 20, 1) // 5 pages of 6, 2 of which are promised
	g.until("in prealloc", func() bool { return g.where(b) == QueuePrealloc })
	g.steps(4)
	if g.where(b) != QueuePrealloc {
		t.Errorf("B is %v: it took pages that are promised to A", g.where(b))
	}
	g.load = nil
	g.until("both ends", func() bool { return g.ended(a) && g.ended(b) })
	g.wantFinish(a, FinishLength, 0)
	g.wantFinish(b, FinishLength, 0)
}

// TestRetractedComeFirst: whatever order a policy gives, a new request takes nothing that a retracted one needs.
func TestRetractedComeFirst(t *testing.T) {
	g := newGroup(t, testConfig(2, 4, 8, 16))
	var run, d uint64
	g.stall(&run, &d)
	run = g.nextID + 1
	d = run + 1
	g.add(500, 13, 4) // 4 pages to the end
	g.add(900, 9, 4)  // 3 pages
	g.until("both run", func() bool { return g.where(d) == QueueRunning })
	g.retract(d)
	deferRetracted := true
	g.admit = func(_ int, out []byte, n int) []byte {
		for i := range n {
			v := abi.VerdictAdmit
			if deferRetracted && i == 0 {
				v = abi.VerdictDefer
			}
			abi.PutAdmitOut(out[i*abi.AdmitOutStride:], &abi.AdmitOut{Order: uint32(n - 1 - i), Verdict: v})
		}
		return out
	}
	b := g.add(2000, 7, 2) // 2 pages of 4 that are free
	g.until("in prealloc", func() bool { return g.where(b) == QueuePrealloc })
	g.steps(4)
	if g.where(b) != QueuePrealloc || g.where(d) != QueueRetracted {
		t.Errorf("B is %v, D %v; want B waiting for D", g.where(b), g.where(d))
	}
	deferRetracted, g.token, g.admit = false, nil, nil
	g.until("the ends", func() bool { return g.ended(run) && g.ended(d) && g.ended(b) })
	g.untilIdle()
}

// TestSavedPagesAreBooked looks at the books while a retracted request's pages are copied out and back.
func TestSavedPagesAreBooked(t *testing.T) {
	g := newGroup(t, testConfig(2, 4, 8, 8))
	var run uint64
	g.stall(&run)
	run = g.nextID + 1
	g.add(0, 10, 3) // 2 published pages, 1 private
	g.until("it runs", func() bool { return g.where(run) == QueueRunning && g.ranks[0].NumOperations() == 0 })
	wait := true
	g.load = func(_ int, op OperationView, _ bool) (bool, int, bool) { return !wait, op.Pages, false }
	g.retract(run)
	g.steps(2)
	g.wantBooks(index.L1, "free 5 evictable 0 locked 2 private 0 saving 1 loading 0 quarantined 0")
	g.wantBooks(index.L2, "free 3 evictable 0 locked 2 private 0 saving 0 loading 3 quarantined 0")
	wait = false
	g.step() // saved, and resumed in the same tick
	wait = true
	g.steps(2)
	g.wantBooks(index.L1, "free 3 evictable 2 locked 0 private 0 saving 0 loading 3 quarantined 0")
	g.wantBooks(index.L2, "free 3 evictable 0 locked 2 private 3 saving 0 loading 0 quarantined 0")
	wait, g.token = false, nil
	g.until("the end", func() bool { return g.ended(run) })
	g.wantFinish(run, FinishLength, 0)
	g.untilIdle()
}

// TestAbortOfANumberThatNeverComes forgets it when a later number arrives.
func TestAbortOfANumberThatNeverComes(t *testing.T) {
	g := newGroup(t, testConfig(1, 4, 8, 0))
	g.abort(g.nextID + 1)
	g.step()
	if n := len(g.ranks[0].in.early); n != 1 {
		t.Fatalf("%d aborts are remembered, want 1", n)
	}
	g.nextID++
	id := g.add(0, 4, 1)
	g.until("the end", func() bool { return g.ended(id) })
	if n := len(g.ranks[0].in.early); n != 0 {
		t.Errorf("%d aborts are remembered, want 0", n)
	}
}

// TestFailuresAreCountedPerCopy lets a new node take the id of one whose loads failed: it starts from zero.
func TestFailuresAreCountedPerCopy(t *testing.T) {
	cfg := testConfig(1, 4, 16, 16)
	cfg.LoadFailures = 2
	g := newGroup(t, cfg)
	fail := true
	g.failLoads(&fail)
	nodes := map[index.NodeID]bool{}
	for _, base := range []int{0, 500} {
		g.warm(base, 8, 1)
		g.demote()
		nodes[g.match(counting(base, 8)).Node] = true
		id := g.add(base, 9, 2)
		g.until("the end", func() bool { return g.ended(id) })
		g.untilIdle()
		if m := g.match(counting(base, 8)); m.Pages != 2 {
			t.Errorf("base %d: %d pages match after one failure, want 2", base, m.Pages)
		}
		g.poke(func(s *Scheduler, _ *Effects) { s.x.DropUnlocked() })
	}
	if len(nodes) != 1 {
		t.Fatal("the second prefix has another node id: the scenario does not bite")
	}
}

// TestHostTierTurnedOff runs without L2: nothing is written through, and nothing counts as refused.
func TestHostTierTurnedOff(t *testing.T) {
	g := newGroup(t, testConfig(1, 4, 8, 0))
	g.warm(0, 16, 4)
	if c := g.ranks[0].Counts(); c.BackupsRefused != 0 || c.BackupPages != 0 || g.books(index.L1).Evictable != 4 {
		t.Errorf("%d pages refused, %d written through, books %+v", c.BackupsRefused, c.BackupPages, g.books(index.L1))
	}
}

// TestFullHostTier counts what finds no room there, and evicts what is only there.
func TestFullHostTier(t *testing.T) {
	g := newGroup(t, testConfig(1, 4, 16, 4))
	g.warm(0, 16, 1)
	g.warm(500, 8, 1) // the host tier is full of copies that the device still has
	c := g.ranks[0].Counts()
	if c.BackupsRefused != 2 || c.BackupPages != 4 {
		t.Errorf("%d pages refused, %d written through; want 2 and 4", c.BackupsRefused, c.BackupPages)
	}
	g.demote()
	g.warm(900, 8, 1)
	if c := g.ranks[0].Counts(); c.BackupPages != 6 || c.BackupsRefused != 2 {
		t.Errorf("%d pages refused, %d written through; want 2 and 6: host-only pages make room", c.BackupsRefused, c.BackupPages)
	}
}
