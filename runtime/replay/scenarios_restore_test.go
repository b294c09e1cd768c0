package replay

import (
	"slices"
	"testing"
	"time"

	"sluice/abi"
	"sluice/collective"
	"sluice/gpu"
	"sluice/gpu/host"
	"sluice/kvcache/index"
	"sluice/runtime/rank"
	"sluice/runtime/schedule"
	"sluice/runtime/transfer"
)

// TestS03 has the last of three copies back to the device fail, into pages that another request's KV still fills.
func TestS03FailedLoadIsNotLoaded(t *testing.T) {
	s := newSim(t, simConfig(1, 4, 8, 24))
	s.warm(0, 12)
	s.demote()
	s.warm(5000, 32) // Z fills the whole device
	s.demote()
	before := s.stores[0].Counters()
	s.inject(0, host.Fault{Kind: host.Load, Page: 2, Err: errCopy})
	a := s.add(0, 12, 2)
	s.until("the end", s.done(a))
	s.wantEnd(a, schedule.FinishFailed, abi.ReasonRestoreFailed)
	s.wantTokens(a, 0)
	s.untilIdle()
	after := s.stores[0].Counters()
	if n, f := after.LoadBackTokens-before.LoadBackTokens, after.FailedLoads-before.FailedLoads; n != 8 || f != 1 {
		t.Errorf("%d tokens were loaded and %d loads failed, want 8 and 1", n, f)
	}
	s.wantBooks(index.Books{Free: 6, Evictable: 2})
	b := s.add(0, 12, 2)
	s.until("the next request", s.done(b))
	if o := s.Outcome(b); o.Promise != 12 || o.L1 != 8 {
		t.Errorf("the next is promised %d tokens, %d on the device; want 12 and 8: the host copy stays", o.Promise, o.L1)
	}
	s.wantEnd(b, schedule.FinishLength, abi.ReasonNone)
	s.wantTokens(b, 2)
	s.untilIdle()
}

// TestS07 has B join A's load, of which the last two of six pages fail.
func TestS07PrefixIsNotPublishedBeforeItsLoad(t *testing.T) {
	s := newSim(t, simConfig(1, 4, 12, 12))
	s.warm(0, 24)
	s.demote()
	s.inject(0, host.Fault{Kind: host.Load, Page: 4, Err: errCopy, DelayTicks: 12})
	a := s.add(0, 25, 2)
	s.until("A's load", func() bool { return s.stores[0].Outstanding() > 0 })
	b := s.add(0, 26, 2)
	s.until("B in transfer", s.in(schedule.QueueTransfer, b))
	if o := s.Outcome(b); o.Promise != 24 || o.L1 != 0 {
		t.Errorf("B is promised %d tokens, %d on the device; want 24 and 0: nothing is loaded yet", o.Promise, o.L1)
	}
	if s.stores[0].Outstanding() != 1 {
		t.Errorf("%d loads are out, want the one that both wait for", s.stores[0].Outstanding())
	}
	s.until("both ends", s.done(a, b))
	s.wantEnd(a, schedule.FinishFailed, abi.ReasonRestoreFailed)
	s.wantEnd(b, schedule.FinishLength, abi.ReasonNone)
	s.wantTokens(b, 2)
	s.untilIdle()
	if n := s.loaded(0); n != 24 {
		t.Errorf("%d tokens were loaded, want 24: four pages shared, two once more", n)
	}
	s.wantBooks(index.Books{Free: 6, Evictable: 6})
}

// TestS13 is the seed of it all, on real pages: a load back fails on one rank only. Nobody moves before every rank's
// transport is terminal; then both ranks retire A in the same tick, and B goes on.
func TestS13RankLocalDecisionAfterACollective(t *testing.T) {
	for _, c := range []struct {
		name  string
		fails []int  // ranks whose load fails
		done  [2]int // ticks each rank's suffix takes
		load  int    // ticks more that the failing loads take
		gate  string // the default where empty
	}{
		{name: "fails on rank 1", fails: []int{1}, done: [2]int{6, 6}},
		{name: "fails on rank 0", fails: []int{0}, done: [2]int{6, 6}},
		{name: "fails on both", fails: []int{0, 1}, done: [2]int{6, 6}},
		{name: "rank 1 is done later", fails: []int{1}, done: [2]int{6, 12}},
		{name: "rank 0 is done later", fails: []int{1}, done: [2]int{12, 6}},
		{name: "pending when done", fails: []int{1}, done: [2]int{4, 4}, load: 14},
		{name: "pending when one is done", fails: []int{1}, done: [2]int{4, 20}, load: 10},
		{name: "the gate of before the fix", fails: []int{1}, done: [2]int{4, 9}, load: 5, gate: "pending-only"},
		{name: "no gate", fails: []int{1}, done: [2]int{4, 9}, load: 5, gate: "ungated"},
	} {
		for _, staged := range []bool{false, true} {
			name := c.name + "/direct"
			if staged {
				name = c.name + "/staged"
			}
			t.Run(name, func(t *testing.T) {
				cfg := simConfig(2, 4, 12, 24)
				if staged {
					cfg.PrefillShards, cfg.RingPages = 1, 8
				}
				if c.gate != "" {
					cfg.Hooks = natives(c.gate, "until-retired", "greedy")
				}
				var s *sim
				var last [2]schedule.Value
				cfg.Edit = func(k *rank.Rank, own, _ *collective.Vector) {
					if s != nil && k.Schedule().NumTransfer() > 0 {
						last[slices.Index(s.ranks, k)] = lane(k, own, 0)
					}
				}
				s = newSim(t, cfg)
				s.warm(0, 8)
				s.demote()
				a := s.nextID + 1
				s.script.chunk = func(k transfer.Key, _ int) transfer.Chunk {
					if k.Room == roomOf(a) {
						return transfer.Chunk{At: time.Duration(c.done[k.Rank]) * tick}
					}
					return transfer.Chunk{}
				}
				for _, r := range c.fails {
					s.inject(r, host.Fault{Kind: host.Load, Err: errCopy, DelayTicks: c.load})
				}
				s.add(0, 16, 3)
				b := s.add(500, 8, 3)
				s.until("A's restore", func() bool { return s.in(schedule.QueueTransfer, a)() && s.Books(index.L1).Loading == 2 })
				for !s.Outcome(a).Done() {
					if n := s.Books(index.L1).Loading; n != 2 {
						t.Fatalf("tick %d: %d pages are set aside while A is unresolved, want 2", s.tick, n)
					}
					s.step()
				}
				for r := range 2 {
					// Raw is what the ballot of the tick in which A ended was made from.
					if raw, ok := s.Raw(r, a); !ok || raw != abi.PollSuccess {
						t.Errorf("A ended while rank %d's raw poll was %v: its peer may still write", r, raw)
					}
				}
				if m := min(last[0], last[1]); m != schedule.RestoreFailed {
					t.Errorf("the ranks voted %v and %v, want a MIN of RestoreFailed", last[0], last[1])
				}
				s.wantEnd(a, schedule.FinishFailed, abi.ReasonRestoreFailed)
				s.wantTokens(a, 0)
				s.until("B", s.done(b))
				s.wantEnd(b, schedule.FinishLength, abi.ReasonNone)
				s.wantTokens(b, 3)
				s.untilIdle()
			})
		}
	}
}

// TestS38 has a load that never starts on one rank take its place in the order of acks all the same.
func TestS38OperationThatNeverStarted(t *testing.T) {
	for _, order := range [][3]int{{0, 1, 2}, {1, 2, 0}} {
		for failing := range 2 {
			s := newSim(t, simConfig(2, 4, 16, 40))
			for i := range 3 {
				s.warm(1000*i, 8)
			}
			s.demote()
			var ids [3]uint64
			for _, n := range order {
				if n == 0 {
					s.inject(failing, host.Fault{Kind: host.Load, Err: gpu.ErrNoMemory, DelayTicks: 3})
				} else {
					for r := range 2 {
						s.inject(r, host.Fault{Kind: host.Load, DelayTicks: 10})
					}
				}
				ids[n] = s.add(1000*n, 8, 2)
				s.until("its load", s.in(schedule.QueueTransfer, ids[n]))
			}
			s.until("the ends", s.done(ids[:]...))
			s.wantEnd(ids[0], schedule.FinishFailed, abi.ReasonRestoreFailed)
			for _, id := range ids[1:] {
				s.wantEnd(id, schedule.FinishLength, abi.ReasonNone)
				s.wantTokens(id, 2)
			}
			s.untilIdle()
			for r, k := range s.ranks {
				if n := k.Schedule().NumOperations(); n != 0 || s.stores[r].Outstanding() != 0 {
					t.Errorf("order %v, failing rank %d: rank %d is idle with %d operations", order, failing, r, n)
				}
			}
		}
	}
}

// TestBadBytesDropTheCopiesEverywhere has one rank's bytes change on their way through the host tier. The request fails
// on all ranks, all drop their copies from the bad page on, and the next one is served by a fresh transfer.
func TestBadBytesDropTheCopiesEverywhere(t *testing.T) {
	for _, kind := range []host.Op{host.Load, host.Backup} {
		t.Run(kind.String(), func(t *testing.T) {
			s := newSim(t, simConfig(2, 4, 12, 40))
			bad := host.Fault{Kind: kind, Page: 2, Corrupt: true}
			if kind == host.Backup {
				s.inject(1, bad)
			}
			s.warm(0, 16)
			s.demote()
			if kind == host.Load {
				s.inject(1, bad)
			}
			a := s.add(0, 18, 3)
			s.until("the end", s.done(a))
			s.wantEnd(a, schedule.FinishFailed, abi.ReasonRestoreFailed)
			s.wantTokens(a, 0)
			s.untilIdle()
			if n := s.stores[1].Counters().ChecksumFailures; n != 1 {
				t.Errorf("%d checksums differed on rank 1, want 1", n)
			}
			s.wantBooks(index.Books{Free: 10, Evictable: 2})
			before := s.loaded(0)
			for i, want := range []int{8, 16} {
				b := s.add(0, 18, 3)
				s.until("the next request", s.done(b))
				s.wantEnd(b, schedule.FinishLength, abi.ReasonNone)
				s.wantTokens(b, 3)
				if o := s.Outcome(b); o.Promise != want || o.L1 != want {
					t.Errorf("request %d after the bad bytes is promised %d tokens, %d on the device; want %d", i+1, o.Promise, o.L1, want)
				}
				s.untilIdle()
			}
			if n := s.loaded(0); n != before {
				t.Errorf("%d tokens were loaded again from copies that were dropped", n-before)
			}
		})
	}
}
