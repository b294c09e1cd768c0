package schedule

import (
	"fmt"
	"testing"

	"sluice/abi"
)

// TestRestoreFailureWaitsForOtherCopies fails one of a request's two loads early: its pages are quiescent only when the
// other copy has ended too.
func TestRestoreFailureWaitsForOtherCopies(t *testing.T) {
	g := newGroup(t, testConfig(2, 4, 16, 16))
	g.warm(0, 8, 1)
	g.warm(0, 16, 1) // a second node below the first
	g.demote()
	loads, second := 0, false
	kinds := map[uint64]int{}
	g.load = func(rank int, op OperationView, first bool) (bool, int, bool) {
		if op.Kind != OperationLoad {
			return true, op.Pages, false
		}
		if _, ok := kinds[op.ID]; !ok {
			loads++
			kinds[op.ID] = loads
		}
		if kinds[op.ID] == 1 {
			return true, 0, false
		}
		return second, op.Pages, false
	}
	a := g.add(0, 16, 3)
	g.until("both loads", func() bool { return loads == 2 })
	g.steps(4)
	if g.ended(a) {
		t.Fatal("A ended while a copy into its pages was still running")
	}
	if !g.ranks[0].Transfer(0).RestoreFailed {
		t.Error("the first load's failure is not agreed")
	}
	second = true
	g.step()
	g.wantFinish(a, FinishFailed, abi.ReasonRestoreFailed)
	g.untilIdle()
}

// TestBadBytesDropTheCopiesFromTheBadPageOn splits a loading node, has the load fail with bad bytes in its upper half, and looks which copies
// are dropped: those from the first bad page on, in both halves.
func TestBadBytesDropTheCopiesFromTheBadPageOn(t *testing.T) {
	for good := range 4 {
		t.Run(fmt.Sprintf("%d good", good), func(t *testing.T) {
			g := newGroup(t, testConfig(2, 4, 16, 16))
			g.warm(0, 16, 1)
			g.demote()
			release := false
			g.load = func(rank int, op OperationView, _ bool) (bool, int, bool) {
				if op.Kind != OperationLoad {
					return true, op.Pages, false
				}
				if rank == 1 {
					return release, good, true
				}
				return release, op.Pages, false
			}
			a := g.add(0, 16, 2)
			g.until("the load", func() bool { return g.ranks[0].NumOperations() == 1 })
			b := g.add(0, 8, 2) // pins half of the loading node, which splits it
			g.until("B in transfer", func() bool { return g.where(b) == QueueTransfer })
			g.steps(2)
			release = true
			g.until("both ends", func() bool { return g.ended(a) && g.ended(b) })
			g.wantFinish(a, FinishFailed, abi.ReasonRestoreFailed)
			g.load = nil
			g.untilIdle()
			if m := g.match(counting(0, 16)); m.Pages != good {
				t.Errorf("%d pages still match, want %d: bad copies must not serve the next request", m.Pages, good)
			}
			if n := g.ranks[0].Counts().DroppedCopies; n != 1 {
				t.Errorf("copies dropped %d times, want 1", n)
			}
		})
	}
}

// TestTwoRestsAreKeptApart leaves two failed loads behind at once and has a third request want the second of them.
func TestTwoRestsAreKeptApart(t *testing.T) {
	g := newGroup(t, testConfig(1, 4, 24, 24))
	g.warm(0, 8, 1)
	g.warm(500, 8, 1)
	g.demote()
	fail := true
	g.load = func(_ int, op OperationView, _ bool) (bool, int, bool) {
		if op.Kind == OperationLoad && fail {
			return true, 0, false
		}
		return true, op.Pages, false
	}
	hold := true
	g.raw = func(_ int, id uint64, _ uint32) abi.Poll {
		if hold {
			return abi.PollTransferring
		}
		return abi.PollSuccess
	}
	a, b := g.add(0, 9, 2), g.add(500, 9, 2)
	g.until("both failed", func() bool {
		return g.ranks[0].NumTransfer() == 2 && g.ranks[0].Transfer(0).RestoreFailed && g.ranks[0].Transfer(1).RestoreFailed
	})
	fail = false
	c := g.add(500, 10, 2)
	g.until("C has its restore", func() bool {
		return g.ranks[0].NumTransfer() == 3 && g.ranks[0].Transfer(2).SetAside && g.ranks[0].Transfer(2).Pending == 0
	})
	if m := g.match(counting(500, 8)); m.L1 != 2 {
		t.Errorf("%d pages of C's prefix are on the device, want 2", m.L1)
	}
	hold = false
	g.until("the ends", func() bool { return g.ended(a) && g.ended(b) && g.ended(c) })
	g.wantFinish(a, FinishFailed, abi.ReasonRestoreFailed)
	g.wantFinish(b, FinishFailed, abi.ReasonRestoreFailed)
	g.wantFinish(c, FinishLength, 0)
	g.untilIdle()
}

// TestLongPathRestoresThroughFewOperations restores a path of more nodes than loads may be outstanding.
func TestLongPathRestoresThroughFewOperations(t *testing.T) {
	cfg := testConfig(2, 4, 24, 24)
	cfg.Operations = 2
	g := newGroup(t, cfg)
	for pages := 1; pages <= 6; pages++ {
		g.warm(0, 4*pages, 1)
	}
	g.demote()
	seen := 0
	g.load = func(_ int, op OperationView, first bool) (bool, int, bool) {
		seen = max(seen, g.ranks[0].NumOperations())
		return !first, op.Pages, false
	}
	a := g.add(0, 24, 2)
	g.until("the end", func() bool { return g.ended(a) })
	g.wantFinish(a, FinishLength, 0)
	g.load = nil
	g.untilIdle()
	if c := g.ranks[0].Counts(); c.Restores != 6 || c.LoadPages != 6 || seen > 2 {
		t.Errorf("%d loads of %d pages, at most %d at once; want 6, 6, at most 2", c.Restores, c.LoadPages, seen)
	}
}

// TestCopiesThatNeverRunAreDropped counts failures on one copy, across requests, and starts again after a good load.
func TestCopiesThatNeverRunAreDropped(t *testing.T) {
	cfg := testConfig(1, 4, 16, 16)
	cfg.LoadFailures = 3
	g := newGroup(t, cfg)
	g.warm(0, 8, 1)
	good := false
	g.load = func(_ int, op OperationView, _ bool) (bool, int, bool) {
		if op.Kind == OperationLoad && !good {
			return true, 0, false
		}
		return true, op.Pages, false
	}
	try := func(want FinishKind) {
		t.Helper()
		g.demote()
		id := g.add(0, 9, 2)
		g.until("the end", func() bool { return g.ended(id) })
		if e, _ := g.finished(0, id); e.Finish != want {
			t.Fatalf("request %d ended as %v, want %v", id, e.Finish, want)
		}
		g.untilIdle()
	}
	try(FinishFailed)
	try(FinishFailed)
	good = true
	try(FinishLength)
	good = false
	for n := range 3 {
		if m := g.match(counting(0, 8)); m.Pages != 2 {
			t.Fatalf("after %d failures in a row %d pages match, want 2", n, m.Pages)
		}
		try(FinishFailed)
	}
	if m := g.match(counting(0, 8)); m.Pages != 0 || g.ranks[0].Counts().DroppedCopies != 1 {
		t.Errorf("after 3 failures in a row %d pages match and %d copies were dropped, want 0 and 1", m.Pages, g.ranks[0].Counts().DroppedCopies)
	}
}
