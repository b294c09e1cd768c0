package schedule

import (
	"slices"
	"testing"

	"sluice/abi"
	"sluice/kvcache/index"
)

// poke changes every rank's state alike between two ticks and carries the effects out.
func (g *group) poke(f func(s *Scheduler, e *Effects)) {
	g.t.Helper()
	for rank, s := range g.ranks {
		e := &g.effects[rank]
		e.Reset()
		f(s, e)
		s.prepareNext()
		if err := g.devices[rank].take(e); err != nil {
			g.t.Fatal(err)
		}
		for _, x := range e.List {
			g.events[rank] = append(g.events[rank], event{g.tick, x})
		}
	}
}

// retract takes a running request off the device of every rank.
func (g *group) retract(id uint64) {
	g.t.Helper()
	g.poke(func(s *Scheduler, e *Effects) {
		i := s.byID[id]
		s.running, s.step = remove(s.running, i), remove(s.step, i)
		s.retract(i, e)
	})
}

// admitted returns what a request was promised, in tokens.
func (g *group) admitted(id uint64) (promise, l1 int) {
	for _, e := range g.events[0] {
		if e.Kind == EffectAdmitted && e.Request == id {
			return int(e.Promise), int(e.L1)
		}
	}
	g.t.Fatalf("request %d was not admitted", id)
	return 0, 0
}

func (g *group) count(kind EffectKind, id uint64) (n int) {
	for _, e := range g.events[0] {
		if e.Kind == kind && e.Request == id {
			n++
		}
	}
	return n
}

func (g *group) match(prompt []uint32) index.Match {
	s := g.ranks[0]
	return s.x.Match(s.x.Space(Space("default", "m", "l")), prompt)
}

func (g *group) ended(id uint64) bool {
	_, ok := g.finished(0, id)
	return ok
}

func (g *group) untilIdle() {
	g.t.Helper()
	g.steps(2)
	g.until("the group to be idle", g.idle)
}

// TestS03 is a restore of three pages of which the last cannot be copied: two are good, the request fails before any
// token, and the host copy stays.
func TestS03FailedLoadIsNotLoaded(t *testing.T) {
	g := newGroup(t, testConfig(1, 4, 8, 8))
	g.warm(0, 12, 2)
	g.demote()
	g.load = func(_ int, op OperationView, _ bool) (bool, int, bool) {
		if op.Kind == OperationLoad {
			return true, 2, false
		}
		return true, op.Pages, false
	}
	before := g.ranks[0].Counts()
	a := g.add(0, 12, 2)
	g.until("the end", func() bool { return g.ended(a) })
	g.wantFinish(a, FinishFailed, abi.ReasonRestoreFailed)
	c := g.ranks[0].Counts()
	if n := c.LoadPages - before.LoadPages; n != 2 || c.RestoresFailed != 1 || g.count(EffectToken, a) != 0 {
		t.Errorf("pages loaded %d, restores failed %d, tokens %d; want 2, 1, 0", n, c.RestoresFailed, g.count(EffectToken, a))
	}
	g.untilIdle()
	if m := g.match(counting(0, 12)); m.L1 != 2 || m.Pages != 3 {
		t.Errorf("%d pages match on the device, %d in all; want 2 and 3: the host copy stays", m.L1, m.Pages)
	}
	g.wantBooks(index.L1, "free 6 evictable 2 locked 0 private 0 saving 0 loading 0 quarantined 0")
	g.load = nil
	b := g.add(0, 12, 2)
	g.until("the next request to end", func() bool { return g.ended(b) })
	g.wantFinish(b, FinishLength, 0)
}

// TestS07 has a second request join a load that then falls short. It sees no device hit before the outcome, shares what
// was good, and has the rest issued once more.
func TestS07PrefixIsNotPublishedBeforeItsLoad(t *testing.T) {
	for _, c := range []struct {
		name  string
		again bool // the second try is good
	}{{"second try good", true}, {"second try fails", false}} {
		t.Run(c.name, func(t *testing.T) {
			g := newGroup(t, testConfig(1, 4, 12, 12))
			g.warm(0, 24, 1)
			g.demote()
			ended, loads := false, 0
			g.load = func(_ int, op OperationView, first bool) (bool, int, bool) {
				if op.Kind != OperationLoad {
					return true, op.Pages, false
				}
				if first {
					loads++
				}
				switch {
				case loads == 1 && ended:
					return true, 4, false
				case loads == 2 && c.again:
					return true, op.Pages, false
				case loads == 2:
					return true, 0, false
				}
				return false, 0, false
			}
			a := g.add(0, 25, 2)
			g.until("the load of A", func() bool { return g.ranks[0].NumOperations() == 1 })
			b := g.add(0, 26, 2)
			g.until("B in transfer", func() bool { return g.where(b) == QueueTransfer })
			g.steps(3)
			if promise, l1 := g.admitted(b); promise != 24 || l1 != 0 {
				t.Errorf("B was promised %d tokens, %d of them on the device; want 24 and 0", promise, l1)
			}
			if g.where(b) != QueueTransfer || g.ranks[0].NumOperations() != 1 {
				t.Errorf("B is %v with %d loads, want in transfer on A's one load", g.where(b), g.ranks[0].NumOperations())
			}
			ended = true
			g.step()
			if m := g.match(counting(0, 24)); m.L1 != 4 {
				t.Errorf("%d pages match on the device after the outcome, want 4", m.L1)
			}
			g.until("both ends", func() bool { return g.ended(a) && g.ended(b) })
			g.wantFinish(a, FinishFailed, abi.ReasonRestoreFailed)
			if c.again {
				g.wantFinish(b, FinishLength, 0)
			} else {
				g.wantFinish(b, FinishFailed, abi.ReasonRestoreFailed)
			}
			g.untilIdle()
			if loads != 2 {
				t.Errorf("%d loads were issued, want 2", loads)
			}
			if k := g.books(index.L1); k.Free+k.Evictable != 12 || k.Evictable != map[bool]int{true: 6, false: 4}[c.again] {
				t.Errorf("books %+v, want all 12 free or evictable", k)
			}
		})
	}
}

// TestS13 is the seed: a restore fails on one rank only. Nobody moves before every rank's transport is terminal; then
// all ranks retire the request in one tick.
func TestS13RankLocalDecisionAfterACollective(t *testing.T) {
	for _, c := range []struct {
		name    string
		fails   []int  // ranks whose load fails
		done    [2]int // age at which each rank's transport is done
		loadEnd uint32 // age before which no load ends
	}{
		{"fails on rank 1", []int{1}, [2]int{4, 4}, 1},
		{"fails on rank 0", []int{0}, [2]int{4, 4}, 1},
		{"fails on both", []int{0, 1}, [2]int{4, 4}, 1},
		{"rank 1 is done later", []int{1}, [2]int{4, 6}, 1},
		{"rank 0 is done later", []int{1}, [2]int{6, 4}, 1},
		{"pending when done", []int{1}, [2]int{4, 4}, 7},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGroup(t, testConfig(2, 4, 12, 12))
			g.warm(0, 8, 1)
			g.demote()
			age, target := uint32(0), uint64(0)
			g.load = func(rank int, op OperationView, _ bool) (bool, int, bool) {
				if op.Kind == OperationLoad && g.ranks[rank].Transfer(0).Age < c.loadEnd {
					return false, 0, false
				}
				if op.Kind == OperationLoad && slices.Contains(c.fails, rank) {
					return true, 0, false
				}
				return true, op.Pages, false
			}
			g.raw = func(rank int, id uint64, a uint32) abi.Poll {
				if id == target {
					age = a
				}
				if id == target && int(a) < c.done[rank] {
					return abi.PollTransferring
				}
				return abi.PollSuccess
			}
			a := g.add(0, 16, 3)
			b := g.add(500, 8, 3)
			target = a
			g.until("A's restore set aside", func() bool { return g.where(a) == QueueTransfer && g.ranks[0].Transfer(0).SetAside })
			terminal := uint32(max(c.done[0], c.done[1], int(c.loadEnd)))
			for !g.ended(a) {
				if g.books(index.L1).Loading != 2 {
					t.Fatalf("tick %d: %d pages are set aside while A is unresolved, want 2", g.tick, g.books(index.L1).Loading)
				}
				g.step()
				if g.ranks[0].QueueLen(QueueTransfer) != g.ranks[1].QueueLen(QueueTransfer) {
					t.Fatal("the ranks' queues differ in length")
				}
				if age < terminal && g.ended(a) {
					t.Fatalf("A ends at age %d, before every rank is terminal at %d", age, terminal)
				}
			}
			if age != terminal {
				t.Errorf("A ends at age %d, want %d: the tick in which all are terminal", age, terminal)
			}
			for rank := range 2 {
				want := Success
				if slices.Contains(c.fails, rank) {
					want = RestoreFailed
				}
				// A load that ended earlier is agreed to have failed; then both ranks say so.
				if got := g.lastVotes[rank][a]; got != want && got != RestoreFailed {
					t.Errorf("rank %d voted %v at the end, want %v", rank, got, want)
				}
			}
			g.wantFinish(a, FinishFailed, abi.ReasonRestoreFailed)
			if n := g.count(EffectToken, a); n != 0 {
				t.Errorf("A made %d tokens", n)
			}
			g.until("B to end", func() bool { return g.ended(b) })
			g.wantFinish(b, FinishLength, 0)
			g.untilIdle()
			if k := g.books(index.L1); k.Free+k.Evictable != 12 {
				t.Errorf("books %+v, want 12 pages free or evictable", k)
			}
		})
	}
}

// TestS38 has a load that cannot start on one rank. It keeps its place in the order, so the acks of later loads end
// what they are about.
func TestS38OperationThatNeverStarted(t *testing.T) {
	for _, c := range []struct {
		name  string
		rank  int
		order [3]int // which of the requests comes when; 0 is the one whose load cannot start
	}{{"on rank 1", 1, [3]int{0, 1, 2}}, {"on rank 0", 0, [3]int{0, 1, 2}}, {"last in order", 1, [3]int{1, 2, 0}}} {
		t.Run(c.name, func(t *testing.T) {
			g := newGroup(t, testConfig(2, 4, 16, 16))
			for i := range 3 {
				g.warm(1000*i, 8, 1)
			}
			g.demote()
			var bad uint64 // the operation that never started
			at := map[uint64]uint64{}
			g.load = func(rank int, op OperationView, _ bool) (bool, int, bool) {
				if op.Kind != OperationLoad {
					return true, op.Pages, false
				}
				if op.ID == bad && rank == c.rank {
					return true, 0, false
				}
				return at[op.ID] > 0 && g.tick >= at[op.ID], op.Pages, false
			}
			var ids [3]uint64
			var ops []uint64
			for _, n := range c.order {
				ids[n] = g.add(1000*n, 8, 2)
				g.until("its load", func() bool {
					s := g.ranks[0]
					k := s.NumOperations()
					return k > 0 && !slices.Contains(ops, s.Operation(k-1).ID)
				})
				s := g.ranks[0]
				op := s.Operation(s.NumOperations() - 1).ID
				ops = append(ops, op)
				if n == 0 {
					bad = op
				}
			}
			for k, op := range ops {
				at[op] = g.tick + 2 + uint64(2*k)
			}
			g.until("the ends", func() bool {
				a, b := g.ranks[0], g.ranks[1]
				for i := range a.NumOperations() {
					if a.Operation(i) != b.Operation(i) {
						t.Fatalf("tick %d: operation %d is %+v and %+v", g.tick, i, a.Operation(i), b.Operation(i))
					}
				}
				if a.room(OperationLoad) != b.room(OperationLoad) {
					t.Fatalf("tick %d: room for loads differs", g.tick)
				}
				return g.ended(ids[0]) && g.ended(ids[1]) && g.ended(ids[2])
			})
			failed := g.wantFinish(ids[0], FinishFailed, abi.ReasonRestoreFailed)
			for n := 1; n < 3; n++ {
				e := g.wantFinish(ids[n], FinishLength, 0)
				k := slices.Index(c.order[:], n)
				if e.tick < at[ops[k]] {
					t.Errorf("request %d ended at tick %d, before its own load's ack at %d", n, e.tick, at[ops[k]])
				}
			}
			if want := at[bad]; failed.tick != want {
				t.Errorf("A failed at tick %d, want %d: when its load has ended everywhere", failed.tick, want)
			}
			g.untilIdle()
			for rank, s := range g.ranks {
				if st := s.CacheStats(); st.Locks != 0 || st.Ops != 0 || s.room(OperationLoad) != s.cfg.Operations {
					t.Errorf("rank %d is idle with %d locks and %d operations", rank, st.Locks, st.Ops)
				}
			}
		})
	}
}
